#!/usr/bin/env python3
"""Writes the hand-made seeds of build/corpus/tokenizer: one tokenizer.json a kind of step.

    tests/fuzz/tokenizer_seeds.py [FOLDER]
"""

import hashlib
import json
import sys
from pathlib import Path

VOCAB = {token: i for i, token in enumerate(
    ["<unk>", "<s>", "<0x41>", "▁", "a", "b", "ab", "▁ab", "Ġ", "Ġa", "é", "1"])}
MERGES = ["a b", "▁ ab", ["Ġ", "a"]]
ADDED = [{"id": 12, "content": "<x>", "special": True, "normalized": False, "rstrip": True},
         {"id": 13, "content": "é", "special": False, "normalized": True, "single_word": True}]
BPE = {"type": "BPE", "vocab": VOCAB, "merges": MERGES, "unk_token": "<unk>", "fuse_unk": True,
       "byte_fallback": True, "ignore_merges": False}
UNIGRAM = {"type": "Unigram", "unk_id": 0,
           "vocab": [[token, -float(i)] for token, i in VOCAB.items()]}
NORMALIZERS = [{"type": kind} for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip")] + [
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    {"type": "Replace", "pattern": {"Regex": "\\s+|[^\\S\\n]"}, "content": " "},
    {"type": "Sequence", "normalizers": []}, {"type": "Precompiled"}]
PRETOKS = [{"type": kind} for kind in ("ByteLevel", "Digits", "Punctuation", "Whitespace",
                                       "WhitespaceSplit", "BertPreTokenizer")] + [
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
    {"type": "CharDelimiterSplit", "delimiter": "a"}] + [
    {"type": "Split", "pattern": {"Regex": "\\p{L}+|\\w|\\s+$"}, "behavior": behavior,
     "invert": behavior == "Removed"}
    for behavior in ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous")]
DECODER = {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
POST = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                 {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
CONFIG = {"bos_token": "<s>", "eos_token": {"content": "<x>"}, "add_eos_token": True,
          "chat_template": [{"name": "default", "template": "x"}]}


def seeds() -> list[bytes]:
    files = [{"model": BPE, "added_tokens": ADDED, "normalizer": step, "decoder": DECODER}
             for step in NORMALIZERS]
    files += [{"model": BPE, "added_tokens": ADDED, "pre_tokenizer": step} for step in PRETOKS]
    files += [{"model": UNIGRAM, "pre_tokenizer": PRETOKS[6], "decoder": PRETOKS[6],
               "post_processor": POST}]
    out = [json.dumps(file, ensure_ascii=False).encode() for file in files]
    out[0] += b"\xff" + json.dumps(CONFIG).encode() + b"\xffe\xcc\x81 <x>  ab <s> 12\x80"
    return out


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/corpus/tokenizer")
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds():
        (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


if __name__ == "__main__":
    main()
