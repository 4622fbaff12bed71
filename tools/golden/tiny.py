#!/usr/bin/env python3
"""Makes tests/golden/tiny/: random llama models, one per feature, and their logits.

Each NAME.gguf is a few hundred kilobytes at most; NAME.npy holds the fp32 logits (positions x
vocabulary) of transformers for the ids in manifest.json, computed on the dequantised weights. The
weights are large enough for attention and MLP to matter, and the embeddings small enough for the
norm's epsilon to show: a model with a wrong feature is off by far more than 1e-4.
"""

import dataclasses
import json
import zlib
from pathlib import Path

import gguf
import numpy as np
import transformers
from gguf import GGMLQuantizationType as Q

from reference import GOLDEN, load_weights, logits_of, new_model, permute, provenance, rotated_heads

POSITIONS = 40
CONTEXT = 256
OUT = GOLDEN / "tiny"


@dataclasses.dataclass(frozen=True)
class Tiny:
    """One model. `rope` is transformers' rope_parameters less the base."""

    name: str
    what: str
    d_model: int = 32
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    d_ff: int = 48
    layers: int = 2
    tied: bool = True
    bias: bool = False
    eps: float = 1e-5
    rope_base: float = 10000.0
    rope: dict = dataclasses.field(default_factory=lambda: {"rope_type": "default"})
    weights: Q = Q.F32
    attn_output: Q | None = None  # type of attn_output.weight where it differs

    @property
    def config(self) -> transformers.LlamaConfig:
        return transformers.LlamaConfig(
            vocab_size=len(vocabulary()[0]), hidden_size=self.d_model, head_dim=self.head_dim,
            intermediate_size=self.d_ff, num_hidden_layers=self.layers,
            num_attention_heads=self.heads, num_key_value_heads=self.kv_heads,
            rms_norm_eps=self.eps, max_position_embeddings=CONTEXT, tie_word_embeddings=self.tied,
            attention_bias=self.bias, rope_parameters={**self.rope, "rope_theta": self.rope_base})


def block32(name: str, what: str, weights: Q) -> Tiny:
    return Tiny(name, what, d_model=64, heads=4, head_dim=16, d_ff=64, weights=weights)


def block256(name: str, what: str, weights: Q) -> Tiny:
    """Rows of 256 values, one layer; attn_output's rows are short, so it is Q8_0."""
    return Tiny(name, what, d_model=256, heads=2, kv_heads=1, head_dim=16, d_ff=256, layers=1,
                weights=weights, attn_output=Q.Q8_0)


MODELS = [
    Tiny("base", "grouped-query attention, tied output", d_model=64, head_dim=16, d_ff=64),
    Tiny("mha", "as many KV heads as heads", kv_heads=4),
    Tiny("mqa", "one KV head", kv_heads=1),
    Tiny("untied", "an output head of its own", tied=False),
    Tiny("bias", "biases on q, k, v and attention output", bias=True),
    Tiny("head_dim_16", "head size (16) that is not d_model / heads", head_dim=16),
    Tiny("head_dim_24", "head size 24: a multiple of 8 but not of 16", head_dim=24),
    Tiny("head_dim_40", "head size 40: a multiple of 8 but not of 16", heads=2, kv_heads=1, head_dim=40),
    Tiny("d_ff_50", "a feed-forward width that no vector width divides", d_ff=50),
    Tiny("rope_base", "rope base 500", rope_base=500.0),
    Tiny("rope_linear", "rope scaling: linear, factor 4",
         rope={"rope_type": "linear", "factor": 4.0}),
    Tiny("rope_llama3", "rope scaling: llama3, by rope_freqs.weight", heads=2, kv_heads=1, head_dim=32,
         rope={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64}),
    Tiny("eps", "norm epsilon 1e-3", eps=1e-3),
    block32("f16", "F16 weights", Q.F16),
    block32("bf16", "BF16 weights", Q.BF16),
    block32("q8_0", "Q8_0 weights", Q.Q8_0),
    block32("q4_0", "Q4_0 weights", Q.Q4_0),
    block32("q4_1", "Q4_1 weights", Q.Q4_1),
    block32("q5_0", "Q5_0 weights", Q.Q5_0),
    block32("q5_1", "Q5_1 weights", Q.Q5_1),
    block256("q4_k", "Q4_K weights, mixed with Q8_0", Q.Q4_K),
    block256("q5_k", "Q5_K weights, mixed with Q8_0", Q.Q5_K),
    block256("q6_k", "Q6_K weights, mixed with Q8_0", Q.Q6_K),
    block256("q2_k", "Q2_K weights, mixed with Q8_0", Q.Q2_K),
    block256("q3_k", "Q3_K weights, mixed with Q8_0", Q.Q3_K),
    block32("iq4_nl", "IQ4_NL weights", Q.IQ4_NL),
    block256("iq4_xs", "IQ4_XS weights, mixed with Q8_0", Q.IQ4_XS),
]


