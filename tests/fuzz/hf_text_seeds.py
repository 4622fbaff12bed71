#!/usr/bin/env python3
"""Writes the hand-made seeds of build/corpus/hf_text: a tokenizer.json of each kind that
convert writes, with the files beside it.

    tests/fuzz/hf_text_seeds.py [FOLDER]
"""

import hashlib
import json
import sys
from pathlib import Path

META = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PIECES = {"<unk>": 0, "<s>": 1, "<0x41>": 2, "▁": 3, "a": 4, "b": 5, "ab": 6, "▁ab": 7}
SENTENCEPIECE = {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>", "vocab": PIECES,
                 "merges": ["a b", ["▁", "ab"]]}
BYTES = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġa": 4},
         "merges": ["a b", ["Ġ", "a"]]}
ADDED = [{"id": 9, "content": "▁▁", "special": False}, {"id": 8, "content": "<x>", "special": True}]
POST = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                 {"Sequence": {"id": "A", "type_id": 0}}]}
CONFIG = {"bos_token": "<s>", "eos_token": {"content": "<x>"}, "add_eos_token": True,
          "added_tokens_decoder": {"12": {"content": "<y>", "special": True}},
          "chat_template": [{"name": "default", "template": "x"}]}
GENERATION = {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.1,
              "repetition_penalty": 1.1, "eos_token_id": [1, 8]}


def seeds() -> list[bytes]:
    spaces = [{"normalizer": {"type": "Sequence", "normalizers":
                              [{"type": "Prepend", "prepend": "▁"}, META]}},
              {"normalizer": META, "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}}}]
    spaces += [{"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "split": False,
                                  "prepend_scheme": scheme}} for scheme in ("first", "always")]
    files = [step | {"model": SENTENCEPIECE, "added_tokens": ADDED, "post_processor": POST}
             for step in spaces]
    files += [{"model": BYTES, "added_tokens": ADDED, "pre_tokenizer":
               {"type": "ByteLevel", "use_regex": True}}]
    generations = [GENERATION, {"do_sample": False, "eos_token_id": 8}, {"temperature": 1e300},
                   {"top_k": -1, "top_p": None}, {"min_p": 2}]
    return [b"\xff".join(json.dumps(part, ensure_ascii=False).encode()
                         for part in (file, CONFIG, generation))
            for file, generation in zip(files, generations)]


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/corpus/hf_text")
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds():
        (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


if __name__ == "__main__":
    main()
