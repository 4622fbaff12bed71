"""Every logit of tiny models read from Hugging Face folders, against transformers.

tests/golden/README.md says what the folders have in them.
"""

import json

import numpy as np
import pytest

from conftest import GOLDEN
from logits import F32, logits_of

TOLERANCE = 1e-4
HF = GOLDEN / "hf"
MODELS = json.loads((HF / "manifest.json").read_text())["models"]


@pytest.mark.parametrize("row", MODELS, ids=lambda row: row["name"])
def test_logits_from_the_folder(run, tmp_path, row):
    expected = np.load(HF / f"{row['name']}.npy")
    logits = logits_of(run, HF / row["name"], row["ids"], tmp_path / "logits.npy", *F32)
    assert logits.shape == expected.shape
    assert np.abs(logits - expected).max() <= TOLERANCE, row["what"]


def convert(run, model, out, kind):
    result = run("convert", model, out, "--type", kind)
    assert result.returncode == 0, result.stderr
    return out


@pytest.mark.parametrize("row", MODELS, ids=lambda row: row["name"])
def test_logits_from_the_converted_file(run, tmp_path, row):
    """In the folder's own type, so that no weight is rounded."""
    expected = np.load(HF / f"{row['name']}.npy")
    kind = {"b": "bf16", "m": "f16"}.get(row["name"][0], row["name"][:3])
    path = convert(run, HF / row["name"], tmp_path / "out.gguf", kind)
    logits = logits_of(run, path, row["ids"], tmp_path / "logits.npy", *F32)
    assert np.abs(logits - expected).max() <= TOLERANCE, row["what"]
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("kind", ["q8_0", "q4_0", "f16"])
def test_quantised_at_load_is_quantised_by_convert(run, tmp_path, kind):
    """The same model: the folder with --dtype, its file, and the file converted once more."""
    row = MODELS[1]
    path = convert(run, HF / row["name"], tmp_path / "out.gguf", kind)
    from_file = logits_of(run, path, row["ids"], tmp_path / "file.npy", *F32)
    loaded = logits_of(run, HF / row["name"], row["ids"], tmp_path / "loaded.npy", *F32,
                       "--dtype", kind)
    again = convert(run, path, tmp_path / "again.gguf", kind)
    # the file's q and k rows are pairs, the folder's halves: same sums in another order
    assert np.abs(from_file - loaded).max() <= 1e-5
    assert path.read_bytes() == again.read_bytes()
    plain = np.load(HF / f"{row['name']}.npy")
    distance = np.abs(loaded - plain).mean()
    assert distance < {"f16": 1e-5, "q8_0": 0.3, "q4_0": 2}[kind]  # logits spread by 2.7
    assert kind == "f16" or distance > 1e-3


def test_types_of_a_converted_file(run, tmp_path):
    path = convert(run, HF / "f16_sharded", tmp_path / "out.gguf", "q4_0")
    found = json.loads(run("inspect", path, "--json").stdout)
    types = {t["name"]: t["type"] for t in found["tensors"]}
    assert types["blk.0.attn_q.weight"] == "Q4_0" and types["output.weight"] == "Q8_0"
    assert types["blk.0.attn_q.bias"] == types["output_norm.weight"] == "F32"
    keys = found["metadata"]
    assert keys["general.file_type"] == 2 and keys["tokenizer.ggml.pre"] == "smollm"
    assert keys["tokenizer.ggml.bos_token_id"] == 0 and keys["general.sampling.top_k"] == 40
    assert not [k for k in keys if k.startswith("firstlight")]


@pytest.mark.parametrize("arguments, says", [
    ([], "expected a model and a file"),
    (["base", "out"], "--type NAME is required"),
    (["base", "out", "--type", "q9"], "unknown type \"q9\"; there are f32, f16"),
    (["absent", "out", "--type", "f16"], "absent"),
    (["base", "none/out", "--type", "f16"], "cannot write"),
])
def test_convert_says_what_is_wrong(run, tmp_path, arguments, says):
    paths = {"base": GOLDEN / "tiny/base.gguf", "out": tmp_path / "out.gguf",
             "none/out": tmp_path / "none/out", "absent": tmp_path / "absent"}
    result = run("convert", *(paths.get(a, a) for a in arguments))
    assert result.returncode != 0 and says in result.stderr
    assert not list(tmp_path.iterdir())


def test_random_weights_say_so(run, tmp_path):
    config = HF / "bf16_tied/config.json"
    made = []
    for kind in ("q4_0", "q4_0", "bf16"):
        out = tmp_path / "out.npy"
        result = run("logits", "--dummy-weights", config, "--dtype", kind, "--npy", out,
                     stdin="[1, 2, 3]")
        assert result.returncode == 0 and "RANDOM WEIGHTS" in result.stderr
        made.append(np.load(out))
    assert np.isfinite(made[0]).all() and made[0].std() > 0
    assert made[0].tobytes() == made[1].tobytes() != made[2].tobytes()
    result = run("bench", "model", "--dummy-weights", config, "--no-roofline", "-p", 8, "-n", 2,
                 "--repeat-runs", 1)
    assert result.returncode == 0 and "prefill" in result.stdout, result.stderr
    result = run("bench", "model", "--dummy-weights", config, "--no-roofline", "-p", 8, "-n", 2,
                 "--repeat-runs", 1, "--output", tmp_path / "out.json")
    assert result.returncode == 0, result.stderr
    result = run("run", "--dummy-weights", tmp_path / "none.json", "hello")
    assert result.returncode != 0 and "none.json" in result.stderr


@pytest.mark.parametrize("name", ["bf16_llama3", "f16_sharded"])
def test_text_of_a_folder_and_of_its_file(run, tmp_path, name):
    """The folder's own tokenizer.json and template, and the keys that convert wrote."""
    path = convert(run, HF / name, tmp_path / "out.gguf", "f32")
    texts = json.dumps(["The other thing is in 1234 rooms.",
                        "<|im_start|>user\n\u00e9\u4e2d<|im_end|>"])
    ids = [run("tokenize", "--model", m, "--json", stdin=texts) for m in (HF / name, path)]
    assert ids[0].returncode == 0, ids[0].stderr
    assert ids[0].stdout == ids[1].stdout
    result = run("run", "--model", HF / name, "--max-tokens", 4, "hello")
    assert result.returncode == 0, result.stderr