def vocabulary() -> tuple[list[str], list[int], list[str]]:
    """Pieces, types and merges: two control tokens, GPT-2's 256 byte pieces, sixteen merges."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in visible]
    piece_of = {b: chr(b) for b in visible} | {b: chr(256 + i) for i, b in enumerate(others)}
    merges = ["Ġ t", "Ġ a", "i n", "h e", "r e", "o n", "Ġt he", "e r", "a t", "Ġ s", "o u", "i s",
              "in g", "Ġ w", "a n", "n d"]
    control = ["<|im_start|>", "<|im_end|>"]
    pieces = control + [piece_of[b] for b in range(256)] + [m.replace(" ", "") for m in merges]
    types = [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (len(pieces) - 2)
    return pieces, types, merges


def generator(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


# Where a type's float16 scales lie and what value they give: d (and dmin, as the multiple of d that
# puts the mean at zero), and the standard deviation of a random block with d = 1.
RANDOM_BLOCKS = {
    Q.Q2_K: (80, 1.5, 13.9),  # d * scale * quant - dmin * min; scale, min: 0..15, quant: 0..3
    Q.Q3_K: (108, None, 43.4),  # d * scale (-32..31) * quant (-4..3)
    Q.Q4_K: (0, 7.5, 57 * 4.6),  # scale, min: 0..63
    Q.Q5_K: (0, 15.5, 57 * 9.2),
    Q.Q6_K: (208, None, 1370),  # d * scale (-128..127) * quant (-32..31)
    Q.IQ4_NL: (0, None, 68.0),  # d * table[quant]
    Q.IQ4_XS: (0, None, 1260.0),  # d * scale (-32..31) * table[quant]
}


def random_blocks(rng: np.random.Generator, shape: tuple[int, ...], kind: Q, std: float) -> np.ndarray:
    """Rows of blocks. Any bytes are a valid block, so they are random but for the float16 scales,
    which set the spread (the gguf package does not quantise to these types)."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    at, middle, spread = RANDOM_BLOCKS[kind]
    blocks = rng.integers(0, 256, (shape[0] * shape[1] // values, size), dtype=np.uint8)
    d = rng.uniform(0.8, 1.2, (len(blocks), 1)) * std / spread
    blocks[:, at : at + 2] = d.astype(np.float16).view(np.uint8)
    if middle is not None:
        blocks[:, at + 2 : at + 4] = (d * middle).astype(np.float16).view(np.uint8)
    return blocks.reshape(shape[0], -1)


def random_tensor(rng: np.random.Generator, shape: tuple[int, ...], kind: Q, std: float):
    """Bytes or floats of a random matrix of `shape` as a GGUF file stores them."""
    if kind in RANDOM_BLOCKS:
        return random_blocks(rng, shape, kind, std)
    values = rng.normal(0, std, shape).astype(np.float32)
    return gguf.quants.quantize(values, kind)


def tensors_of(tiny: Tiny) -> dict[str, tuple[tuple[int, ...], Q, float]]:
    """name -> shape, type, standard deviation, in transformers' orientation (rows = outputs)."""
    d, q, kv, ff = tiny.d_model, tiny.heads * tiny.head_dim, tiny.kv_heads * tiny.head_dim, tiny.d_ff
    kind, vocab = tiny.weights, len(vocabulary()[0])
    spread = 1.5 / np.sqrt(d)
    tensors = {"token_embd.weight": ((vocab, d), kind, 0.06)}
    for i in range(tiny.layers):
        block = {"attn_q": (q, d), "attn_k": (kv, d), "attn_v": (kv, d), "attn_output": (d, q),
                 "ffn_gate": (ff, d), "ffn_up": (ff, d), "ffn_down": (d, ff)}
        for name, shape in block.items():
            kind_here = tiny.attn_output or kind if name == "attn_output" else kind
            std = 0.2 * spread if name in ("attn_output", "ffn_down") else spread
            tensors[f"blk.{i}.{name}.weight"] = (shape, kind_here, std)
            if tiny.bias and name.startswith("attn"):
                tensors[f"blk.{i}.{name}.bias"] = ((shape[0],), Q.F32, 0.3)
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{i}.{name}.weight"] = ((d,), Q.F32, 0.0)
    tensors["output_norm.weight"] = ((d,), Q.F32, 0.0)
    if not tiny.tied:
        tensors["output.weight"] = ((vocab, d), kind, 0.3)
    return tensors


def rope_factors(tiny: Tiny) -> np.ndarray:
    """What llama.cpp's converter writes to rope_freqs.weight: the divisor of each pair's frequency."""
    rope = tiny.rope
    frequency = tiny.rope_base ** -(np.arange(0, tiny.head_dim, 2) / tiny.head_dim)
    wavelength = 2 * np.pi / frequency
    turns = rope["original_max_position_embeddings"] / wavelength
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32)


def write_vocabulary(writer: gguf.GGUFWriter) -> None:
    pieces, types, merges = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(pieces)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)


