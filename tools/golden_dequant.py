#!/usr/bin/env python3
"""Writes tests/golden/dequant/<type>.bin: a row of random blocks and its values by the gguf package.

    python tools/golden_dequant.py [folder]

Layout: uint32 n, the row's bytes, n float32. Scales are finite binary16 of ordinary size; everything
else in a block is random, which every quantised type allows. Made with gguf 0.19.
"""
import struct
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, quants

# type: (values and bytes per block, offsets of its binary16 scales)
TYPES = {
    "F32": (1, 4, []),
    "F16": (1, 2, []),
    "BF16": (1, 2, []),
    "Q4_0": (32, 18, [0]),
    "Q4_1": (32, 20, [0, 2]),
    "Q5_0": (32, 22, [0]),
    "Q5_1": (32, 24, [0, 2]),
    "Q8_0": (32, 34, [0]),
    "Q4_K": (256, 144, [0, 2]),
    "Q5_K": (256, 176, [0, 2]),
    "Q6_K": (256, 210, [208]),
    "Q2_K": (256, 84, [80, 82]),
    "Q3_K": (256, 110, [108]),
    "IQ4_NL": (32, 18, [0]),
    "IQ4_XS": (256, 136, [0]),
}


def random_blocks(rng, name, n):
    values, size, scales = TYPES[name]
    if not scales:
        floats = rng.standard_normal(n).astype(np.float32)
        if name == "F16":
            return floats.astype(np.float16).view(np.uint8)
        if name == "BF16":
            return (floats.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        return floats.view(np.uint8)
    blocks = rng.integers(0, 256, (n // values, size), dtype=np.uint8)
    for at in scales:
        d = (0.05 * rng.standard_normal(len(blocks))).astype(np.float16)
        blocks[:, at : at + 2] = d.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(-1)


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/dequant")
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(20)
    for name in TYPES:
        n = 512 if TYPES[name][0] == 256 else 256
        row = random_blocks(rng, name, n)
        floats = quants.dequantize(row, GGMLQuantizationType[name]).astype(np.float32)
        assert floats.size == n
        data = struct.pack("<I", n) + row.tobytes() + floats.tobytes()
        (folder / f"{name}.bin").write_bytes(data)


if __name__ == "__main__":
    main()
