"""Every logit of tiny models that resemble llama (qwen2, qwen3, phi3, olmo2, mistral, yarn), from
folders and from GGUF files, against transformers.

tools/golden/relatives.py says what the models have in them. `logits` computes them in one chunk;
tests/unit/backend has chunks, batches and threads.
"""

import json
import shutil

import numpy as np
import pytest

from conftest import GOLDEN
from logits import F32, logits_of

TOLERANCE = 1e-4
RELATIVES = GOLDEN / "relatives"
MODELS = json.loads((RELATIVES / "manifest.json").read_text())["models"]


def name_of(row):
    return row["name"]


def last_logits(run, path, row, out, *flags):
    """Of the positions that the golden file has: the last ones."""
    logits = logits_of(run, path, row["ids"], out, *flags)
    assert len(logits) == len(row["ids"])
    return logits[-len(expected_of(row)):]


def expected_of(row):
    return np.load(RELATIVES / f"{row['name']}.npy")


def assert_equal(run, path, row, tmp_path):
    logits = last_logits(run, path, row, tmp_path / "logits.npy", *F32)
    assert np.abs(logits - expected_of(row)).max() <= TOLERANCE, row["what"]


@pytest.mark.parametrize("row", MODELS, ids=name_of)
def test_logits_from_the_folder(run, tmp_path, row):
    assert_equal(run, RELATIVES / row["name"], row, tmp_path)


@pytest.mark.parametrize("row", [row for row in MODELS if row["gguf"]], ids=name_of)
def test_logits_from_the_file_that_others_write(run, tmp_path, row):
    assert_equal(run, RELATIVES / f"{row['name']}.gguf", row, tmp_path)


def convert(run, row, out, kind):
    result = run("convert", RELATIVES / row["name"], out, "--type", kind)
    assert result.returncode == 0, result.stderr
    return out


@pytest.mark.parametrize("row", MODELS, ids=name_of)
def test_logits_from_the_converted_file(run, tmp_path, row):
    """In the folder's own type, so that no weight is rounded."""
    assert_equal(run, convert(run, row, tmp_path / "out.gguf", row["type"]), row, tmp_path)


@pytest.mark.parametrize("row", [row for row in MODELS if row["gguf"]], ids=name_of)
def test_converted_keys_are_those_that_others_write(run, tmp_path, row):
    path = convert(run, row, tmp_path / "out.gguf", row["type"])
    found, theirs = (json.loads(run("inspect", p, "--json").stdout)
                     for p in (path, RELATIVES / f"{row['name']}.gguf"))
    tensors = [{t["name"]: (t["type"], t["shape"]) for t in f["tensors"]} for f in (found, theirs)]
    assert tensors[0] == tensors[1]
    prefix = theirs["metadata"]["general.architecture"] + "."
    for key, value in theirs["metadata"].items():
        if key.startswith(prefix):
            assert found["metadata"][key] == pytest.approx(value), key


@pytest.mark.parametrize("row", MODELS, ids=name_of)
def test_int8_path_is_near(run, tmp_path, row):
    out, kind = tmp_path / "out.npy", ("--dtype", "q8_0")
    exact = last_logits(run, RELATIVES / row["name"], row, out, *F32, *kind)
    fast = last_logits(run, RELATIVES / row["name"], row, out, *kind)
    assert 0 < np.abs(fast - exact).mean() < 0.05 * exact.std()


@pytest.mark.parametrize("row", [row for row in MODELS if "window" in row["what"]], ids=name_of)
def test_a_window_left_out_is_seen(run, tmp_path, row):
    """Without its window the model differs, unless it is one that is not used."""
    path = tmp_path / row["name"]
    shutil.copytree(RELATIVES / row["name"], path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"sliding_window": None}))
    logits = last_logits(run, path, row, tmp_path / "logits.npy", *F32)
    used = config.get("use_sliding_window", True)
    assert (np.abs(logits - expected_of(row)).max() > 0.01) == used


def test_the_context_chooses_the_factors(run, tmp_path):
    """Up to the original 64 positions the short ones, beyond that the long ones for all."""
    row = next(row for row in MODELS if row["name"] == "phi3")
    longer = row | {"ids": row["ids"] + row["ids"]}
    folder = RELATIVES / "phi3"
    short = last_logits(run, folder, row, tmp_path / "out.npy", *F32)
    result = run("logits", "--model", folder, "--npy", tmp_path / "long.npy",
                 *F32, stdin=json.dumps(longer["ids"]))
    assert result.returncode == 0, result.stderr
    assert np.abs(np.load(tmp_path / "long.npy")[:len(short)] - short).max() > 0.01


BAD = [
    ("olmo2", {"attention_bias": True}, ["attention_bias", "true"]),
    ("olmo2", {"num_attention_heads": 2}, ["q_proj", "expected", "found"]),
    ("olmo2", {"num_key_value_heads": 1}, ["k_proj", "expected", "found"]),
    ("olmo2", {"model_type": "llama"}, ["input_layernorm", "missing"]),
    ("olmo2_tied", {"hidden_act": "gelu"}, ["hidden_act", "gelu"]),
    ("qwen2", {"use_sliding_window": True, "max_window_layers": 1},
     ["max_window_layers", "found 1"]),
    ("qwen2", {"use_sliding_window": "no"}, ["use_sliding_window", '"no"']),
    ("qwen2", {"num_attention_heads": 8}, ["k_proj", "expected", "found"]),
    ("qwen2", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, ["rope_scaling", "dynamic"]),
    ("qwen3", {"head_dim": 16}, ["q_proj", "expected", "found"]),
    ("qwen3_yarn", {"rope_parameters": {"rope_type": "yarn", "factor": -1}},
     ["factor", "found -1"]),
    ("qwen3_yarn", {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "truncate": False}},
     ["truncate"]),
    ("phi3", {"num_key_value_heads": 2}, ["qkv_proj", "expected", "found"]),
    ("phi3", {"intermediate_size": 95}, ["gate_up_proj", "expected", "found"]),
    ("phi3", {"partial_rotary_factor": 0.5}, ["long_factor", "8 numbers"]),
    ("phi3", {"original_max_position_embeddings": "4k"},
     ["original_max_position_embeddings", '"4k"']),
    ("phi3", {"hidden_act": "gelu"}, ["hidden_act", "gelu"]),
]


@pytest.mark.parametrize("name, wrong, words", BAD)
def test_a_config_that_lies(run, tmp_path, name, wrong, words):
    path = tmp_path / name
    shutil.copytree(RELATIVES / name, path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | wrong))
    result = run("logits", "--model", path, "--npy", tmp_path / "out.npy", stdin="[1, 2]")
    assert result.returncode != 0
    for word in [str(path), *words]:
        assert word in result.stderr, result.stderr
