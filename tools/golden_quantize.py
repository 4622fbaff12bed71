#!/usr/bin/env python3
"""Writes tests/golden/quantize/<type>.bin: rows of floats and their blocks by the gguf package.

    python tools/golden_quantize.py [folder]

Layout: uint32 n, n float32, the row's bytes. The floats are normal ones of several scales, and blocks
with zeros, ties for the largest magnitude, halves that round away, and powers of two. gguf 0.19.
"""
import struct
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, quants


def row(rng):
    blocks = [rng.standard_normal(32) * scale for scale in (1, 0.02, 300, 1e-5, 0.05, 0.05, 0.05)]
    blocks.append(np.zeros(32))
    blocks.append(np.where(np.arange(32) % 2, 0.5, -0.5))  # the first of equals decides the sign
    blocks.append(np.where(np.arange(32) % 2, -0.75, 0.75))
    blocks.append((np.arange(32) - 16) * 0.5 + 0.25)
    blocks.append(np.concatenate([[127.0], np.arange(31) + 0.5]))  # halves, scale 1
    blocks.append(np.concatenate([[-8.0], np.arange(31) % 16 - 7.5]))
    blocks.append(2.0 ** -np.arange(32))
    return np.concatenate(blocks).astype(np.float32)


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/quantize")
    folder.mkdir(parents=True, exist_ok=True)
    values = row(np.random.default_rng(7))
    for name in ("Q4_0", "Q8_0", "F16", "BF16", "F32"):
        data = quants.quantize(values, GGMLQuantizationType[name])
        (folder / f"{name}.bin").write_bytes(
            struct.pack("<I", values.size) + values.tobytes() + data.tobytes())


if __name__ == "__main__":
    main()