def write_metadata(writer: gguf.GGUFWriter, tiny: Tiny) -> None:
    writer.add_name(f"tiny {tiny.name}: {tiny.what}")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(tiny.d_model)
    writer.add_block_count(tiny.layers)
    writer.add_feed_forward_length(tiny.d_ff)
    writer.add_head_count(tiny.heads)
    writer.add_head_count_kv(tiny.kv_heads)
    writer.add_layer_norm_rms_eps(tiny.eps)
    writer.add_rope_freq_base(tiny.rope_base)
    writer.add_rope_dimension_count(tiny.head_dim)
    if tiny.head_dim * tiny.heads != tiny.d_model:
        writer.add_key_length(tiny.head_dim)
        writer.add_value_length(tiny.head_dim)
    if tiny.rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(tiny.rope["factor"])
    writer.add_vocab_size(len(vocabulary()[0]))
    write_vocabulary(writer)
    writer.add_add_bos_token(False)


def write_model(tiny: Tiny, path: Path) -> None:
    rng = generator(tiny.name)
    writer = gguf.GGUFWriter(path, "llama")
    write_metadata(writer, tiny)
    if tiny.rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(tiny))
    for name, (shape, kind, std) in tensors_of(tiny).items():
        if name.endswith("norm.weight"):
            data = rng.uniform(0.5, 1.5, shape).astype(np.float32)
        else:
            data = random_tensor(rng, shape, kind, std)
        if heads := rotated_heads(name, tiny.config):
            data = permute(data, heads)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    vocab = len(vocabulary()[0])
    rows = []
    for tiny in MODELS:
        path = OUT / f"{tiny.name}.gguf"
        write_model(tiny, path)
        model = new_model(tiny.config)
        load_weights(model, gguf.GGUFReader(path))
        ids = generator("ids " + tiny.name).integers(0, vocab, POSITIONS).tolist()
        logits = logits_of(model, ids).numpy()
        np.save(OUT / f"{tiny.name}.npy", logits)
        rows.append({"name": tiny.name, "what": tiny.what, "ids": ids})
        print(f"tiny: {tiny.name}: {path.stat().st_size} bytes, logits of {logits.std():.2f} "
              f"standard deviation, {abs(logits).max():.2f} at most", flush=True)
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = json.dumps(provenance("random models, one per feature, with fp32 logits"))
    (OUT / "manifest.json").write_text(f'{{"made": {head},\n"models": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
