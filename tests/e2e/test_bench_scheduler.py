"""bench scheduler: the engine without HTTP, online and offline."""

import json

import pytest


@pytest.fixture(scope="module")
def bench(run, tiny):
    """bench(mode, *flags): the finished process, small unless told otherwise."""

    def run_bench(mode, *flags):
        return run("bench", "scheduler", "--mode", mode, "--model", tiny, "--num-requests", 6,
                   "--prompt-tokens", 16, "--max-new-tokens", 8, *flags)

    return run_bench


def read(path) -> dict:
    return json.loads(path.read_text())


def test_offline_splits_prefill_and_decode(bench, tmp_path):
    out = tmp_path / "a.json"
    done = bench("offline", "--repeat-runs", 3, "--output", out)
    assert done.returncode == 0, done.stderr
    result = read(out)
    assert result["kind"] == "scheduler"
    assert result["workload"]["mode"] == "offline"
    assert len(result["runs"]) == 3
    for run in result["runs"]:
        assert run["decoded_tokens"] == 6 * (8 - 1)
        assert run["prompt_tokens"] == 6 * 16
        if run["decode_s"] is None:  # on a busy machine: there is no time left for it
            assert run["prefill_s"] >= run["duration_s"]
        else:
            assert run["prefill_s"] + run["decode_s"] == pytest.approx(run["duration_s"])
    metrics = result["metrics"]
    assert metrics["prefill_tokens_per_s"]["repeats"] == pytest.approx(
        [6 * 16 / run["prefill_s"] for run in result["runs"]])
    assert not any(name.startswith("ttft") for name in metrics)
    assert "n/a: offline" in done.stdout
    for name in ("prefill", "decode", "whole run"):
        assert f"\n{name} " in done.stdout


def test_online_requests_arrive_and_stream(bench, tmp_path):
    out = tmp_path / "a.json"
    done = bench("online", "--request-rate", 50, "--burstiness", 0.5, "--output", out)
    assert done.returncode == 0, done.stderr
    result = read(out)
    assert result["workload"]["mode"] == "online"
    assert result["workload"]["request_rate"] == 50
    requests = result["runs"][0]["requests"]
    assert len(requests) == 6
    dues = [r["due_ms"] for r in requests]
    assert dues == sorted(dues) and dues[-1] > dues[0]
    assert all(r["prompt_tokens"] == 16 and r["completion_tokens"] == 8 for r in requests)
    for name in ("ttft_p50", "latency_mean", "tokens_per_s"):
        assert name in result["metrics"]
    streamed = any(len(r["chunks_ms"]) > 1 for r in requests)  # not so on a busy machine
    assert ("tpot_p50" in result["metrics"]) == streamed
    for name in ("TTFT", "TPOT", "latency", "throughput"):
        assert f"\n{name} " in done.stdout


def test_the_same_seed_asks_for_the_same(bench, tmp_path):
    results = []
    for name in ("a", "b"):
        out = tmp_path / name
        assert bench("online", "--request-rate", 100, "--seed", 7, "--output", out).returncode == 0
        results.append(read(out))
    assert results[0]["workload"] == results[1]["workload"]
    dues = [[r["due_ms"] for r in result["runs"][0]["requests"]] for result in results]
    assert dues[0] == dues[1]


@pytest.mark.parametrize("flags, code, expected", [
    ((), 1, "--mode online|offline is required"),
    (("--mode", "both"), 2, "--mode"),
    (("--mode", "offline", "--request-rate", "3"), 1, "--request-rate goes with --mode online"),
    (("--mode", "offline", "--burstiness", "3"), 1, "--burstiness goes with --mode online"),
    (("--mode", "online", "--request-rate", "0"), 2, "--request-rate"),
    (("--mode", "online", "--num-requests", "0"), 2, "--num-requests"),
    (("--mode", "offline", "--max-new-tokens", "1"), 2, "--max-new-tokens"),
    (("--mode", "offline", "--url", "http://127.0.0.1:9"), 2, "--url"),
    (("--mode", "offline", "--engine", "warp"), 1, "warp"),
    (("--mode", "offline", "--output", "/nonexistent/a"), 1, "/nonexistent/a"),
])
def test_bad_flags_are_named(run, tiny, flags, code, expected):
    done = run("bench", "scheduler", "--model", tiny, *flags)
    assert done.returncode == code
    assert expected in done.stderr
    assert done.stdout == ""


def test_a_model_that_is_not_there(run):
    done = run("bench", "scheduler", "--mode", "offline", "--model", "/nonexistent.gguf")
    assert done.returncode == 1
    assert "/nonexistent.gguf" in done.stderr


def test_prompts_that_do_not_fit_fail_the_run(bench):
    done = bench("offline", "--prompt-tokens", 100000)
    assert done.returncode == 1
    assert "100000" in done.stderr or "context" in done.stderr
