"""`firstlight bench curves`, in its own process and against a server: that what it measures is
there and right where it is no matter of time. What the figures mean is tested under a script in
tests/unit/bench/kinds/test_curves.c."""

import json
import os
import pty
import subprocess

QUICK = ("--num-requests", 8, "--samples", 4, "--max-batch", 4, "--prompt-tokens", 16,
         "--max-new-tokens", 8, "--max-rate", 200, "--warmup-runs", 0)


def test_every_curve(run, tiny, tmp_path):
    out = tmp_path / "curves.json"
    done = run("bench", "curves", "--model", tiny, *QUICK, "--repeat-runs", 2,
               "--machine-cost-per-hour", 1.5, "--output", out)
    assert done.returncode == 0, done.stderr
    assert "256  and longer skipped: they do not fit the context of 256 tokens" in done.stdout
    assert "fit: " in done.stdout and "knee: " in done.stdout
    assert "Cost per million tokens at 1.5 an hour" in done.stdout
    result = json.loads(out.read_text())
    assert result["kind"] == "curves"
    assert result["workload"]["curves"] == ["prompt", "batch", "context", "rate"]
    assert len(result["environment"]["model_sha256"]) == 64
    metrics = result["metrics"]
    for name in ("ttft_at_32_p50", "ttft_at_128_p50", "tokens_per_s_batch_4", "ttft_batch_1_p50",
                 "cost_per_million_input_tokens", "cost_per_million_output_tokens",
                 "ttft_unloaded_p50"):
        assert len(metrics[name]["repeats"]) == 2, name
        assert metrics[name]["median"] > 0, name
    assert "ttft_at_256_p50" not in metrics
    none = {"median": 1}  # where each answer came in one chunk
    assert metrics.get("decode_tokens_per_s_at_128", none)["median"] > 0
    charts = {chart["id"]: chart for chart in result["charts"]}
    assert set(charts) == {"ttft_by_prompt", "tokens_per_s_by_batch", "ttft_by_batch",
                           "decode_by_context", "ttft_by_rate", "achieved_by_rate",
                           "tokens_per_s_by_rate"}
    points = charts["ttft_by_prompt"]["lines"][0]["points"]
    assert [point[0] for point in points] == [32, 64, 128]
    assert all(low <= y <= high for _, y, low, high in points)
    assert result["fit"]["points"] == 3
    assert result["interrupted"] is False


def test_against_a_server(run, servers, model):
    server = servers(model)
    done = run("bench", "curves", "--url", server.url, "--tokenizer", model, *QUICK,
               "--only", "batch,prompt", "--max-prompt-tokens", 64, "--output", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)  # the table goes to stderr
    assert "Throughput and TTFT by requests at once" in done.stderr
    assert result["environment"]["target"] == server.url
    assert result["environment"]["engine"] is None
    assert result["workload"]["curves"] == ["prompt", "batch"]
    assert {"ttft_at_32_p50", "ttft_at_64_p50", "tokens_per_s_batch_4"} <= set(result["metrics"])
    assert "knee" not in result
    assert server.get("/health")[0] == 200


def test_a_point_that_fails(run, servers, model, tmp_path):
    """A server's context is not known: it refuses what does not fit."""
    out = tmp_path / "curves.json"
    done = run("bench", "curves", "--url", servers(model, "--ctx", 256).url, "--tokenizer", model,
               *QUICK, "--only", "prompt", "--max-prompt-tokens", 512, "--output", out)
    assert done.returncode == 1
    assert "2 of 5 points failed; the first, prompt 256" in done.stderr
    assert "       512  failed: 4 of 4 requests failed" in done.stdout
    result = json.loads(out.read_text())
    assert result["fit"]["points"] == 3
    assert "ttft_at_128_p50" in result["metrics"] and "ttft_at_512_p50" not in result["metrics"]
    failed = {point["x"] for point in result["points"] if point["error"]}
    assert failed == {256, 512}


def test_flags(run, tiny, tmp_path):
    bad = run("bench", "curves", "--model", tiny, "--only", "prompt,speed")
    assert bad.returncode == 2
    assert '--only: expected some of prompt,batch,context,rate, got "speed"' in bad.stderr
    bad = run("bench", "curves", "--model", tiny, "--start-rate", 10, "--max-rate", 5)
    assert bad.returncode == 1 and "--start-rate 10 is above --max-rate 5" in bad.stderr
    bad = run("bench", "curves", "--url", "http://127.0.0.1:1", "--threads", 1)
    assert bad.returncode == 2 and "--threads does not go with --url" in bad.stderr
    bad = run("bench", "curves", "--model", tiny, "--prompt-tokens", 250)
    assert bad.returncode == 1 and "do not fit the context of 256 tokens" in bad.stderr
    bad = run("bench", "curves", "--model", tiny, "--output", tmp_path / "no" / "such.json")
    assert bad.returncode == 1 and "--output" in bad.stderr


def test_progress_names_the_point(binary, tiny):
    """Also before its first request has ended."""
    command = [binary, "bench", "curves", "--model", tiny, *QUICK, "--only", "batch,rate"]
    terminal, stderr = pty.openpty()
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL,
                          stderr=stderr) as process:
        os.close(stderr)
        shown = b""
        try:
            while part := os.read(terminal, 4096):
                shown += part
        except OSError:  # the other side is closed
            pass
    os.close(terminal)
    assert process.returncode == 0
    for words in (b"batch 4: run 1 of 1: 0 of 4 requests", b"rate, unloaded: run 1 of 1: 0 of 4",
                  b"/s: run 1 of 1: 0 of 8"):
        assert words in shown
