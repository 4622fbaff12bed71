"""Every logit of tiny gpt2 and gemma3 models, from folders and GGUF files, against transformers.

tests/golden/README.md says what the models have in them.
"""

import json

import numpy as np
import pytest

from conftest import GOLDEN
from logits import F32, logits_of

TOLERANCE = 1e-4
ARCH = GOLDEN / "arch"
MODELS = json.loads((ARCH / "manifest.json").read_text())["models"]
FILES = [row for row in MODELS if row["gguf"]]
CONVERTED = [row for row in MODELS if row["name"] != "gpt2_erf"]


def name_of(row):
    return row["name"]


def assert_equal(run, path, row, tmp_path):
    expected = np.load(ARCH / f"{row['name']}.npy")
    logits = logits_of(run, path, row["ids"], tmp_path / "logits.npy", *F32)
    assert logits.shape == expected.shape
    assert np.abs(logits - expected).max() <= TOLERANCE, row["what"]


@pytest.mark.parametrize("row", MODELS, ids=name_of)
def test_logits_from_the_folder(run, tmp_path, row):
    assert_equal(run, ARCH / row["name"], row, tmp_path)


@pytest.mark.parametrize("row", FILES, ids=name_of)
def test_logits_from_the_file_that_others_write(run, tmp_path, row):
    assert_equal(run, ARCH / f"{row['name']}.gguf", row, tmp_path)


@pytest.mark.parametrize("row", CONVERTED, ids=name_of)
def test_logits_from_the_converted_file(run, tmp_path, row):
    """In the folder's own type, so that no weight is rounded."""
    path = tmp_path / "out.gguf"
    result = run("convert", ARCH / row["name"], path, "--type", row["type"])
    assert result.returncode == 0, result.stderr
    assert_equal(run, path, row, tmp_path)


def test_an_activation_that_gguf_cannot_name_is_not_converted(run, tmp_path):
    result = run("convert", ARCH / "gpt2_erf", tmp_path / "out.gguf", "--type", "f32")
    assert result.returncode != 0 and "activation_function" in result.stderr
    assert not list(tmp_path.iterdir())


def divergence(p_logits, q_logits):
    """Kullback and Leibler's, the mean over the positions."""
    p, q = (x.astype(np.float64) - np.log(np.exp(x.astype(np.float64)).sum(1, keepdims=True))
            for x in (p_logits, q_logits))
    return (np.exp(p) * (p - q)).sum(1).mean()


@pytest.mark.parametrize("row", CONVERTED, ids=name_of)
def test_quantised_weights_and_activations_are_near(run, tmp_path, row):
    """The int8 path of the same weights within 0.002 of the float path, and Q8_0 weights of the
    model's own; logits spread by 0.3 to 2.4."""
    out, kind = tmp_path / "out.npy", ("--dtype", "q8_0")
    exact = logits_of(run, ARCH / row["name"], row["ids"], out, *F32, *kind)
    fast = logits_of(run, ARCH / row["name"], row["ids"], out, *kind)
    assert 0 < divergence(exact, fast) < 2e-3
    assert 0 < divergence(np.load(ARCH / f"{row['name']}.npy"), exact) < 2e-3


@pytest.mark.parametrize("row", [MODELS[1], MODELS[3]], ids=name_of)
@pytest.mark.parametrize("flags", [
    F32, ("--dtype", "q8_0"),
    ("--dtype", "q8_0", "--cpu-mask", "c"), ("--dtype", "q8_0", "--cpu-mask", "avx2")])
def test_threads_and_chunks_do_not_change_a_bit(run, tmp_path, row, flags):
    def bits(*more):
        return logits_of(run, ARCH / row["name"], row["ids"], tmp_path / "x.npy", *flags,
                         *more).tobytes()

    expected = bits("--threads", 1)
    assert bits("--threads", 2, "--chunk", 7) == bits("--threads", 3, "--chunk", 33) == expected
    assert bits("--chunk", 1) == expected


def test_no_position_behind_the_table(run, tmp_path):
    for ids, fits in (([1] * 128, True), ([1] * 129, False)):
        result = run("logits", "--model", ARCH / "gpt2.gguf", "--npy", tmp_path / "out.npy",
                     stdin=json.dumps(ids))
        assert (result.returncode == 0) is fits
    assert "129 positions" in result.stderr and "position_embd.weight has 128" in result.stderr
    result = run("run", "--model", ARCH / "gpt2", "--ctx", 200, "hello")
    assert result.returncode != 0 and "200" in result.stderr and "128" in result.stderr


TEXTS = ["The other thing, and the in   the rain 123\n\n\u00e9x", " a  b", "<|endoftext|>\u4e2d"]


@pytest.mark.parametrize("name", ["gpt2", "gemma3"])
def test_text_of_a_folder_and_of_its_file(run, tmp_path, name):
    path = tmp_path / "out.gguf"
    assert run("convert", ARCH / name, path, "--type", "f16").returncode == 0
    ids = [run("tokenize", "--model", m, "--json", "--add-special", stdin=json.dumps(TEXTS)).stdout
           for m in (ARCH / name, path, ARCH / f"{name}.gguf")]
    assert ids[0].startswith("[[") and ids[0] == ids[1] == ids[2]
    result = run("run", "--model", ARCH / name, "--raw", "--max-tokens", 4, "hello")
    assert result.returncode == 0, result.stderr
