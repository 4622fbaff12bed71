#!/usr/bin/env python3
"""Writes the seeds of fuzz_http2 into build/corpus/http2; tools/corpus makes them its archive."""

import gzip
import hashlib
import struct
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "build/corpus/http2"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
QUICK = b"\xff"  # 255 bytes at a time
SLOW = b"\x03"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A field as HPACK writes it without tables or Huffman's code."""
    return (b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode())


def call(path, body, stream=1, end=1, *more):
    fields = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", path), *more]
    block = b"".join(literal(*field) for field in fields)
    return frame(HEADERS, 4, stream, block) + frame(DATA, end, stream, body)


def message(data, flag=0):
    return struct.pack(">BI", flag, len(data)) + data


GRPC = ("content-type", "application/grpc")
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
REFLECT = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
GENERATE = "/firstlight.v1.Inference/Generate"
PROMPT = b"\x0a\x05Hello"

SEEDS = [
    QUICK + frame(SETTINGS) + call(CHECK, message(b""), 1, 1, GRPC),
    SLOW + frame(SETTINGS) + call(CHECK, message(b"\x0a\x01x"), 1, 1, GRPC),
    QUICK + call(WATCH, message(b""), 1, 1, GRPC) + frame(RST, 0, 1, b"\0\0\0\x08"),
    QUICK + call(REFLECT, message(b"\x3a\x00") + message(b"\x1a\x10firstlight.proto")
                 + message(b"\x22\x17firstlight.v1.Inference"), 1, 1, GRPC),
    QUICK + call(REFLECT, message(b"\x3a\x00")[:4], 1, 0, GRPC) + frame(DATA, 1, 1, b"\x02\x3a\0"),
    QUICK + call(GENERATE, message(PROMPT), 1, 1, GRPC, ("grpc-timeout", "5S")),
    QUICK + call(GENERATE, message(PROMPT, 1), 1, 1, GRPC, ("grpc-encoding", "gzip")),
    QUICK + call(GENERATE, message(gzip.compress(PROMPT, mtime=0), 1), 1, 1, GRPC,
                 ("grpc-encoding", "gzip")),
    QUICK + call(GENERATE, message(gzip.compress(bytes(100_000), mtime=0), 1), 1, 1, GRPC,
                 ("grpc-encoding", "gzip")),
    QUICK + call("/v1/models?x=1", b"abc", 1, 1) + call("/y", b"", 3, 0) + frame(DATA, 1, 3, b"z"),
    QUICK + frame(PING, 0, 0, b"12345678") + frame(WINDOW, 0, 0, b"\0\0\1\0")
    + frame(PRIORITY, 0, 1, b"\0\0\0\0\x10") + frame(GOAWAY, 0, 0, bytes(8)),
    QUICK + frame(SETTINGS, 0, 0, b"\0\4\0\0\0\0") + call("/x", b"a", 1, 1)
    + frame(WINDOW, 0, 1, b"\0\0\0\1"),
    b"\0" + PROMPT + b"\x1a\x06\x08\x05\x68\x02\x70\x01" + b"\x22\x03\x0a\x01m",
    b"\0" + b"\x12\x05\x0a\x03\x05\x06\x07" + b"\x28\x01",
    b"\1" + b"\x0a\x0c\x0a\x04user\x12\x04Hi!?" + b"\x12\x09\x5a\x02ab\x62\x03\x08\x05\x15",
]


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS:
        (FOLDER / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


if __name__ == "__main__":
    main()
