#!/usr/bin/env python3
"""Makes tests/golden/arch/: tiny random gpt2 and gemma3 models, and their logits by transformers.

Each NAME/ is a Hugging Face folder as the published ones are: GPT-2's with and without its prefix and
with the masks that old versions stored among the weights, Gemma's with either spelling of its rope.
NAME.npy holds the fp32 logits (positions x vocabulary) for the ids in manifest.json, of an fp32 model
that has the rounded weights. Where the row says so NAME.gguf is the same model with the keys, names
and weights that llama.cpp's converter writes.
"""

import dataclasses
import json
import shutil
import zlib

import gguf
import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from folders import save_shards
from reference import GOLDEN, logits_of, provenance
from tiny import vocabulary

OUT = GOLDEN / "arch"
POSITIONS = 72  # more than two KV blocks, and than each window


@dataclasses.dataclass(frozen=True)
class Folder:
    name: str
    what: str
    config: dict  # config.json
    dtype: torch.dtype
    shards: int = 1
    prefix: bool = True  # "transformer." or "model." before the names
    masks: bool = False  # h.N.attn.bias
    gguf: bool = False


def gemma_pieces() -> tuple[list[str], list[tuple[str, str]]]:
    """Pieces and merges in Gemma's manner: specials, bytes, merged words, letters last."""
    merges = [("▁", "t"), ("h", "e"), ("▁", "a"), ("i", "n"), ("▁t", "he"), ("r", "e"), ("o", "n"),
              ("▁", "s"), ("e", "r"), ("a", "n"), ("an", "d"), ("in", "g"), ("▁▁", "▁▁"), ("▁", "▁")]
    merges.sort(key=lambda m: m == ("▁▁", "▁▁"))  # a merge comes after those of its parts
    control = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "[multimodal]", "<unused0>", "<unused1>",
               "<unused2>", "<unused3>", "<start_of_turn>", "<end_of_turn>", "\n", "~"]
    letters = ["▁", *"etaoinshrdlcumwfgypbvkxqjz.,!?'-0123456789"]
    pieces = control + [f"<0x{b:02X}>" for b in range(256)] + [a + b for a, b in merges] + letters
    return pieces, merges


def gpt2_config(**more) -> dict:
    return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
            "attn_pdrop": 0.1, "bos_token_id": 0, "eos_token_id": 0, "layer_norm_epsilon": 1e-5,
            "n_ctx": 128, "n_embd": 48, "n_head": 2, "n_layer": 2, "n_positions": 128,
            "vocab_size": len(vocabulary()[0])} | more


def gemma3_config(**more) -> dict:
    return {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
            "attention_bias": False, "attn_logit_softcapping": None, "bos_token_id": 2,
            "eos_token_id": [1, 11], "final_logit_softcapping": None, "head_dim": 48,
            "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 32, "intermediate_size": 64,
            "max_position_embeddings": 256, "num_attention_heads": 2, "num_hidden_layers": 7,
            "num_key_value_heads": 1, "query_pre_attn_scalar": 48, "rms_norm_eps": 1e-6,
            "sliding_window": 20, "vocab_size": len(gemma_pieces()[0]) + 6} | more


OLD_ROPE = {"rope_theta": 1000000, "rope_local_base_freq": 10000, "rope_scaling": None,
            "sliding_window_pattern": 6}
NEW_ROPE = {"rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}},
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}

FOLDERS = [
    Folder("gpt2", "F32, names without prefix and masks among them, as published; head size 24",
           gpt2_config(), torch.float32, prefix=False, masks=True, gguf=True),
    Folder("gpt2_untied", "F16 in shards, with the prefix, an output head of its own, a narrow MLP",
           gpt2_config(n_embd=64, n_head=4, n_inner=96, tie_word_embeddings=False,
                       activation_function="gelu_pytorch_tanh", layer_norm_epsilon=1e-3),
           torch.float16, shards=2),
    Folder("gpt2_erf", "BF16, GELU in its erf form", gpt2_config(
        n_embd=32, n_head=1, n_layer=1, activation_function="gelu"), torch.bfloat16),
    Folder("gemma3", "BF16, every sixth layer global, rope as older files have it",
           gemma3_config(**OLD_ROPE), torch.bfloat16, gguf=True),
    Folder("gemma3_linear", "F32 in shards, every third layer global and its rope scaled, a query "
           "scale that is not the head's, names without prefix",
           gemma3_config(num_hidden_layers=3, query_pre_attn_scalar=20, head_dim=24,
                         num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5, **NEW_ROPE),
           torch.float32, shards=2, prefix=False),
]


