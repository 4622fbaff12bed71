"""gpt2 and gemma3 models with one wrong thing: the error names it, what was expected and found."""

import json
import shutil
import struct

import pytest

from conftest import GOLDEN

ARCH = GOLDEN / "arch"
LAYERS = ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"]


def word_of(value):
    return value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else None


CONFIGS = [
    ("gpt2", {"n_embd": 47}, ["n_embd", "multiple of the 2 heads", "found 47"]),
    ("gpt2", {"n_embd": None}, ["n_embd", "whole number", "found null"]),
    ("gpt2", {"n_positions": 256}, ["wpe.weight", "[48, 256]", "[48, 128]"]),
    ("gpt2", {"n_inner": 100}, ["mlp.c_fc.weight", "[48, 100]", "[48, 192]"]),
    ("gpt2", {"n_inner": "wide"}, ["n_inner", "\"wide\""]),
    ("gpt2", {"n_head": 96}, ["n_embd", "multiple of the 96 heads"]),
    ("gpt2", {"n_layer": 3}, ["h.2.ln_1.weight", "missing"]),
    ("gpt2", {"n_layer": 1}, ["h.1.", "no part of a gpt2"]),
    ("gpt2", {"vocab_size": 300}, ["vocab_size", "274 rows of wte.weight", "300"]),
    ("gpt2", {"activation_function": "relu"}, ["activation_function", "gelu_new", "\"relu\""]),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True},
     ["scale_attn_by_inverse_layer_idx", "expected false", "found true"]),
    ("gpt2", {"tie_word_embeddings": False}, ["lm_head.weight", "missing"]),
    ("gpt2", {"layer_norm_epsilon": 0}, ["layer_norm_epsilon", "positive", "found 0"]),
    ("gemma3", {"layer_types": LAYERS[:6]}, ["layer_types", "num_hidden_layers"]),
    ("gemma3", {"layer_types": LAYERS[:6] + ["linear_attention"]},
     ["layer_types", "linear_attention"]),
    ("gemma3", {"sliding_window_pattern": "six"}, ["sliding_window_pattern", "\"six\""]),
    ("gemma3", {"sliding_window": 0}, ["sliding_window", "found 0"]),
    ("gemma3", {"query_pre_attn_scalar": -1}, ["query_pre_attn_scalar", "found -1"]),
    ("gemma3", {"final_logit_softcapping": 30.0}, ["final_logit_softcapping", "30.0"]),
    ("gemma3", {"hidden_activation": "silu"}, ["hidden_activation", "gelu_pytorch_tanh", "silu"]),
    ("gemma3", {"attention_bias": True}, ["attention_bias", "expected false"]),
    ("gemma3", {"head_dim": 64}, ["q_proj.weight", "[32, 128]", "[32, 96]"]),
    ("gemma3", {"rope_local_base_freq": 0}, ["rope_local_base_freq", "found 0"]),
    ("gemma3", {"rope_scaling": {"rope_type": "linear"}}, ["rope_scaling.factor", "found nothing"]),
    ("gemma3_linear", {"rope_parameters": {"full_attention": {"rope_theta": -1}}},
     ["rope_parameters.full_attention.rope_theta", "found -1"]),
    ("gemma3_linear", {"rope_parameters": {"sliding_attention": {"rope_type": "yarn"}}},
     ["rope_parameters.sliding_attention", "yarn"]),
    ("gemma3", {"model_type": "gemma9"}, ["model_type", "gemma3_text", "gemma9"]),
]


def inspect(run, path):
    result = run("logits", "--model", path, "--npy", path.parent / "out.npy", stdin="[1, 2]")
    assert result.returncode != 0
    return result.stderr


def assert_says(text, path, words):
    for word in [*words, path.name]:
        assert word in text, text


@pytest.mark.parametrize("name, change, words", CONFIGS, ids=word_of)
def test_a_config_that_lies(run, tmp_path, name, change, words):
    path = tmp_path / name
    shutil.copytree(ARCH / name, path)
    config = json.loads((path / "config.json").read_text()) | change
    (path / "config.json").write_text(json.dumps(config))
    assert_says(inspect(run, path), path, words)


def edit_header(path, edit):
    """Changes what model.safetensors says of its tensors; their bytes stay."""
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    edit(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + n:])


TENSORS = [
    ("gpt2", "h.1.mlp.c_fc.bias", None, ["h.1.mlp.c_fc.bias", "missing"]),
    ("gpt2", "wpe.weight", None, ["wpe.weight", "missing"]),
    ("gpt2", "h.0.attn.c_attn.weight", [144, 48],
     ["h.0.attn.c_attn.weight", "[48, 144]", "[144, 48]"]),
    ("gpt2", "h.0.attn.c_attn.bias", [12, 12], ["h.0.attn.c_attn.bias", "[144]", "[12, 12]"]),
    ("gpt2", "ln_f.bias", [6, 8], ["ln_f.bias", "[48]"]),
    ("gemma3", "model.layers.3.self_attn.k_norm.weight", None, ["k_norm.weight", "missing"]),
    ("gemma3", "model.layers.3.post_feedforward_layernorm.weight", [4, 8],
     ["model.layers.3.post_feedforward_layernorm.weight", "[32]"]),
]


@pytest.mark.parametrize("name, tensor, shape, words", TENSORS, ids=word_of)
def test_tensors_missing_or_of_another_shape(run, tmp_path, name, tensor, shape, words):
    path = tmp_path / name
    shutil.copytree(ARCH / name, path)

    def edit(header):
        row = header.pop(tensor)
        header[tensor if shape else "other"] = row | ({"shape": shape} if shape else {})

    edit_header(path / "model.safetensors", edit)
    text = inspect(run, path)
    assert "other" not in text or shape is None
    assert_says(text, path, words)


FILES = [
    ("gpt2", b"gpt2.attention.layer_norm_epsilon", ["gpt2.attention.layer_norm_epsilon"]),
    ("gpt2", b"position_embd.weight", ["position_embd.weight", "missing"]),
    ("gpt2", b"blk.1.attn_qkv.bias", ["blk.1.attn_qkv.bias", "missing"]),
    ("gemma3", b"blk.2.attn_q_norm.weight", ["blk.2.attn_q_norm.weight", "missing"]),
    ("gemma3", b"gemma3.embedding_length", ["gemma3.embedding_length"]),
]


@pytest.mark.parametrize("name, word, words", FILES, ids=word_of)
def test_files_without_a_key_or_tensor(run, tmp_path, name, word, words):
    path = tmp_path / f"{name}.gguf"
    data = (ARCH / path.name).read_bytes()
    assert data.count(word) == 1
    path.write_bytes(data.replace(word, word[:-1] + b"X"))
    assert_says(inspect(run, path), path, words)
