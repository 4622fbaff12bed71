#!/usr/bin/env python3
"""Makes tests/golden/hf/: tiny random models as Hugging Face folders, and their logits.

Each NAME/ is what transformers' save_pretrained writes, in the dtype and number of files that the row
asks for; NAME.npy holds the fp32 logits (positions x vocabulary) for the ids in manifest.json. They are
computed by an fp32 model with the rounded weights put into it: a model that is itself cast to bf16
would round its rope frequencies too, which the published weights do not say.
"""

import dataclasses
import json
import shutil
import zlib

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from reference import GOLDEN, logits_of, provenance
from tiny import CONTEXT, POSITIONS, vocabulary

OUT = GOLDEN / "hf"
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


@dataclasses.dataclass(frozen=True)
class Folder:
    name: str
    what: str
    dtype: torch.dtype
    model_type: str = "llama"
    tied: bool = False
    bias: bool = False
    shards: int = 1
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    rope: dict = dataclasses.field(default_factory=lambda: {"rope_type": "default"})
    old_rope: bool = False  # rope_theta and rope_scaling, as before transformers 5
    prefix: bool = True  # "model." before the names
    padding: int = 0  # rows of the embedding without a token

    @property
    def config(self) -> transformers.PretrainedConfig:
        kind = {"llama": transformers.LlamaConfig, "mistral": transformers.MistralConfig}
        extra = {"sliding_window": None} if self.model_type == "mistral" else {
            "attention_bias": self.bias}
        return kind[self.model_type](
            vocab_size=len(vocabulary()[0]) + self.padding, hidden_size=64, head_dim=self.head_dim,
            intermediate_size=96, num_hidden_layers=2, num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads, rms_norm_eps=1e-5, max_position_embeddings=CONTEXT,
            tie_word_embeddings=self.tied, rope_parameters={**self.rope, "rope_theta": 5000.0},
            bos_token_id=0, eos_token_id=1, **extra)


FOLDERS = [
    Folder("bf16_tied", "BF16, tied embeddings, rope_parameters", torch.bfloat16, tied=True),
    Folder("f16_sharded", "F16 in shards, an output head of its own, biases", torch.float16,
           bias=True, shards=3),
    Folder("f32_linear", "F32, rope_theta and rope_scaling linear as older files have them",
           torch.float32, rope={"rope_type": "linear", "factor": 4.0}, old_rope=True, kv_heads=4),
    Folder("bf16_llama3", "BF16 in shards, llama3 rope scaling, head size 24, padded vocabulary",
           torch.bfloat16, shards=2, head_dim=24, rope=LLAMA3, padding=14),
    Folder("mistral", "a mistral without window, F16, names without their prefix", torch.float16,
           model_type="mistral", old_rope=True, prefix=False),
]


def randomise(model: torch.nn.Module, name: str, dtype: torch.dtype) -> dict:
    """The weights as saved; the model gets the same values in fp32."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    state = {}
    for key, value in model.state_dict().items():
        if key.endswith("norm.weight"):
            data = rng.uniform(0.5, 1.5, value.shape)
        else:
            spread = 0.06 if "embed" in key else 0.3 if "bias" in key or "lm_head" in key else 0.19
            if "o_proj" in key or "down_proj" in key:
                spread *= 0.2
            data = rng.normal(0, spread, value.shape)
        state[key] = torch.from_numpy(data.astype(np.float32)).to(dtype)
    if model.config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict({k: v.float() for k, v in state.items()})
    return state


def tokenizer() -> Tokenizer:
    pieces, _, merges = vocabulary()
    made = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(pieces)},
                                merges=[tuple(m.split(" ")) for m in merges]))
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(p, normalized=False) for p in pieces[:2]])
    return made


def save_shards(state: dict, shards: int, path) -> None:
    """model.safetensors, or so many files with their index, the tensors dealt out to them in turns."""
    if shards == 1:
        save_file(state, path / "model.safetensors", metadata={"format": "pt"})
        return
    where = {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {k: state[k].contiguous() for k in sorted(state)[i::shards]}
        save_file(part, path / file, metadata={"format": "pt"})
        where |= {k: file for k in part}
    size = sum(v.numel() * v.element_size() for v in state.values())
    index = {"metadata": {"total_size": size}, "weight_map": where}
    (path / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def save_weights(folder: Folder, state: dict, path) -> None:
    if folder.tied:
        del state["lm_head.weight"]
    if not folder.prefix:
        state = {k.removeprefix("model."): v for k, v in state.items()}
    save_shards(state, folder.shards, path)


def save_configs(folder: Folder, path) -> None:
    config = json.loads(folder.config.to_json_string(use_diff=False))
    keep = ("architectures", "attention_bias", "bos_token_id", "eos_token_id", "head_dim", "hidden_act",
            "hidden_size", "intermediate_size", "max_position_embeddings", "mlp_bias", "model_type",
            "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "rms_norm_eps",
            "rope_parameters", "sliding_window", "tie_word_embeddings", "dtype", "vocab_size")
    config = {k: v for k, v in config.items() if k in keep}
    config["dtype"] = str(folder.dtype).removeprefix("torch.")
    if folder.old_rope:
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        config["torch_dtype"] = config.pop("dtype")
        plain = rope["rope_type"] == "default"
        config["rope_scaling"] = None if plain else {"type": rope.pop("rope_type"), **rope}
    (path / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    generation = {"bos_token_id": 0, "eos_token_id": [1, 0], "do_sample": True, "temperature": 0.6,
                  "top_p": 0.95, "top_k": 40}
    (path / "generation_config.json").write_text(json.dumps(generation, indent=1) + "\n")
    tokenizer().save(str(path / "tokenizer.json"))
    text = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|im_start|>",
            "eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (path / "tokenizer_config.json").write_text(json.dumps(text, indent=1) + "\n")


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    rows = []
    for folder in FOLDERS:
        path = OUT / folder.name
        path.mkdir(parents=True)
        config = folder.config
        config._attn_implementation = "eager"
        model = transformers.AutoModelForCausalLM.from_config(config).to(torch.float32).eval()
        state = randomise(model, folder.name, folder.dtype)
        save_weights(folder, state, path)
        save_configs(folder, path)
        if folder.prefix:  # transformers reads the folder as it is, and to the same values
            again = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
            assert all(torch.equal(v, again.state_dict()[k]) for k, v in model.state_dict().items())
        rng = np.random.default_rng(zlib.crc32(b"ids " + folder.name.encode()))
        ids = rng.integers(0, len(vocabulary()[0]), POSITIONS).tolist()
        logits = logits_of(model, ids).numpy()
        np.save(OUT / f"{folder.name}.npy", logits)
        rows.append({"name": folder.name, "what": folder.what, "ids": ids})
        size = sum(f.stat().st_size for f in path.iterdir())
        print(f"hf: {folder.name}: {size} bytes, logits of {logits.std():.2f} standard deviation",
              flush=True)
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = json.dumps(provenance("random models as Hugging Face folders, with fp32 logits"))
    (OUT / "manifest.json").write_text(f'{{"made": {head},\n"models": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
