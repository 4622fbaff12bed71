"""Every CPU level gives the same answers, and no processor meets an instruction that it lacks.

The machine's own levels are tested with --cpu-mask. A processor that has less is emulated by qemu's
user mode, where an instruction beyond it ends the program by SIGILL: Haswell has AVX2 and nothing
above, Nehalem no AVX at all. What it computes equals what this machine computes at that level, in
every bit: IEEE arithmetic in a fixed order has one result.
"""

import json
import shutil
import subprocess

import numpy as np
import pytest

from conftest import GOLDEN

LADDER = ["avx2", "avx2,avx_vnni", "avx2,avx512", "avx2,avx512,avx512_vnni",
          "avx2,avx512,avx512_vnni,avx512_bf16"]
PROMPTS = json.loads((GOLDEN / "greedy.json").read_text())["prompts"]
MODELS = json.loads((GOLDEN / "tiny/manifest.json").read_text())["models"]
BY_NAME = {row["name"]: row for row in MODELS}
WEIGHT_TYPES = ["base", "bf16", "f16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k",
                "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"]
TOLERANCE = 1e-4  # as in test_golden_tiny.py

QEMU = shutil.which("qemu-x86_64")
needs_qemu = pytest.mark.skipif(
    QEMU is None, reason="qemu-x86_64 is not here: `make deps` installs it (Debian's qemu-user)")


@pytest.fixture(scope="module")
def rungs(run) -> list[str]:
    """The masks of LADDER that this machine has all levels of."""
    have = set(run("version").stdout.splitlines()[1].split(": ")[1].split())
    return [mask for mask in LADDER if set(mask.split(",")) <= have]


@pytest.fixture(scope="module")
def emulated(binary):
    """emulated("Haswell", "logits", ...): as `run`, on that processor."""
    def run_emulated(cpu: str, *arguments: object, stdin: str = ""):
        command = [QEMU, "-cpu", cpu, str(binary), *map(str, arguments)]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60,
                              check=False)

    return run_emulated


def tiny_path(name: str):
    return GOLDEN / "tiny" / f"{name}.gguf"


def logits(runner, *arguments: object, name: str, out) -> np.ndarray:
    result = runner(*arguments, "--model", tiny_path(name), "--npy", out,
                    stdin=json.dumps(BY_NAME[name]["ids"]))
    assert result.returncode == 0, result.stderr
    return np.load(out)


def tokens(runner, *arguments: object, model) -> list[int]:
    result = runner(*arguments, "--model", model, "--raw", "--ignore-eos", "--json",
                    "--max-tokens", 12, "Once upon a time")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["tokens"]


@pytest.mark.parametrize("name", WEIGHT_TYPES)
def test_every_level_is_exact_on_the_float_path(run, rungs, tmp_path, name):
    expected = np.load(GOLDEN / "tiny" / f"{name}.npy")
    for mask in ["c", *rungs]:
        found = logits(run, "logits", "--activations", "f32", "--cpu-mask", mask, name=name,
                       out=tmp_path / "out.npy")
        assert np.abs(found - expected).max() <= TOLERANCE, mask


def test_every_level_continues_the_default_model_as_the_reference(run, model, rungs, tmp_path):
    """The float path of the real model, its shapes and its weight types, token by token."""
    prompt = PROMPTS[0]
    file = tmp_path / "prompt.txt"
    file.write_text(prompt["text"])
    for mask in rungs:
        result = run("run", "--model", model, "--activations", "f32", "--raw", "--ignore-eos",
                     "--temperature", 0, "--max-tokens", 48, "--json", "--prompt-file", file,
                     "--cpu-mask", mask)
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["tokens"] == prompt["tokens"], mask


def test_every_level_knows_the_capital_of_france(run, model, rungs):
    """The int8 path: its roundings differ from level to level, what it says so early does not."""
    for mask in rungs:
        result = run("run", "--model", model, "--raw", "--temperature", 0, "--max-tokens", 3,
                     "--json", "--cpu-mask", mask, "The capital of France is")
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["text"].startswith(" Paris"), mask


@needs_qemu
def test_the_emulated_processor_has_avx2_alone(emulated):
    assert emulated("Haswell", "version").stdout.splitlines()[1].endswith(": avx2")


@needs_qemu
@pytest.mark.parametrize("name", WEIGHT_TYPES)
def test_logits_of_an_avx2_processor(run, emulated, tmp_path, name):
    for activations in ["int8", "f32"]:
        flags = ["logits", "--activations", activations]
        there = logits(emulated, "Haswell", *flags, name=name, out=tmp_path / "there.npy")
        here = logits(run, *flags, "--cpu-mask", "avx2", name=name, out=tmp_path / "here.npy")
        assert there.tobytes() == here.tobytes(), activations


@needs_qemu
@pytest.mark.parametrize("sampling", [
    ["--temperature", 0],
    ["--seed", 2],
    ["--temperature", 1, "--top-k", 0, "--top-p", 1, "--min-p", 0, "--seed", 3],
    ["--temperature", 0.8, "--top-k", 40, "--top-p", 0.95, "--min-p", 0, "--seed", 4],
    ["--temperature", 1.2, "--top-k", 0, "--top-p", 0.9, "--min-p", 0.001, "--seed", 5],
], ids=["greedy", "default", "temperature", "top-k", "top-p"])
def test_tokens_of_an_avx2_processor(run, emulated, sampling):
    there = tokens(emulated, "Haswell", "run", *sampling, model=tiny_path("q4_k"))
    here = tokens(run, "run", *sampling, "--cpu-mask", "avx2", model=tiny_path("q4_k"))
    assert len(there) == 12 and there == here


@needs_qemu
def test_a_processor_without_avx_is_told_and_can_still_run(run, emulated):
    refused = emulated("Nehalem", "run", "--model", tiny_path("q4_1"), "--raw", "abc")
    assert refused.returncode == 1 and "has no AVX2" in refused.stderr
    there = tokens(emulated, "Nehalem", "run", "--cpu-mask", "c", "--seed", 1,
                   model=tiny_path("q4_1"))
    assert there == tokens(run, "run", "--cpu-mask", "c", "--seed", 1, model=tiny_path("q4_1"))
