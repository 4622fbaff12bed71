"""bench roofline, and what bench model says beside its speeds. The rates are the machine's."""

import json
import re

import pytest


@pytest.fixture(scope="module")
def roofline(run, tmp_path_factory):
    """roofline(*flags): the finished process and the result, on short runs and little memory."""
    folder = tmp_path_factory.mktemp("roofline")

    def run_bench(*flags):
        path = folder / f"{len(list(folder.iterdir()))}.json"
        done = run("bench", "roofline", "--run-ms", 1, "--repeat-runs", 3, "--footprint", "1M",
                   "--output", path, *flags)
        assert done.returncode == 0, done.stderr
        return done, json.loads(path.read_text())

    return run_bench


def test_each_level_of_the_machine_by_threads(roofline):
    done, result = roofline("--threads", 3)
    assert result["kind"] == "roofline"
    assert result["workload"] == {"footprint_bytes": 1 << 20, "run_ms": 1}
    assert result["environment"]["threads"] == 3
    levels, metrics = result["environment"]["levels"].split(), result["metrics"]
    for threads in (1, 2, 3):
        expected = {"int8_avx2": "avx2", "int8_avx_vnni": "avx_vnni", "f32_avx2": "avx2",
                    "f32_avx512": "avx512", "int8_avx512_vnni": "avx512_vnni",
                    "int8_avx512_vnni_256": "avx512_vnni", "bf16_avx512_bf16": "avx512_bf16"}
        for name, level in expected.items():
            assert (f"{name}_t{threads}" in metrics) == (level in levels), name
        assert f"read_footprint_t{threads}" in metrics
    assert not any(name.endswith("_t4") for name in metrics)
    assert all(len(m["repeats"]) == 3 and m["min"] > 0 for m in metrics.values())
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["1", "thread", "2", "threads", "3", "threads"]
    assert sum(line.endswith("GOP/s") for line in lines) == sum(
        name.endswith("_t1") and not name.startswith("read") for name in metrics)


def test_the_mask_leaves_levels_out(roofline):
    _, result = roofline("--threads", 1, "--cpu-mask", "avx2")
    names = [name for name in result["metrics"] if not name.startswith("read")]
    assert sorted(names) == ["f32_avx2_t1", "int8_avx2_t1"]
    assert result["environment"]["levels"] == "avx2"
    _, result = roofline("--threads", 1, "--cpu-mask", "c")
    assert all(name.startswith("read") for name in result["metrics"])


@pytest.mark.parametrize("flags, expected", [
    (("--threads", "0"), "--threads"),
    (("--run-ms", "0"), "--run-ms"),
    (("--cpu-mask", "sse9"), "sse9"),
    (("--footprint", "big"), "--footprint"),
    (("--model", "x"), "--model"),
    (("--output", "/nonexistent/a"), "/nonexistent/a"),
])
def test_bad_flags_are_named(run, flags, expected):
    done = run("bench", "roofline", *flags)
    assert done.returncode in (1, 2) and done.stdout == ""
    assert expected in done.stderr


def test_model_beside_the_roofline(run, tiny, tmp_path):
    path = tmp_path / "a.json"
    done = run("bench", "model", "--model", tiny, "-p", 64, "-n", 3, "--depth", 5, "--repeat-runs",
               3, "--output", path)
    assert done.returncode == 0, done.stderr
    metrics = json.loads(path.read_text())["metrics"]
    macs = float(re.search(r"prefill .* peaks?: ([\d.]+) M multiply-adds", done.stdout)[1])
    megabytes = float(re.search(r"decode .* bandwidth: ([\d.]+) MB a token", done.stdout)[1])
    assert macs > 0 and megabytes > 0
    for speed, percent in (("prefill_tokens_per_s", "prefill_of_peak"),
                           ("decode_tokens_per_s", "decode_of_bandwidth")):
        speeds, percents = metrics[speed]["repeats"], metrics[percent]["repeats"]
        assert all(p > 0 for p in percents)
        assert [p / percents[0] for p in percents] == pytest.approx([s / speeds[0] for s in speeds])
    assert f"{metrics['prefill_of_peak']['median']:.1f} % of" in done.stdout
    assert f"{metrics['decode_of_bandwidth']['median']:.1f} % of the bandwidth" in done.stdout


def test_several_prompts_and_sequences(run, tiny, tmp_path):
    path = tmp_path / "a.json"
    done = run("bench", "model", "--model", tiny, "-p", 4, "--prompts", 16, "-n", 2, "--batch", 8,
               "--repeat-runs", 3, "--output", path)
    assert done.returncode == 0, done.stderr
    result = json.loads(path.read_text())
    workload, metrics = result["workload"], result["metrics"]
    assert (workload["prompts"], workload["prompt_tokens"]) == (16, 4)
    assert (workload["batch"], workload["decode_tokens"]) == (8, 2)
    rows = {line.split()[0]: line.split()[1:3] for line in done.stdout.splitlines()[2:5]}
    assert rows == {"prefill": ["1", "64"], "prompts": ["16", "4"], "decode": ["8", "2"]}
    speeds = (metrics[f"{name}_tokens_per_s"]["repeats"] for name in ("prompts", "prefill"))
    ratios = [100 * a / b for a, b in zip(*speeds)]
    assert metrics["prompts_of_prefill"]["repeats"] == pytest.approx(ratios)
    assert f"{metrics['prompts_of_prefill']['median']:.1f} % of the rate of one" in done.stdout
    assert f"{metrics['prompts_of_peak']['median']:.1f} % of" in done.stdout
    assert re.search(r"of the bandwidth: [\d.]+ MB a step of 8 tokens", done.stdout)


@pytest.mark.parametrize("flags, expected", [
    (("-p", 9, "--prompts", 64), "--prompts 64 of -p 9 tokens"),
    (("--prompts", 65), "--prompts"),
    (("--batch", 0), "--batch"),
    (("--batch", 65), "--batch"),
])
def test_too_many_are_refused(run, tiny, flags, expected):
    done = run("bench", "model", "--model", tiny, *flags)
    assert done.returncode in (1, 2) and done.stdout == ""
    assert expected in done.stderr


def test_model_without_the_roofline(run, tiny, tmp_path):
    path = tmp_path / "a.json"
    done = run("bench", "model", "--model", tiny, "-p", 8, "-n", 2, "--no-roofline", "--output",
               path)
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(path.read_text())["metrics"]) == ["decode_tokens_per_s",
                                                               "prefill_tokens_per_s"]
    assert "roofline" not in done.stdout
