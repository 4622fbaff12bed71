#!/usr/bin/env python3
"""Makes tests/golden/relatives/: tiny random qwen2, qwen3, phi3, olmo2, mistral and llama models, and their
logits by transformers.

Each NAME/ is a Hugging Face folder with the config.json that published ones have. NAME.npy holds the
fp32 logits (the last KEPT positions x vocabulary) for the ids in manifest.json, of an fp32 model that
has the rounded weights: one that is itself cast would round its rope frequencies. Where the row says
so NAME.gguf is the same model with the keys and names that llama.cpp's converter writes.
"""

import dataclasses
import json
import math
import shutil
import zlib

import gguf
import numpy as np
import torch
import transformers

from folders import save_shards, tokenizer
from reference import GOLDEN, logits_of, provenance
from tiny import vocabulary, write_vocabulary

OUT = GOLDEN / "relatives"
KEPT = 40
N_VOCAB = len(vocabulary()[0])


@dataclasses.dataclass(frozen=True)
class Folder:
    name: str
    what: str
    config: dict  # config.json
    dtype: torch.dtype
    shards: int = 1
    gguf: bool = False
    positions: int = KEPT


def shape(model_type: str, head: str, **more) -> dict:
    """What all of them have; rows are whole blocks of the int8 path."""
    return {"architectures": [head], "model_type": model_type, "bos_token_id": 0, "eos_token_id": 1,
            "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
            "max_position_embeddings": 512, "num_attention_heads": 4, "num_key_value_heads": 1,
            "rms_norm_eps": 1e-6, "vocab_size": N_VOCAB, "tie_word_embeddings": False} | more


def qwen2(**more) -> dict:
    return shape("qwen2", "Qwen2ForCausalLM", attention_dropout=0.0, rope_theta=1000000.0,
                 sliding_window=20, max_window_layers=21, use_sliding_window=False) | more


def qwen3(**more) -> dict:
    return shape("qwen3", "Qwen3ForCausalLM", attention_bias=False, head_dim=24, sliding_window=None,
                 max_window_layers=28, use_sliding_window=False) | more


def phi3(**more) -> dict:
    """Heads of 32 dims of which 24 turn."""
    factors = {"short_factor": [1 + 0.05 * i for i in range(12)],
               "long_factor": [1.1 + 0.7 * i for i in range(12)]}
    return shape("phi3", "Phi3ForCausalLM", num_attention_heads=2, rms_norm_eps=1e-5,
                 attention_bias=False, embd_pdrop=0.0, resid_pdrop=0.0, pad_token_id=1,
                 partial_rotary_factor=0.75, sliding_window=18, rope_theta=10000.0,
                 original_max_position_embeddings=64,
                 rope_scaling=factors | {"type": "longrope"}) | more


def olmo2(**more) -> dict:
    return shape("olmo2", "Olmo2ForCausalLM", attention_bias=False, attention_dropout=0.0,
                 initializer_range=0.02, num_key_value_heads=2, pad_token_id=1,
                 rope_scaling=None, rope_theta=500000.0, use_cache=True) | more


PLAIN = {"rope_type": "default", "rope_theta": 5000.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}

FOLDERS = [
    Folder("qwen2", "BF16, tied, a window that is not used, as Qwen2-1.5B-Instruct has it",
           qwen2(tie_word_embeddings=True), torch.bfloat16, gguf=True),
    Folder("qwen2_yarn", "F32, yarn, a window on all layers",
           qwen2(use_sliding_window=True, max_window_layers=0,
                 rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}),
           torch.float32),
    Folder("qwen3", "F16 in shards, norms of heads, a head size that is not hidden_size / heads",
           qwen3(tie_word_embeddings=True, rope_parameters=PLAIN), torch.float16, shards=2, gguf=True),
    Folder("qwen3_yarn", "BF16, yarn with bounds and an attention factor of its own, as many KV heads",
           qwen3(num_key_value_heads=4, head_dim=40, rope_parameters=YARN | {
               "rope_theta": 5000.0, "beta_fast": 8.0, "beta_slow": 2.0, "attention_factor": 1.3}),
           torch.bfloat16),
    Folder("phi3", "BF16, fused tensors, three quarters of a head turn, longrope within the original "
           "context, a window", phi3(), torch.bfloat16, gguf=True),
    Folder("phi3_long", "F16 in shards, longrope beyond the original context under its older name",
           phi3(original_max_position_embeddings=32, num_key_value_heads=2, sliding_window=None,
                rope_scaling=phi3()["rope_scaling"] | {
                    "type": "su", "original_max_position_embeddings": 32}), torch.float16, shards=3),
    Folder("phi3_plain", "F32, tied, all dims turn, no scaling, head size 24",
           phi3(rope_scaling=None, partial_rotary_factor=1.0, hidden_size=96,
                num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True),
           torch.float32),
    Folder("olmo2", "BF16 in shards, no norms before the halves, norms of all queries and keys, "
           "a head size that is not hidden_size / heads", olmo2(head_dim=24), torch.bfloat16, shards=2, gguf=True),
    Folder("olmo2_tied", "F32, tied, as many KV heads, head size 16, no key of theirs, no epsilon",
           {k: v for k, v in olmo2(tie_word_embeddings=True).items()
            if k not in ("num_key_value_heads", "rms_norm_eps")}, torch.float32),
    Folder("mistral_window", "BF16, a window of 40 positions in a text of 300",
           shape("mistral", "MistralForCausalLM", sliding_window=40, rope_theta=10000.0),
           torch.bfloat16, positions=300),
    Folder("llama_yarn", "F32, yarn, new spelling, attention factor as a ratio",
           shape("llama", "LlamaForCausalLM", rope_parameters=YARN | {
               "rope_theta": 10000.0, "mscale": 1.0, "mscale_all_dim": 0.5}), torch.float32),
]


