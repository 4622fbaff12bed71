#!/usr/bin/env python3
"""Makes tests/golden/tokenizer/smollm.json: texts with the ids that llama.cpp gives them.

    tools/golden_tokenizer.py --llama DIR --model FILE.gguf [--out FILE]

DIR is a llama.cpp source tree with static libraries under DIR/build. A client of a few lines is
compiled against them, since starting llama-tokenize once per text takes minutes. Where the Python
module `tokenizers` is installed, every text also goes through the published rules (those of
tokenizer.json: digits one by one, then GPT-2's expression, byte-level BPE without a normalizer),
rebuilt from the GGUF file; texts where the two disagree are listed under "disagreements".
"""

import argparse
import hashlib
import json
import random
import struct
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

CLIENT = r"""
#include "llama.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
    (void)level, (void)text, (void)data;
}

/* Standard input: length, special flag, text; again and again. Standard output: a line of ids. */
int main(int argc, char **argv)
{
    struct llama_model_params params = llama_model_default_params();
    struct llama_model *model;
    uint32_t head[2];

    llama_log_set(quiet, NULL);
    params.vocab_only = true;
    if (argc != 2 || !(model = llama_model_load_from_file(argv[1], params)))
        return 1;
    while (fread(head, sizeof head, 1, stdin) == 1) {
        char *text = malloc(head[0] + 1);
        int32_t room = (int32_t)head[0] + 16, *ids = malloc(sizeof *ids * room);
        if (fread(text, 1, head[0], stdin) != head[0])
            return 1;
        int32_t n = llama_tokenize(llama_model_get_vocab(model), text, (int32_t)head[0], ids, room,
                                   false, head[1] != 0);
        for (int32_t i = 0; i < n; i++)
            printf(i ? " %d" : "%d", ids[i]);
        putchar('\n');
        free(text);
        free(ids);
    }
    return 0;
}
"""

