"""The reference implementation that golden vectors come from: transformers on PyTorch, in fp32.

load_model opens a GGUF file of architecture llama as a LlamaForCausalLM whose weights are the file's,
dequantised by the gguf package. load_tokenizer builds the tokenizer from the file's vocabulary and
merges with the rules of the model's published tokenizer.json (digits split one by one, then GPT-2's
pattern); transformers' own conversion from GGUF loses the digit split.
"""

import datetime
import importlib.metadata
import platform
import sys
from pathlib import Path

import gguf
import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"

# GGUF's name of a tensor inside a block -> transformers'
BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}


def provenance(what: str) -> dict:
    """How a golden file was made: the head of each."""
    return {
        "what": what,
        "made_by": "make golden: " + " ".join(Path(a).name for a in sys.argv),
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "gguf": importlib.metadata.version("gguf"),
    }


def hf_name(name: str) -> str:
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{BLOCK_NAMES[parts[2]]}.{parts[3]}"
    return f"{TOP_NAMES[parts[0]]}.{parts[1]}"


def permute(rows: np.ndarray, heads: int) -> np.ndarray:
    """transformers' row order of a q or k projection (halves rotate together) -> GGUF's (neighbours)."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, 2, half, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def unpermute(rows: np.ndarray, heads: int) -> np.ndarray:
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, half, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def rotated_heads(name: str, config: transformers.LlamaConfig) -> int:
    """Heads of a tensor that GGUF holds permuted; 0 for all others."""
    if ".attn_q." in name:
        return config.num_attention_heads
    return config.num_key_value_heads if ".attn_k." in name else 0


def config_of(reader: gguf.GGUFReader) -> transformers.LlamaConfig:
    def get(key: str):
        return reader.fields["llama." + key].contents()

    vocab = len(reader.fields["tokenizer.ggml.tokens"].data)
    return transformers.LlamaConfig(
        vocab_size=vocab,
        hidden_size=get("embedding_length"),
        intermediate_size=get("feed_forward_length"),
        num_hidden_layers=get("block_count"),
        num_attention_heads=get("attention.head_count"),
        num_key_value_heads=get("attention.head_count_kv"),
        rms_norm_eps=float(get("attention.layer_norm_rms_epsilon")),
        max_position_embeddings=get("context_length"),
        rope_parameters={"rope_type": "default", "rope_theta": float(get("rope.freq_base"))},
        tie_word_embeddings="output.weight" not in {t.name for t in reader.tensors},
    )


def new_model(config: transformers.LlamaConfig) -> transformers.LlamaForCausalLM:
    config._attn_implementation = "eager"  # plain fp32 softmax(QK)V, nothing fused
    return transformers.LlamaForCausalLM(config).to(torch.float32).eval()


def load_weights(model: transformers.LlamaForCausalLM, reader: gguf.GGUFReader) -> None:
    """Puts the file's weights, dequantised, into the model; fails on one missing or left over."""
    state = {}
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":  # follows from the config
            continue
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if heads := rotated_heads(tensor.name, model.config):
            values = unpermute(values, heads)
        state[hf_name(tensor.name)] = torch.from_numpy(values.copy())
    result = model.load_state_dict(state, strict=False)
    missing = [name for name in result.missing_keys
               if not (name == "lm_head.weight" and model.config.tie_word_embeddings)]
    assert not missing and not result.unexpected_keys, (missing, result.unexpected_keys)
    model.tie_weights()


def load_model(path: Path) -> transformers.LlamaForCausalLM:
    reader = gguf.GGUFReader(path)
    model = new_model(config_of(reader))
    load_weights(model, reader)
    return model


def load_tokenizer(path: Path) -> Tokenizer:
    reader = gguf.GGUFReader(path)
    pieces = reader.fields["tokenizer.ggml.tokens"].contents()
    types = reader.fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in reader.fields["tokenizer.ggml.merges"].contents()]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    control = [piece for piece, kind in zip(pieces, types) if kind == gguf.TokenType.CONTROL]
    tokenizer.add_special_tokens([AddedToken(piece, normalized=False) for piece in control])
    return tokenizer


@torch.no_grad()
def logits_of(model: transformers.LlamaForCausalLM, ids: list[int]) -> torch.Tensor:
    """(positions, vocabulary), fp32."""
    return model(torch.tensor([ids])).logits[0]