def gemma_tokenizer() -> Tokenizer:
    pieces, merges = gemma_pieces()
    made = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(pieces)}, merges=merges,
                                unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                      decoders.Fuse()])
    special = {"<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"}
    for i in range(12):
        token = AddedToken(pieces[i], normalized=False, special=pieces[i] in special)
        (made.add_special_tokens if pieces[i] in special else made.add_tokens)([token])
    made.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", 2)])
    return made


def gpt2_tokenizer() -> Tokenizer:
    pieces, _, merges = vocabulary()
    pieces = ["<|endoftext|>", *pieces[1:]]
    made = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(pieces)},
                                merges=[tuple(m.split(" ")) for m in merges]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(p, normalized=False) for p in pieces[:2]])
    return made


def is_gemma(folder: Folder) -> bool:
    return folder.config["model_type"] == "gemma3_text"


def spread_of(key: str, width: int) -> float:
    if key.endswith((".bias", "wpe.weight")):
        return 0.2
    if "lm_head" in key:
        return 0.3
    if "embed" in key or "wte" in key:
        return 0.06
    small = "o_proj" in key or "down_proj" in key or "c_proj" in key
    return (0.3 if small else 1.5) / np.sqrt(width)


def randomise(model, folder: Folder) -> dict:
    """The weights as saved; the model gets the same values in fp32."""
    rng = np.random.default_rng(zlib.crc32(folder.name.encode()))
    middle = 0.0 if is_gemma(folder) else 1.0  # Gemma's norms multiply by 1 + weight
    state = {}
    for key, value in model.state_dict().items():
        if "norm" in key or ".ln_" in key and key.endswith("weight"):
            data = rng.uniform(middle - 0.5, middle + 0.5, value.shape)
        else:
            data = rng.normal(0, spread_of(key, model.config.hidden_size), value.shape)
        state[key] = torch.from_numpy(data.astype(np.float32)).to(folder.dtype)
    if model.config.tie_word_embeddings:
        embedding = "model.embed_tokens.weight" if is_gemma(folder) else "transformer.wte.weight"
        state["lm_head.weight"] = state[embedding]
    model.load_state_dict({k: v.float() for k, v in state.items()})
    return state


def save_weights(folder: Folder, state: dict, path, tied: bool) -> None:
    state = {k: v for k, v in state.items() if not (tied and k == "lm_head.weight")}
    if not folder.prefix:
        state = {k.removeprefix("model.").removeprefix("transformer."): v for k, v in state.items()}
    if folder.masks:
        n = folder.config["n_ctx"]
        for i in range(folder.config["n_layer"]):
            state[f"h.{i}.attn.bias"] = torch.tril(torch.ones(n, n)).view(1, 1, n, n)
    save_shards(state, folder.shards, path)


def save_configs(folder: Folder, path) -> None:
    kind = str(folder.dtype).removeprefix("torch.")
    config = folder.config | {"torch_dtype": kind}
    (path / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    made = gemma_tokenizer() if is_gemma(folder) else gpt2_tokenizer()
    made.save(str(path / "tokenizer.json"))
    text = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "tokenizer_class": "GPT2Tokenizer"}
    if is_gemma(folder):
        text = {"add_bos_token": True, "add_eos_token": False, "bos_token": "<bos>", "eos_token": "<eos>",
                "pad_token": "<pad>", "unk_token": "<unk>", "tokenizer_class": "GemmaTokenizer"}
    (path / "tokenizer_config.json").write_text(json.dumps(text, indent=1) + "\n")


# --- GGUF, as llama.cpp's converter writes it --------------------------------------------------

GPT2_NAMES = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm",
              "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
              "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