PROSE = """\
The quick brown fox jumps over the lazy dog.|Hello, world!|\
I can't believe it's not butter; we've said they'll, I'd, you're, she's, I'm.|\
WE'VE SHOUTED: THEY'LL, I'D, YOU'RE, IT'S|'s 't 're 've 'm 'll 'd|'S 'T 'RE 'VE 'M 'LL 'D|\
don’t use ‘curly’ “quotes”—dashes – and…|naïve café résumé coöperate Zürich Ångström|\
Straße Größe über ÄÖÜ äöü ß ẞ|El niño comió piñata en España. ¿Qué? ¡Sí!|\
Ça va? Où est l'œuvre d'art? L'été, c'est ça.|Você não está à vontade.|Zażółć gęślą jaźń|\
Příliš žluťoučký kůň úpěl ďábelské ódy|Árvíztűrő tükörfúrógép|İstanbul'da ışık ığdır I i|\
Tiếng Việt có dấu: ngữ nghĩa, phở, Nguyễn|Þórður ætti að læra íslensku|\
Съешь же ещё этих мягких французских булок, да выпей чаю.|Привет, мир! Это тест 123.|\
Україна — ґ є і ї|Ѳита Ѣ ѣ ҂а|Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.|\
Γειά σου Κόσμε! ΑΒΓ αβγ άέήίόύώ|ἀρχῇ ἦν ὁ λόγος|السلام عليكم ورحمة الله|مرحبا بالعالم ١٢٣٤٥|\
الْعَرَبِيَّة مع التشكيل|فارسی: سلام دنیا می‌خواهم ۱۲۳|اردو میں لکھا ہوا|שלום עולם|\
בְּרֵאשִׁית בָּרָא אֱלֹהִים|ייִדיש|नमस्ते दुनिया|हिन्दी में एक वाक्य है। १२३|क्ष त्र ज्ञ श्र|\
বাংলা ভাষা|தமிழ் மொழி|తెలుగు భాష|ಕನ್ನಡ|മലയാളം|ગુજરાતી|ਪੰਜਾਬੀ|සිංහල|สวัสดีชาวโลก|\
ภาษาไทยไม่มีช่องว่างระหว่างคำ ๑๒๓|ພາສາລາວ|ភាសាខ្មែរ|မြန်မာဘာသာ|བོད་ཡིག|ქართული ენა|\
Հայերեն լեզու|አማርኛ ቋንቋ|ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ|ᠮᠣᠩᠭᠣᠯ|你好，世界！|我今天去了商店，买了三个苹果。|繁體中文測試：臺灣、香港|〇一二三四五六七八九十百千万|\
中文English混合text测试123|𠮷野家 𠀀 𪚥 𫝀|日本語のテキスト：ひらがな、カタカナ、漢字。|こんにちは世界|ｶﾀｶﾅ ﾊﾝｶｸ ＡＢＣ１２３|ゔ が か゛ ヿ 々 〆|\
안녕하세요 세계|대한민국 만세 123개|ㄱㄴㄷ ㅏㅑㅓ 각 한글|Ⅳ Ⅻ ⅷ ½ ¼ ⅓ ² ³ ₂ ① ⑩ ㊿ ༳|٠١٢٣٤٥٦٧٨٩ ०१२३ ๐๑๒ 𝟎𝟏𝟐 ０１２|\
ª º ʰ ʷ ǅ ǈ ᾈ|∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α ∧ ¬β ≠ ∅|E = mc², ∑ᵢ xᵢ² ≤ ∞, √2 ≈ 1.41421|\
€100 £20 ¥3000 ₹50 $1.99 ¢ ₿|© ® ™ § ¶ † ‡ • ‰ № ℃ Å|←↑→↓↔⇒⇔ ▲▼◆○●★☆ ♠♥♦♣ ♪♫|\
┌─┬─┐ │ ├─┼─┤ └─┴─┘ ░▒▓█|ʃɹ̩ː ɪntəˈnæʃənəl fəˈnɛtɪk|𝓗𝓮𝓵𝓵𝓸 𝕎𝕠𝕣𝕝𝕕 𝔄𝔅ℭ|🄰🄱🄲 🅰🅱 Ⓐⓑ|ﬁ ﬂ ﬀ ﬃ ﬅ|\
𐎀𐎁𐎂 𐤀𐤁 𓀀𓀁 𒀀𒀁 𐌰𐌱|😀😃😄 🤔|👍🏽 👋🏿 🤷‍♀️ 🤦🏻‍♂️|👨‍👩‍👧‍👦 👩‍❤️‍💋‍👨 🏳️‍🌈 🏴‍☠️|🇩🇪🇺🇸🇯🇵 🇪🇺|🏴󠁧󠁢󠁥󠁮󠁧󠁿|\
1️⃣ 2️⃣ #️⃣ *️⃣|❤ ❤️ ☺ ☺️ ☎︎|I ❤️ 🍕 and 🎉!!!|(╯°□°)╯︵ ┻━┻|¯\\_(ツ)_/¯|ಠ_ಠ ʕ•ᴥ•ʔ"""

