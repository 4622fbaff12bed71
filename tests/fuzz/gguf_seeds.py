#!/usr/bin/env python3
"""Writes the seeds of fuzz_gguf into a directory (build/corpus/gguf): small valid files of
both versions with every value type and tensor type, and the broken ones a fuzzer finds slowly.

    tests/fuzz/gguf_seeds.py build/corpus/gguf
"""
import struct
import sys
from pathlib import Path

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?",
           U64: "Q", I64: "q", F64: "d"}
# number in the file: (values per block, bytes per block)
BLOCKS = {0: (1, 4), 1: (1, 2), 30: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24),
          8: (32, 34), 12: (256, 144), 13: (256, 176), 14: (256, 210)}


def string(text):
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def body(kind, value):
    """A value's bytes after its type; an array's value is (element kind, list)."""
    if kind == STRING:
        return string(value)
    if kind == ARRAY:
        element, items = value
        return struct.pack("<IQ", element, len(items)) + b"".join(body(element, x) for x in items)
    return struct.pack("<" + FORMATS[kind], value)


def pair(key, kind, value):
    return string(key) + struct.pack("<I", kind) + body(kind, value)


def info(name, dims, kind, offset):
    return string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def gguf(pairs=(), tensors=(), version=3, alignment=32, infos=None, counts=None, magic=b"GGUF"):
    """tensors: (name, dims, kind). infos replaces theirs; counts the header's (tensors, pairs)."""
    written, data = [], b""
    for name, dims, kind in tensors:
        data += b"\0" * (-len(data) % alignment)
        written.append(info(name, dims, kind, len(data)))
        values, size = 1, BLOCKS[kind]
        for d in dims:
            values *= d
        data += bytes(i % 251 for i in range(values // size[0] * size[1]))
    infos = written if infos is None else infos
    counts = counts or (len(infos), len(pairs))
    head = magic + struct.pack("<IQQ", version, *counts) + b"".join(pairs) + b"".join(infos)
    return head + b"\0" * (-len(head) % alignment) + data


def model():
    """The keys and tensors of a tiny Llama."""
    words = ["<s>", "</s>", "a", "\u0120the", "\n"]
    pairs = [pair("general.architecture", STRING, "llama"),
             pair("llama.context_length", U32, 64), pair("llama.block_count", U32, 1),
             pair("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
             pair("tokenizer.ggml.model", STRING, "gpt2"),
             pair("tokenizer.ggml.tokens", ARRAY, (STRING, words)),
             pair("tokenizer.ggml.token_type", ARRAY, (I32, [3, 3, 1, 1, 1])),
             pair("tokenizer.ggml.add_bos_token", BOOL, True)]
    return gguf(pairs, [("token_embd.weight", [32, 5], 3), ("blk.0.attn_q.weight", [32, 32], 8),
                        ("output_norm.weight", [32], 0)])


def seeds():
    numbers = [pair(f"n.{kind}", kind, 1) for kind in FORMATS]
    arrays = [pair(f"a.{kind}", ARRAY, (kind, [0, 1, 1])) for kind in FORMATS]
    one = [pair("k", U8, 1)]
    nested = (ARRAY, [(STRING, ["a", ""]), (U16, [1, 2]), (ARRAY, [(F64, [0.5])])])
    big = 1 << 62
    yield "empty", b""
    yield "empty_v2", gguf(version=2)
    yield "empty_v3", gguf()
    yield "model", model()
    yield "model_cut", model()[:-1]
    yield "numbers", gguf(numbers, version=2)
    yield "arrays", gguf(arrays)
    yield "nested", gguf([pair("n", ARRAY, nested), pair("s", STRING, b"\xff\0x")])
    yield "tensor_types", gguf([], [(f"t{k}", [BLOCKS[k][0], 2], k) for k in BLOCKS])
    yield "alignment_8", gguf([pair("general.alignment", U32, 8)],
                              [("a", [3], 0), ("b", [1, 1, 1, 2], 1)], alignment=8)
    yield "alignment_3", gguf([pair("general.alignment", U32, 3)])
    yield "version_1", gguf(version=1)
    yield "big_endian", gguf(version=0x03000000)
    yield "zip", gguf(magic=b"PK\3\4")
    yield "tensors_2_64", gguf(counts=(2**64 - 1, 0))
    yield "pairs_2_64", gguf(one, counts=(0, 2**64 - 1))
    yield "key_2_64", gguf([b"\xff" * 8 + b"x" * 12])
    yield "array_wraps", gguf([string("k") + struct.pack("<IIQI", ARRAY, U32, big + 1, 0)])
    yield "array_deep", gguf([string("k") + struct.pack("<I", ARRAY)
                              + struct.pack("<IQ", ARRAY, 1) * 8])
    yield "array_wide", gguf([string("k") + struct.pack("<IIQ", ARRAY, ARRAY, 100)
                              + struct.pack("<IQ", U8, 0) * 100])
    yield "duplicate_key", gguf(one + one)
    yield "duplicate_tensor", gguf([], [("t", [1], 0), ("t", [1], 0)])
    yield "iq4_xs", gguf([], infos=[info("t", [256], 23, 0)])
    yield "dims_0", gguf([], infos=[info("t", [0], 0, 0)])
    yield "dims_5", gguf([], infos=[info("t", [1] * 5, 0, 0)])
    yield "dims_wrap", gguf([], infos=[info("t", [4, big], 0, 0)])
    yield "bytes_wrap", gguf([], infos=[info("t", [big], 0, 0)])
    yield "offset_wraps", gguf([], infos=[info("t", [8], 0, 2**64 - 32)])
    yield "offset_odd", gguf([], [("t", [64], 0)], infos=[info("t", [1], 0, 7)])


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