GEMMA_NAMES = {"embed_tokens": "token_embd", "norm": "output_norm", "input_layernorm": "attn_norm",
               "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
               "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
               "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "post_attention_norm",
               "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
               "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def gguf_name(key: str, names: dict) -> str:
    parts = key.removeprefix("transformer.").removeprefix("model.").split(".")
    if parts[0] in ("h", "layers"):
        return f"blk.{parts[1]}.{names['.'.join(parts[2:-1])]}.{parts[-1]}"
    return f"{names['.'.join(parts[:-1])]}.{parts[-1]}"


def gguf_data(folder: Folder, key: str, value: torch.Tensor) -> np.ndarray:
    if not is_gemma(folder):
        conv1d = key.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
        return (value.T if conv1d else value).contiguous().float().numpy()
    return (value.float() + (1.0 if key.endswith("norm.weight") else 0.0)).numpy()


def write_gpt2_keys(writer: gguf.GGUFWriter, config: dict) -> None:
    writer.add_block_count(config["n_layer"])
    writer.add_context_length(config["n_ctx"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(4 * config["n_embd"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    pieces, types, merges = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(["<|endoftext|>", *pieces[1:]])
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)


def write_gemma_keys(writer: gguf.GGUFWriter, config: dict) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_freq_base_swa(config["rope_local_base_freq"])
    writer.add_sliding_window(config["sliding_window"])
    pieces, merges = gemma_pieces()
    scores = {a + b: -float(i) for i, (a, b) in reversed(list(enumerate(merges)))}
    pad = config["vocab_size"] - len(pieces)
    kinds = [3, 3, 3, 2, 4, 4, 4, 4, 4, 4, 3, 3] + [1, 1] + [6] * 256
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces + [f"[PAD{len(pieces) + i}]" for i in range(pad)])
    writer.add_token_scores([scores.get(p, -1000.0) for p in pieces] + [-1000.0] * pad)
    writer.add_token_types(kinds + [1] * (len(pieces) - len(kinds)) + [5] * pad)
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(3)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)


def write_gguf(folder: Folder, state: dict) -> None:
    gemma = is_gemma(folder)
    writer = gguf.GGUFWriter(OUT / f"{folder.name}.gguf", "gemma3" if gemma else "gpt2")
    (write_gemma_keys if gemma else write_gpt2_keys)(writer, folder.config)
    kind = {torch.bfloat16: gguf.GGMLQuantizationType.BF16}.get(folder.dtype, gguf.GGMLQuantizationType.F32)
    for key, value in state.items():
        if key == "lm_head.weight":
            continue
        data = gguf_data(folder, key, value)
        here = kind if data.ndim > 1 else gguf.GGMLQuantizationType.F32
        name = gguf_name(key, GEMMA_NAMES if gemma else GPT2_NAMES)
        writer.add_tensor(name, gguf.quants.quantize(data, here), raw_dtype=here)
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
    # made in fp32: bf16 would round rope frequencies and the embeddings' scale
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    state = randomise(model, folder)
    save_weights(folder, state, path, config.tie_word_embeddings)
    if folder.gguf:
        write_gguf(folder, state)
    rng = np.random.default_rng(zlib.crc32(b"ids " + folder.name.encode()))
    ids = rng.integers(0, config.vocab_size, POSITIONS).tolist()
    logits = logits_of(model, ids).numpy()
    if folder.prefix:  # transformers reads the folder as it is, and to the same values
        again = transformers.AutoModelForCausalLM.from_pretrained(path, config=config, dtype=torch.float32)
        assert np.array_equal(logits_of(again.eval(), ids).numpy(), logits)
    np.save(OUT / f"{folder.name}.npy", logits)
    size = sum(f.stat().st_size for f in path.iterdir())
    print(f"arch: {folder.name}: {size} bytes, logits of {logits.std():.2f} standard deviation",
          flush=True)
    kind = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}[str(folder.dtype)[6:]]
    return {"name": folder.name, "what": folder.what, "type": kind, "gguf": folder.gguf, "ids": ids}


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    rows = [make(folder) for folder in FOLDERS]
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = json.dumps(provenance("random gpt2 and gemma3 models as folders and GGUF, with fp32 logits"))
    (OUT / "manifest.json").write_text(f'{{"made": {head},\n"models": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