CODE = [
    '#include <stdio.h>\n\nint main(void)\n{\n\tprintf("%d\\n", 0x7fff);\n\treturn 0;\n}\n',
    "def f(x: int) -> int:\n    if x <= 1:\n        return 1\n    return x * f(x - 1)  # n!\n",
    "class A:\n\tdef __init__(self, *args, **kwargs):\n\t\tself._x = args[0] if args else None\n",
    "fn main() {\n    let v: Vec<u8> = (0..=255).collect();\n    println!(\"{:?}\", &v[..4]);\n}\n",
    "const f = async (x) => { await g(x ?? 0); return `${x}px`; };\n",
    "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(\"hi\", 1<<10)\n}\n",
    "public static void main(String[] args) throws IOException { int[] a = new int[10]; }",
    "template <typename T> T &&fwd(T &x) noexcept(true) { return static_cast<T &&>(x); }",
    "SELECT a.id, COUNT(*) AS n FROM t1 a LEFT JOIN t2 b ON a.id=b.id WHERE b.x>=10.5 GROUP BY 1;",
    "#!/bin/bash\nset -euo pipefail\nfor f in *.txt; do mv -- \"$f\" \"${f%.txt}.md\"; done\n",
    "<!DOCTYPE html>\n<html><head><title>A &amp; B</title></head>"
    "<body class=\"x\">&nbsp;</body></html>",
    '{"a": [1, 2.5e-3, null, true], "b": {"c": "\\u00e9\\n"}}',
    "a:\n  - b: 1\n    c: 'd'\n  - e: |\n      text\n",
    "\\documentclass{article}\\begin{document}$\\frac{a}{b}$\\end{document}",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n# H1\n## H2\n* item\n1. one\n```c\nint x;\n```\n",
    "diff --git a/x b/x\n@@ -1,3 +1,4 @@\n-old\n+new\n context\n",
    "(defun fact (n) (if (<= n 1) 1 (* n (fact (- n 1)))))",
    "main = do { xs <- getLine; mapM_ print $ map (+1) [1..10] }",
    "if (a&&b||!c) x>>=2; y^=~z; p->q::r; i++; --j; a?b:c; x...y",
    "https://example.org/path/to?q=a%20b&x=1#frag user@example.org C:\\Windows\\System32",
    "^(?:[a-z0-9!#$%&'*+/=?^_`{|}~-]+)@\\d{1,3}(\\.\\d{1,3}){3}$",
    "x = 0b1010 + 0o17 + 0xDEADBEEF + 1_000_000 + 3.14e-10j",
    "def g():\n        \n    pass\n\n\n\n        return\t\t\n \n  \n   x",
    "\tif err != nil {\n\t\treturn nil, fmt.Errorf(\"open %q: %w\", path, err)\n\t}\n",
    "mov eax, dword ptr [rbp-0x14]\n.L3:\n\tjmp\t.L2\n",
    "fun <T> List<T>.second(): T? = if (size > 1) this[1] else null",
    "puts \"#{x} is #{y ? 'a' : \"b\"}\" unless @z.nil?",
    "$x = isset($_GET['a']) ? htmlspecialchars($_GET['a']) : null; // <?php ?>",
    "FROM debian:12\nRUN apt-get update && apt-get install -y gcc \\\n    make\n",
    "0000000: 7f45 4c46 0201 0100 0000 0000 0000 0000  .ELF............",
]

SPACES = ["\t", "\n", "\v", "\f", "\r", " ", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u180e",
          "\u2000", "\u2003", "\u2009", "\u200a", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f",
          "\u2060", "\u3000", "\ufeff"]

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<reponame>",
            "<file_sep>",
            "<filename>", "<gh_stars>", "<issue_start>", "<issue_comment>", "<issue_closed>",
            "<jupyter_start>", "<jupyter_text>", "<jupyter_code>", "<jupyter_output>",
            "<jupyter_script>", "<empty_output>"]

BROKEN = ["<|im_start|", "<|im_start", "|im_start|>", "< |im_start|>", "<|im_start |>",
          "<|IM_START|>",
          "<<|im_start|>>", "<|im_<|im_end|>start|>", "<|im_start|><|im_start|>",
          "<|im_\u200bstart|>",
          "<|im_end|>\n<|im_start|>assistant\n", "<|endoftext|><|endoftext", "<|<|<|im_start|>|>|>",
          "<file_sep><file_sep", "<repo_name><reponame>", "<|im_start|>user\nHi<|im_end|>\n",
          "a<|im_end|>b", " <|im_end|> ", "\n<|im_end|>\n", "  <|im_start|>  user", "<", "<|",
          "<|i",
          "<issue_", "<issue_start><issue_comment>x<issue_closed>", "1<|im_end|>2", "<|im_end|>'s",
          "<s>", "</s>", "<unk>", "<pad>", "[INST]", "<|system|>", "<|eot_id|>", "<0x0A>",
          "<｜User｜>"]

