#!/usr/bin/env python3
"""A llama GGUF in F32 whose rows are multiples of 256, and which computes the same.

    python tools/widen_gguf.py model.gguf wide.gguf

The K-quants need rows of whole blocks of 256 values; SmolLM2-135M's have 576. So that such types can
be measured on every matrix of a real model, zeros are added: to the hidden state (which stays zero
there), and to it heads and KV heads whose output nobody reads. A norm's mean square is then over
more values, so its weight shrinks by sqrt(old / new) and its epsilon by old / new. The result goes
through `llama-quantize --pure`; docs/models.md has the table. Needs the gguf package.
"""

import sys

import gguf
import numpy as np

BLOCK = 256


def up(n: int, to: int = BLOCK) -> int:
    return -(-n // to) * to


def padded(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(shape, np.float32)
    out[tuple(slice(n) for n in values.shape)] = values
    return out


def main() -> None:
    source, target = sys.argv[1:]
    reader = gguf.GGUFReader(source)
    get = lambda key: reader.fields[key].contents()
    d, ff = get("llama.embedding_length"), get("llama.feed_forward_length")
    heads, kv_heads = get("llama.attention.head_count"), get("llama.attention.head_count_kv")
    head_dim, group = d // heads, heads // kv_heads
    wide = up(d, BLOCK * group)
    while wide // head_dim % group:
        wide += BLOCK
    new_heads = wide // head_dim
    width = {"d": (d, wide), "q": (heads * head_dim, wide), "ff": (ff, up(ff)),
             "kv": (kv_heads * head_dim, new_heads // group * head_dim)}
    shapes = {"attn_q": "qd", "attn_k": "kd", "attn_v": "kd", "attn_output": "dq",
              "ffn_gate": "fd", "ffn_up": "fd", "ffn_down": "df", "token_embd": "-d", "output": "-d"}
    of = {"q": width["q"], "k": width["kv"], "f": width["ff"], "d": width["d"]}
    changed = {"llama.embedding_length": wide, "llama.feed_forward_length": width["ff"][1],
               "llama.attention.head_count": new_heads,
               "llama.attention.head_count_kv": new_heads // group,
               "llama.attention.layer_norm_rms_epsilon":
                   get("llama.attention.layer_norm_rms_epsilon") * d / wide,
               "general.file_type": 0}
    writer = gguf.GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, changed.get(field.name, field.contents()), kind, sub)
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        stem = tensor.name.removesuffix(".weight").split(".")[-1]
        if stem.endswith("norm"):
            values = padded(values * np.float32(np.sqrt(d / wide)), (wide,))
        else:
            values = padded(values, tuple(of[axis][1] if axis in of else values.shape[i]
                                          for i, axis in enumerate(shapes[stem])))
        writer.add_tensor(tensor.name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
