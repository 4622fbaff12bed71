#!/usr/bin/env python3
"""Writes the seeds of fuzz_grpc_answer: bodies of answers of proto/firstlight.proto, and odd ones.

    tests/fuzz/grpc_answer_seeds.py
"""

import struct
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[2] / "build/corpus/grpc_answer"


def varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def number(field: int, n: int) -> bytes:
    return varint(field << 3) + varint(n)


def double(field: int, x: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", x)


def bytes_of(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def framed(*messages: bytes, flag: int = 0) -> bytes:
    return b"".join(struct.pack(">BI", flag, len(m)) + m for m in messages)


def choice(text: bytes = b"", finish: bytes = b"") -> bytes:
    fields = number(1, 0) + (bytes_of(2, text) if text else b"")
    return bytes_of(4, fields + (bytes_of(3, finish) if finish else b""))


NAMED = bytes_of(1, b"cmpl-1") + bytes_of(2, b"model") + number(3, 1_700_000_000)
USAGE = bytes_of(5, number(1, 5) + number(2, 7) + number(3, 3))
TTFT = bytes_of(6, b"".join(double(field, 1.5) for field in range(1, 9)))
METRICS = bytes_of(7, b"".join(double(field, 2.5) for field in range(1, 4)))
SEEDS = {
    "stream": framed(NAMED + choice("\u00e9".encode()), choice(b"a"),
                     choice(finish=b"length") + USAGE + TTFT + METRICS),
    "whole": framed(NAMED + choice(b"a b", b"stop") + USAGE + TTFT),
    "empty": framed(b"", b""),
    "cut": framed(choice(b"a")) + framed(choice(b"b"))[:-1],
    "head": framed(choice(b"a")) + b"\0\0",
    "compressed": framed(choice(b"a"), flag=1),
    "flag": framed(choice(b"a")) + framed(choice(b"a"), flag=7),
    "long": struct.pack(">BI", 0, (16 << 20) + 1) + choice(b"a"),
    "no_message": framed(b"\x22\x7f\x12"),
    "odd_times": framed(bytes_of(6, double(4, float("nan")) + double(8, -1.0)),
                        bytes_of(6, double(4, 1e300) + double(8, float("inf")))),
    "half_ttft": framed(bytes_of(6, double(4, 1.5) + double(8, 2.5))),
    "long_finish": framed(choice(finish="\u20ac".encode() * 9), choice(finish=b"\xff\0x")),
    "many": framed(*[choice(b"x")] * 20),
}


def main() -> None:
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, body in SEEDS.items():
        (CORPUS / name).write_bytes(body)


if __name__ == "__main__":
    main()