INVALID = ["80", "bf", "c0", "c080", "c1bf", "c2", "c241", "e2", "e282", "e28241", "e282ac80",
           "e08080",
           "e09fbf", "eda080", "edbfbf", "eda080edb080", "f0", "f09f", "f09f98", "f09f9841",
           "f0808080",
           "f08fbfbf", "f4908080", "f5808080", "f888808080", "fe", "ff", "fffe", "feff0041",
           "48656c6c6f20ff20776f726c64", "c3a9c3", "c3c3a9", "e4bda0e5a5", "e4bda0e5a541",
           "616263f09f9880f09f98", "2080208120", "0a80", "800a", "31f032", "27ff73", "20ff", "ff20",
           "3c7c696d5f7374617274c07c3e", "3c7c696d5f73746172747c3eff", "e280e280e280", "ffffffff",
           "e0a0e0a0", "f48fbfbf", "efbfbd", "efbfbdff", "c3a9ffc3a9", "00ff00"]
THROWING = ["f4908080", "f5808080"]  # llama_tokenize does not return from these


def whitespace_texts() -> list[str]:
    out = []
    for space in SPACES:
        out += [space, space * 2, f"a{space}b", f"a{space * 3}b{space}", f" {space}x", f"{space} 1"]
    for n in (2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 64, 100):
        out += [" " * n, " " * n + "x", "x" + " " * n, "\n" * n, "\t" * n + "y"]
    out += ["\r\n", "\r\n\r\n", "a\r\nb\r\n", "a\n\rb", " \n", "\n ", " \n ", "\n \n x", "\t \t x",
            " \t\n\r x", "a \n\n\tb", "   \n   \n", "x  \n", "a\u00a0 b", "a \u00a0b",
            "\u3000\u3000字"]
    return out


def digit_texts() -> list[str]:
    out = [str(n) for n in (0, 7, 42, 123, 2024, 31415, 1234567890)]
    out += ["1" * n for n in (4, 9, 33)]
    out += ["3.14159", "1,234,567.89", "1e-10", "-5", "+5", "1st 2nd 3rd", "2024-01-31T23:59:59Z",
            "a1b2c3",
            "x1", "1x", " 1", "  12", "1 2", "1  2", "1\n2", "12%", "$12", "#1", "v1.2.3-rc4",
            "'1", "1's",
            "10's", "½1", "1½", "٣3", "3٣٣", "Ⅷ8", "①1①", "²2", "192.168.0.1", "0x1F", "1/2",
            "(1)", "1.",
            ".1", "1..2", "一1二2", "1é", "é1", "1😀2", "😀1", "零〇"]
    return out


def contraction_texts() -> list[str]:
    out = []
    for suffix in ("s", "t", "re", "ve", "m", "ll", "d", "S", "LL", "x", "r", "v", "l", "st",
                   "lly", "ſ", "K"):
        out += [f"it'{suffix}", f" '{suffix}", f"''{suffix}"]
    return out + ["rock 'n' roll", "y'all'd've", "o'clock", "l'été", "'", "''", "'''", "' s",
                  "'\ns",
                  "1's", "。's", "’s"]


