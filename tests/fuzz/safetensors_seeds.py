#!/usr/bin/env python3
"""Writes the seeds of fuzz_safetensors into a directory (build/corpus/safetensors).

    tests/fuzz/safetensors_seeds.py build/corpus/safetensors
"""
import json
import struct
import sys
from pathlib import Path

BITS = {"F32": 32, "F16": 16, "BF16": 16, "F64": 64, "I64": 64, "U8": 8, "BOOL": 8, "F8_E4M3": 8,
        "F4": 4}


def file(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensors(*rows, metadata=None):
    """rows: (name, dtype, shape)."""
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape in rows:
        values = 1
        for d in shape:
            values *= d
        size = values * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return file(header, bytes(i % 251 for i in range(at)))


def info(begin, end, shape=(2,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def seeds():
    yield "empty", b""
    yield "no_tensors", file({})
    yield "metadata", tensors(("w", "F32", [2, 3]), metadata={"format": "pt"})
    yield "model", tensors(("model.norm.weight", "BF16", [4]), ("lm_head.weight", "F16", [3, 4]))
    yield "dtypes", tensors(*((k, k, [2]) for k in BITS))
    yield "scalar_and_none", tensors(("a", "F32", []), ("b", "F32", [0, 7]))
    yield "cut", tensors(("w", "F32", [2]))[:-1]
    yield "longer", tensors(("w", "F32", [2])) + b"x"
    yield "length_2_64", file({}, length=2**64 - 1)
    yield "overlap", file({"a": info(0, 8), "b": info(4, 12)}, bytes(12))
    yield "hole", file({"a": info(0, 8), "b": info(12, 20)}, bytes(20))
    yield "backwards", file({"a": info(8, 0)}, bytes(8))
    yield "past_end", file({"a": info(0, 1 << 62)}, bytes(8))
    yield "shape_wraps", file({"a": info(0, 8, (1 << 32, 1 << 32))}, bytes(8))
    yield "bits_wrap", file({"a": info(0, 8, (1 << 62,))}, bytes(8))
    yield "duplicate", file(b'{"a":%b,"a":%b}' % ((json.dumps(info(0, 8)).encode(),) * 2), bytes(8))
    yield "deep", file(b"[" * 300)
    yield "dtype_unknown", file({"a": info(0, 8, dtype="Q4_0")}, bytes(8))
    yield "dims_9", file({"a": info(0, 8, (1,) * 8 + (2,))}, bytes(8))
    yield "metadata_number", file({"__metadata__": {"a": 1}})


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
