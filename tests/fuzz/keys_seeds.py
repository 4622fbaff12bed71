#!/usr/bin/env python3
"""Writes the seeds of fuzz_keys: files of API keys and, behind their last zero byte, a header.

    tests/fuzz/keys_seeds.py
"""

from pathlib import Path

CORPUS = Path(__file__).resolve().parents[2] / "build/corpus/keys"
SEEDS = {
    "two": b"# ours\nsk-one\n\n sk-two \n\0Bearer sk-two",
    "ends": b"\tsk-one\t\r\nsk-two\0bearer   sk-one",
    "comment": b"  # sk-one\n#\n\0Bearer # sk-one",
    "blanks_inside": b"one two # three\n\0Bearer one two # three",
    "utf8": "schl\u00fcssel\n".encode() + b"\xff\xfe\n\0Bearer \xff\xfe",
    "longest": b"k" * 256 + b"\n\0Bearer " + b"k" * 256,
    "too_long": b"k" * 257 + b"\n\0Bearer " + b"k" * 257,
    "begins_alike": b"sk-o\nsk-on\nsk-one\n\0Bearer sk-one1",
    "carriage_return": b"sk-one\rsk-two\n\0Basic sk-one",
    "zero": b"sk-one\0 two\nsk-3\n\0Bearer sk-3",
    "empty": b"\n \n\t\n",
}


def main() -> None:
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, text in SEEDS.items():
        (CORPUS / name).write_bytes(text)


if __name__ == "__main__":
    main()