def mark_texts() -> list[str]:
    out = ["e\u0301", "\u0301", "\u0301e", " \u0301", "a\u0300\u0301\u0302", "\u0300" * 9,
           "1\u0301",
           "\u0301\u0301 x", "\u200d", "a\u200db", "\u200d\u200d", "\ufe0f", "☺\ufe0f", "\u20e3",
           "1\u20e3",
           "\u0903", "क\u093f", "\u093f", "\u0e31", "ก\u0e31", "\u05b0", "\u064e", "\u3099",
           "か\u3099",
           "\U000e0100", "字\U000e0100", "\u0345", "Z̷̢̛a̸l̶g̵o̴", "\u1160", "\u1100\u1161\u11a8",
           "\u115f"]
    out += [chr(c) for c in (0, 1, 2, 3, 4, 5, 6, 7, 8, 0x0e, 0x12, 0x13, 0x14, 0x15, 0x16, 0x1a,
                             0x1b, 0x1d, 0x7f,
                             0x80, 0x9f, 0xad, 0x378, 0x600, 0x61c, 0x200e, 0x202e, 0x2066,
                             0xd7ff, 0xe000,
                             0xf8ff, 0xfdd0, 0xfffd, 0xfffe, 0xffff, 0x1f9ff, 0x1ffff, 0x31350,
                             0x40000,
                             0xe0001, 0xf0000, 0x10fffd, 0x10ffff)]
    return out + ["a\0b", "\0\0\0", "a\x04b", "\x1b[31mred\x1b[0m", "a\x7fb", "x\ue000y",
                  "x\U00040000y", "\x04\x06"]


def random_texts(count: int) -> list[str]:
    """Mixes of everything, always the same ones."""
    random.seed(20260101)
    words = PROSE.replace("|", " ").split() + list("'\"(){}[]<>|!?.,;:-_=+*/\\@#$%^&~`") + SPACES
    words += ["'s", "'ll", "'RE", "12", "3", "007", "  ", "\n\n", "\r\n"] + SPECIALS + BROKEN[:12]
    out = []
    for i in range(count):
        chosen = [random.choice(words) for _ in range(3 + i % 23)]
        out.append(random.choice(["", " ", " "]).join(chosen))
    return out


def long_texts() -> list[str]:
    prose = PROSE.replace("|", "\n")
    return ["a" * 3000, "ab" * 1500, "0" * 500, " " * 2000, "\n" * 1000, "!" * 1000, "字" * 700,
            "é" * 900,
            "😀" * 300, "=" * 80 + "\n" + "-" * 80, "the " * 800, "<|im_end|>" * 100, "<" * 500,
            "'s" * 400, "ACGT" * 500, "supercalifragilisticexpialidocious" * 20, prose[:4000],
            "\n".join(CODE)]


def texts() -> list[str]:
    out = [""] + PROSE.split("|") + CODE + whitespace_texts() + digit_texts() + contraction_texts()
    out += mark_texts() + SPECIALS + BROKEN + [f"x {s} y" for s in SPECIALS[:4]]
    out += random_texts(120) + long_texts()
    return list(dict.fromkeys(out))


class Llama:
    """llama.cpp's tokenizer on one model."""

    def __init__(self, source: Path, model: Path, folder: Path):
        self.model = model
        self.client = folder / "client"
        build = source / "build"
        libraries = [build / "src/libllama.a"] + [
            build / f"ggml/src/lib{name}.a" for name in ("ggml", "ggml-cpu", "ggml-base")]
        (folder / "client.c").write_text(CLIENT)
        subprocess.run(["gcc", "-O1", "-c", folder / "client.c", "-o", folder / "client.o",
                        f"-I{source}/include", f"-I{source}/ggml/include"], check=True)
        subprocess.run(["g++", folder / "client.o", "-o", self.client, *libraries, "-fopenmp",
                        "-lpthread",
                        "-ldl"], check=True)

    def encode(self, data: list[bytes], special: bool) -> list[list[int]]:
        stream = b"".join(struct.pack("<II", len(text), special) + text for text in data)
        out = subprocess.run([self.client, self.model], input=stream, stdout=subprocess.PIPE,
                             check=True)
        lines = out.stdout.decode().split("\n")[:-1]
        assert len(lines) == len(data), f"{len(lines)} lines for {len(data)} texts"
        return [[int(word) for word in line.split()] for line in lines]


