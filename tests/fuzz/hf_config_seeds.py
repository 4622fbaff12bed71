#!/usr/bin/env python3
"""Writes the seeds of fuzz_hf_config into a directory (build/corpus/hf_config).

    tests/fuzz/hf_config_seeds.py build/corpus/hf_config
"""
import json
import sys
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
BASE = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
        "vocab_size": 274}
GPT2 = {"model_type": "gpt2", "n_embd": 48, "n_head": 2, "n_layer": 2, "n_positions": 128,
        "vocab_size": 274}
GEMMA3 = {"model_type": "gemma3_text", "hidden_size": 32, "intermediate_size": 64,
          "num_hidden_layers": 7, "vocab_size": 333}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}


def seeds():
    for path in sorted([*GOLDEN.glob("hf/*/config.json"), *GOLDEN.glob("arch/*/config.json")]):
        yield path.parent.name, json.loads(path.read_text())
    yield "base", BASE
    yield "empty", {}
    yield "type_number", {"model_type": 1}
    yield "head_dim_odd", BASE | {"head_dim": 7}
    yield "head_dim_large", BASE | {"head_dim": 1 << 40}
    yield "kv_heads", BASE | {"num_key_value_heads": 3}
    yield "eps_tiny", BASE | {"rms_norm_eps": 1e-300}
    yield "theta_huge", BASE | {"rope_theta": 1e300}
    yield "linear", BASE | {"rope_scaling": {"type": "linear", "factor": 2}}
    yield "llama3", BASE | {"rope_scaling": LLAMA3}
    yield "llama3_no_factor", BASE | {"rope_scaling": {"rope_type": "llama3"}}
    yield "llama3_low_high", BASE | {"rope_scaling": LLAMA3 | {"low_freq_factor": 4}}
    yield "partial", BASE | {"partial_rotary_factor": 0.01, "rope_parameters": LLAMA3}
    yield "yarn", BASE | {"rope_scaling": {"rope_type": "yarn" * 100}}
    for path in sorted(GOLDEN.glob("relatives/*/config.json")):
        yield path.parent.name, json.loads(path.read_text())
    phi3 = json.loads((GOLDEN / "relatives/phi3/config.json").read_text())
    yield "phi3_few_factors", phi3 | {"partial_rotary_factor": 0.5}
    negative = phi3["rope_scaling"] | {"long_factor": [-1] * 12}
    yield "phi3_bad_factor", phi3 | {"rope_scaling": negative}
    yield "phi3_original", phi3 | {"original_max_position_embeddings": 1}
    yield "qwen2_some_windows", BASE | {"model_type": "qwen2", "use_sliding_window": True,
                                        "layer_types": ["sliding_attention", 3]}
    yield "window", BASE | {"sliding_window": 5}
    yield "gpt2_bare", GPT2
    yield "gpt2_relu", GPT2 | {"activation_function": "relu"}
    yield "gpt2_wide", GPT2 | {"n_embd": 1 << 20, "n_head": 1 << 12}
    yield "gpt2_inner", GPT2 | {"n_inner": 1 << 30, "scale_attn_weights": False}
    yield "gemma3_bare", GEMMA3
    yield "gemma3_types", GEMMA3 | {"layer_types": ["full_attention"] * 6 + [None]}
    yield "gemma3_period", GEMMA3 | {"sliding_window_pattern": 1, "sliding_window": 1 << 40}
    yield "gemma3_scalar", GEMMA3 | {"query_pre_attn_scalar": 1e-300, "head_dim": 256}
    yield "gemma3_local", GEMMA3 | {"rope_parameters": {"sliding_attention": {"rope_theta": 1e300}}}
    yield "gemma3_softcap", GEMMA3 | {"final_logit_softcapping": 30, "attention_bias": None}
    yield "quantised", BASE | {"quantization_config": {"a": ["\u00e9" * 50]}}


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, config in seeds():
        (folder / name).write_text(json.dumps(config))
    (folder / "not_json").write_text('{"a":')


if __name__ == "__main__":
    main()
