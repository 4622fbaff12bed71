"""Perplexity of 4,335 scored tokens: the float path equals transformers, the fast path is near."""

import json

import pytest

from conftest import GOLDEN

REFERENCE = json.loads((GOLDEN / "perplexity.json").read_text())
ALL_LEVELS = "avx2,avx_vnni,avx512,avx512_vnni,avx512_bf16"
FLOAT_TOLERANCE = 0.001  # relative, to transformers in fp32
FAST_TOLERANCE = 0.01    # relative, to our float path


def perplexity(run, model, *flags) -> dict:
    result = run("perplexity", "--model", model, "--file", GOLDEN / "perplexity.txt",
                 "--ctx", REFERENCE["ctx"], "--json", *flags, timeout=280)
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["scored_tokens"] == REFERENCE["scored_tokens"]
    return answer


@pytest.fixture(scope="module")
def float_path(run, model) -> dict:
    return perplexity(run, model, "--activations", "f32")


def test_float_path_equals_the_reference(float_path):
    assert float_path["perplexity"] == pytest.approx(REFERENCE["perplexity_fp32"],
                                                     rel=FLOAT_TOLERANCE)


@pytest.mark.parametrize("mask", ["avx2", ALL_LEVELS], ids=["avx2", "all levels"])
def test_fast_path_is_near_the_float_path(run, model, float_path, mask):
    fast = perplexity(run, model, "--cpu-mask", mask)
    assert fast["perplexity"] == pytest.approx(float_path["perplexity"], rel=FAST_TOLERANCE)