def randomise(model, folder: Folder) -> dict:
    """The weights as saved; the model gets the same values in fp32."""
    rng = np.random.default_rng(zlib.crc32(folder.name.encode()))
    state = {}
    for key, value in model.state_dict().items():
        small = "o_proj" in key or "down_proj" in key
        if "norm" in key:
            data = rng.uniform(0.5, 1.5, value.shape)
        elif key.endswith(".bias"):
            data = rng.normal(0, 0.3, value.shape)
        elif "embed" in key:
            data = rng.normal(0, 0.06, value.shape)
        else:
            data = rng.normal(0, (0.3 if small else 1.5) / math.sqrt(value.shape[1]), value.shape)
        state[key] = torch.from_numpy(data.astype(np.float32)).to(folder.dtype)
    if folder.config["tie_word_embeddings"]:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict({k: v.float() for k, v in state.items()})
    if folder.config["tie_word_embeddings"]:
        del state["lm_head.weight"]
    return state


def save_configs(folder: Folder, path) -> None:
    kind = str(folder.dtype).removeprefix("torch.")
    (path / "config.json").write_text(json.dumps(folder.config | {"torch_dtype": kind}, indent=1) + "\n")
    tokenizer().save(str(path / "tokenizer.json"))


# --- GGUF, as llama.cpp's converter writes it --------------------------------------------------

def write_keys(writer: gguf.GGUFWriter, config: dict) -> None:
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = config.get("rope_parameters") or config
    writer.add_rope_freq_base(rope["rope_theta"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    if config["model_type"] == "phi3":
        write_phi3_keys(writer, config)
    write_vocabulary(writer)


def write_phi3_keys(writer: gguf.GGUFWriter, config: dict) -> None:
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    original = config["original_max_position_embeddings"]
    scale = config["max_position_embeddings"] / original
    writer.add_rope_scaling_orig_ctx_len(original)
    writer.add_rope_dimension_count(int(config["partial_rotary_factor"] * head_dim))
    writer.add_sliding_window(config["sliding_window"] or 0)
    writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)))
    for kind in ("long", "short"):
        factors = np.array(config["rope_scaling"][f"{kind}_factor"], dtype=np.float32)
        writer.add_tensor(f"rope_factors_{kind}.weight", factors)


def write_gguf(folder: Folder, state: dict) -> None:
    arch = {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[folder.config["model_type"]]
    names = gguf.get_tensor_name_map(arch, folder.config["num_hidden_layers"])
    writer = gguf.GGUFWriter(OUT / f"{folder.name}.gguf", folder.config["model_type"])
    write_keys(writer, folder.config)
    floats = {torch.bfloat16: gguf.GGMLQuantizationType.BF16, torch.float16: gguf.GGMLQuantizationType.F16}
    for key, value in state.items():
        kind = floats[folder.dtype] if value.ndim > 1 else gguf.GGMLQuantizationType.F32
        data = gguf.quants.quantize(value.float().numpy(), kind)
        writer.add_tensor(names.get_name(key, (".weight", ".bias")), data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(folder: Folder) -> dict:
    path = OUT / folder.name
    path.mkdir(parents=True)
    save_configs(folder, path)
    config = transformers.AutoConfig.from_pretrained(path)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    state = randomise(model, folder)
    save_shards(state, folder.shards, path)
    if folder.gguf:
        write_gguf(folder, state)
    rng = np.random.default_rng(zlib.crc32(b"ids " + folder.name.encode()))
    ids = rng.integers(0, N_VOCAB, folder.positions).tolist()
    logits = logits_of(model, ids).numpy()
    again = transformers.AutoModelForCausalLM.from_pretrained(path, config=config, dtype=torch.float32)
    assert np.array_equal(logits_of(again.eval(), ids).numpy(), logits)
    np.save(OUT / f"{folder.name}.npy", logits[-KEPT:])
    size = sum(f.stat().st_size for f in path.iterdir())
    print(f"relatives: {folder.name}: {size} bytes, logits of {logits.std():.2f} standard deviation",
          flush=True)
    kind = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}[str(folder.dtype)[6:]]
    return {"name": folder.name, "what": folder.what, "type": kind, "gguf": folder.gguf, "ids": ids}


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    rows = [make(folder) for folder in FOLDERS]
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = json.dumps(provenance("random models that resemble llama, as folders and GGUF, with fp32 logits"))
    (OUT / "manifest.json").write_text(f'{{"made": {head},\n"models": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
