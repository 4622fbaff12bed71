"""The float path of the default model against transformers in fp32: 20 greedy continuations, token
by token, and a sample of logits. An end token is a token like any other here."""

import json

import numpy as np
import pytest

from conftest import GOLDEN

PROMPTS = json.loads((GOLDEN / "greedy.json").read_text())["prompts"]
SAMPLES = json.loads((GOLDEN / "logits.json").read_text())["prompts"]
# fp32 sums in another order over 30 layers; the smallest margin of the continuations is 3e-3.
LOGIT_TOLERANCE = 2e-3


def test_tokenization_equals_the_reference(run, model):
    texts = [prompt["text"] for prompt in PROMPTS]
    result = run("tokenize", "--model", model, "--json", stdin=json.dumps(texts))
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == [prompt["ids"] for prompt in PROMPTS]


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: prompt["name"])
def test_continuation_equals_the_reference(run, model, tmp_path, prompt):
    file = tmp_path / "prompt.txt"
    file.write_text(prompt["text"])
    result = run("run", "--model", model, "--activations", "f32", "--raw", "--ignore-eos",
                 "--temperature", 0, "--max-tokens", 48, "--json", "--prompt-file", file)
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["prompt_tokens"] == len(prompt["ids"])
    assert answer["tokens"] == prompt["tokens"]
    assert answer["finish_reason"] == "length"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["name"])
def test_logits_equal_the_reference(run, model, tmp_path, sample):
    result = run("logits", "--model", model, "--activations", "f32", "--npy", tmp_path / "out.npy",
                 stdin=json.dumps(sample["ids"]))
    assert result.returncode == 0, result.stderr
    logits = np.load(tmp_path / "out.npy")[:, sample["vocab_ids"]]
    assert np.abs(logits - np.array(sample["logits"])).max() <= LOGIT_TOLERANCE