def published(model: Path, source: Path):
    """The published tokenizer from the GGUF file's vocabulary; None without `tokenizers`."""
    try:
        from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    except ImportError:
        return None
    sys.path.insert(0, str(source / "gguf-py"))
    from gguf import GGUFReader
    fields = GGUFReader(model).fields
    read = lambda key: [bytes(fields[key].parts[i]).decode() for i in fields[key].data]
    tokens, merges = read("tokenizer.ggml.tokens"), read("tokenizer.ggml.merges")
    types = [int(fields["tokenizer.ggml.token_type"].parts[i][0])
             for i in fields["tokenizer.ggml.token_type"].data]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)},
                                     [tuple(merge.split(" ")) for merge in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False)])
    control = [token for token, kind in zip(tokens, types) if kind == 3]
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


def cases(llama: Llama, tokenizer) -> tuple[list[dict], list[dict]]:
    sources = [text.encode() for text in texts()] + [bytes.fromhex(digits) for digits in INVALID]
    repaired = [data.decode(errors="replace") for data in sources]
    encoded = [text.encode() for text in repaired]
    special, plain = llama.encode(encoded, True), llama.encode(encoded, False)
    raw = llama.encode([b"" if data.hex() in THROWING else data for data in sources], True)
    out, disagreements = [], []
    for data, text, ids, plain_ids, raw_ids in zip(sources, repaired, special, plain, raw):
        case = {"text": text} if data == text.encode() else {"hex": data.hex()}
        if "hex" in case and raw_ids != ids and data.hex() not in THROWING:
            case["llama_cpp_on_raw_bytes"] = raw_ids
        out.append(case | {"special": ids} | ({"plain": plain_ids} if plain_ids != ids else {}))
        if tokenizer and (theirs := tokenizer.encode(text, add_special_tokens=False).ids) != ids:
            disagreements.append({"text": text, "llama_cpp": ids, "tokenizers": theirs})
    return out, disagreements


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llama", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("tests/golden/tokenizer/smollm.json"))
    args = parser.parse_args()
    version = subprocess.run([args.llama / "build/bin/llama-tokenize", "--version"],
                             capture_output=True,
                             text=True, check=True)
    tokenizer = published(args.model, args.llama)
    with tempfile.TemporaryDirectory() as folder:
        found, disagreements = cases(Llama(args.llama, args.model, Path(folder)), tokenizer)
    head = {
        "about": "Texts and the token ids that llama.cpp gives them, nothing added. `special`: "
                 "special tokens parsed; `plain`: not parsed, absent where it is the same.",
        "made_by": "tools/golden_tokenizer.py --llama DIR --model FILE.gguf",
        "llama_cpp": (version.stdout + version.stderr).strip().splitlines()[0],
        "model": {"file": args.model.name,
                  "sha256": hashlib.sha256(args.model.read_bytes()).hexdigest()},
        "notes": [
            "`hex` texts are not UTF-8. Expected are llama.cpp's ids for the text after each "
            "maximal invalid part became U+FFFD (Unicode 15, section 3.9), as every reader of a "
            "str sees it. Given the raw bytes, llama.cpp replaces byte by byte, takes overlong "
            "forms and surrogates for characters, and throws past U+10FFFF; "
            "`llama_cpp_on_raw_bytes` is what it answers where that differs.",
            "Bytes that the vocabulary lacks (04 06 13 14 16 1D F1 F2 ...) yield no token, in "
            "both.",
        ],
        "published_rules": f"compared with tokenizers {metadata.version('tokenizers')}"
                           if tokenizer else "not compared: no module tokenizers",
        "disagreements": disagreements,
    }
    rows = ",\n".join("  " + json.dumps(case, ensure_ascii=True) for case in found)
    body = json.dumps(head, ensure_ascii=True, indent=1)[:-2]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(f'{body},\n "cases": [\n{rows}\n ]\n}}\n')
    print(f"{args.out}: {len(found)} texts, {len(disagreements)} disagreements")


if __name__ == "__main__":
    main()
