"""`firstlight bench streaming` from outside: its table, its JSON, its refusals, its exit status."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fake_openai import Answer, FakeOpenAI

INTERRUPTED = 130
ROWS = ["model", "device and engine", "paged attention", "batch settings", "requests",
        "prompt tokens", "completion tokens", "submit wall", "add_request latency", "queue wait",
        "prefill->first token", "TTFT", "TPOT", "ITL", "latency", "throughput", "goodput"]
SMALL = ["--num-requests", 12, "--max-new-tokens", 6, "--threads", 1]


@pytest.fixture
def bench(run, tiny):
    """bench(*flags): in-process, on the tiny model."""

    def start(*flags, model=tiny, **kwargs):
        return run("bench", "streaming", "--model", model, *SMALL, *flags, **kwargs)

    return start


@pytest.fixture
def result(bench, tmp_path):
    """result(*flags): the JSON of a run in which nothing failed."""

    def read(*flags, **kwargs):
        path = tmp_path / "result.json"
        done = bench("--output", path, *flags, **kwargs)
        assert done.returncode == 0, done.stderr
        return json.loads(path.read_text())

    return read


def row(table: str, label: str) -> str:
    lines = [line for line in table.splitlines() if line.startswith(label)]
    assert lines, f"no row {label} in\n{table}"
    return lines[0][len(label):].strip()


def fails(done, *words: str, status: int = 1) -> None:
    assert done.returncode == status, done.stdout + done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


# ---- what it prints and writes ------------------------------------------------------------------

def test_table_rows_in_order(bench):
    done = bench()
    assert done.returncode == 0, done.stderr
    at = -1
    for label in ROWS:
        found = done.stdout.find(f"\n{label}" if at >= 0 else label, max(at, 0))
        assert found > at, f"{label} is missing or out of order in\n{done.stdout}"
        at = found
    assert row(done.stdout, "requests") == "12: 12 completed, 0 failed"
    assert row(done.stdout, "batch settings") == "64 requests, 16 prompts a step"
    assert row(done.stdout, "paged attention").startswith("on")


def test_json_of_every_request(result):
    out = result("--no-stop-on-eos", "--repeat-runs", 2, "--seed", 7, "--note", "a note")
    assert out["schema"] == "firstlight-bench/1"
    assert out["kind"] == "streaming"
    assert out["note"] == "a note"
    assert out["workload"]["num_requests"] == 12
    assert out["workload"]["seed"] == 7
    assert len(out["environment"]["model_sha256"]) == 64
    assert out["batch"] == {"max_batch_size": 64, "prefill_max_batch_size": 16,
                            "prefill_max_tokens": None}
    assert len(out["runs"]) == 2
    for run in out["runs"]:
        assert run["completed"] == 12
        for request in run["requests"]:
            assert request["state"] == "ok"
            assert request["completion_tokens"] == 6
            assert request["due_ms"] <= request["sent_ms"] <= request["first_ms"]
            assert request["first_ms"] <= request["end_ms"]
            parts = sum(v for k, v in request["ttft"].items() if k != "total_ms")
            assert parts == pytest.approx(request["ttft"]["total_ms"], abs=1e-6)
    assert out["completed"] == 24
    assert out["total_output_tokens"] == 24 * 6
    assert out["output_throughput"] == pytest.approx(24 * 6 / out["duration"])
    assert len(out["ttfts"]) == len(out["itls"]) == 24
    assert out["metrics"]["ttft_p50"]["unit"] == "ms"
    assert len(out["metrics"]["tokens_per_s"]["repeats"]) == 2


def test_each_repeat_in_process_has_a_start_of_its_own(result, run, small, tmp_path):
    out = result("--repeat-runs", 3)
    assert [r["start"] for r in out["runs"]] == [0, 1, 2]
    assert [r["completed"] for r in out["runs"]] == [12] * 3
    path = tmp_path / "url.json"
    done = run("bench", "streaming", "--url", small.url, "--num-requests", 2, "--max-new-tokens",
               2, "--repeat-runs", 3, "--output", path)
    assert done.returncode == 0, done.stderr
    assert [r["start"] for r in json.loads(path.read_text())["runs"]] == [0, 0, 0]


def test_an_invocation_has_prompts_of_its_own(run, servers, tiny, tmp_path):
    """What an earlier one left in the server's cache is found again only with --same-prompts."""
    server, path = servers(tiny), tmp_path / "out.json"
    asked = ["--num-requests", 4, "--prompt-tokens", 200, "--shared-prefix-tokens", 40,
             "--max-new-tokens", 2, "--warmup-runs", 0, "--max-concurrency", 1]

    def cached(*flags) -> float:
        done = run("bench", "streaming", "--url", server.url, "--tokenizer", tiny, *asked, *flags,
                   "--output", path)
        assert done.returncode == 0, done.stderr
        out = json.loads(path.read_text())
        assert out["workload"].get("same_prompts") == (True if flags else None)
        assert out["input_lens"] == [240] * 4
        return out["runs"][0]["cached_tokens"] / out["runs"][0]["prompt_tokens"]

    shared = 3 * 40 / (4 * 240)  # all but the first find the prefix, and by chance a token more
    for flags in [], [], ["--same-prompts"]:
        assert shared <= cached(*flags) < shared + 0.02
    assert cached("--same-prompts") > 0.9


def test_percentiles_are_those_of_the_samples(result):
    """The printed statistics are exact: numpy's percentiles of every kept sample."""
    out = result()
    ttfts = sorted(1000 * t for t in out["ttfts"])
    rank = 0.95 * (len(ttfts) - 1)
    low = int(rank)
    p95 = ttfts[low] + (rank - low) * (ttfts[low + 1] - ttfts[low])
    assert out["p95_ttft_ms"] == pytest.approx(p95)
    assert out["mean_ttft_ms"] == pytest.approx(sum(ttfts) / len(ttfts))


def test_output_to_standard_output_is_json_alone(bench):
    done = bench("--output", "-")
    assert json.loads(done.stdout)["completed"] == 12
    assert "TTFT" in done.stderr


def test_prompts_have_the_length_asked_for(result):
    out = result("--prompt-tokens", 20, "--shared-prefix-tokens", 8)
    assert out["input_lens"] == [28] * 12


def test_concurrency_is_bounded(result):
    out = result("--max-concurrency", 1)
    requests = sorted(out["runs"][0]["requests"], key=lambda r: r["sent_ms"])
    for before, after in zip(requests, requests[1:]):
        assert after["sent_ms"] >= before["end_ms"]


def test_more_requests_than_slots_and_background(result):
    out = result("--num-requests", 300, "--background", 3, "--max-new-tokens", 2)
    assert out["completed"] == 300
    assert out["runs"][0]["background"]["failed"] == 0


def test_a_batch_of_one_serves_one_after_the_other(result):
    out = result("--max-batch-size", 1, "--prefill-max-tokens", 4, "--no-stop-on-eos")
    requests = out["runs"][0]["requests"]
    for before, after in zip(requests, requests[1:]):
        assert after["first_ms"] >= before["end_ms"]
    assert out["batch"]["max_batch_size"] == 1
    assert out["batch"]["prefill_max_tokens"] == 4


def test_through_the_sync_engine(bench):
    done = bench("--engine", "cpu-sync")
    assert done.returncode == 0, done.stderr
    assert row(done.stdout, "batch settings") == "one request at a time"
    assert row(done.stdout, "device and engine").startswith("cpu-sync on ")


def test_goodput(bench):
    done = bench("--goodput", "ttft:100000,tpot:100000")
    assert "12 of 12 with ttft<=100000 tpot<=100000 ms" in row(done.stdout, "goodput")
    fails(bench("--goodput", "ttft=5"), "--goodput", status=2)


def test_repeats_show_their_spread(bench):
    done = bench("--repeat-runs", 3, "--warmup-runs", 0)
    assert "3 repeats" in done.stdout


# ---- what it refuses ----------------------------------------------------------------------------

@pytest.mark.parametrize("flags, words", [
    (["--device", "cuda"], ["--device", "no backend cuda"]),
    (["--cuda-graph"], ["--cuda-graph"]),
    (["--nvtx"], ["--nvtx"]),
    (["--hf-model-id", "x"], ["--hf-model-id", "not both"]),
    (["--num-requests", "5000"], ["--max-concurrency"]),
    (["--prompt", ""], ["--prompt"]),
    (["--background", "1", "--engine", "cpu-sync"], ["--background", "cpu-sync"]),
])
def test_refusals_name_the_flag(bench, flags, words):
    fails(bench(*flags), *words)


@pytest.mark.parametrize("flags, words", [
    (["--burstiness", "2"], "--burstiness goes with --request-rate"),
    (["--submit-interval-ms", "1", "--request-rate", "5"],
     "--submit-interval-ms does not go with --request-rate"),
    (["--prompt", "x", "--prompt-tokens", "5"], "--prompt does not go with --prompt-tokens"),
    (["--timeout", "5"], "--timeout goes with --url or --compare-blocking"),
    (["--api-key-file", "x"], "--api-key-file goes with --url"),
    (["--tokenizer", "x"], "--tokenizer goes with --url"),
    (["--background", "1", "--compare-blocking"],
     "--background does not go with --compare-blocking"),
])
def test_flags_that_would_be_ignored(bench, flags, words):
    fails(bench(*flags), words, status=2)


@pytest.mark.parametrize("flags", [
    ["--num-requests", "0"], ["--repeat-runs", "0"], ["--burstiness", "0"], ["--policy", "edf"],
    ["--submit-interval-ms", "-1"], ["--request-rate", "nan"], ["--max-batch-size", "0"],
    ["--prefill-max-batch-size", "99999"], ["--seed", "18446744073709551615"],
    ["--background", "99999"], ["--timeout", "86401"], ["--warmup-runs", "1001"],
])
def test_values_out_of_range(bench, flags):
    fails(bench(*flags), flags[0], status=2)


@pytest.mark.parametrize("flags", [
    ["--threads", "1"], ["--ctx", "64"], ["--engine", "auto"], ["--max-batch-size", "64"],
    ["--prefill-max-batch-size", "16"], ["--prefill-max-tokens", "64"], ["--kv-type", "f16"],
    ["--activations", "f32"], ["--activations", "int8"], ["--cpu-mask", "c"],
    ["--kv-memory", "1G"], ["--paged-attn"],
    ["--policy", "fifo"], ["--device", "cpu"], ["--hf-model-id", "x"],
])
def test_engine_flags_with_a_url(run, flags):
    done = run("bench", "streaming", "--url", "http://127.0.0.1:9", *flags)
    fails(done, flags[0], "--url", status=2)


def test_accepted_aliases(bench):
    done = bench("--paged-attn", "--device", "cpu", "--policy", "fifo")
    assert done.returncode == 0, done.stderr


def test_a_model_by_its_hugging_face_name(run, tiny, tmp_path):
    model = tmp_path / "models--org--tiny"
    (model / "refs").mkdir(parents=True)
    (model / "refs/main").write_text("abc")
    (model / "snapshots/abc").mkdir(parents=True)
    shutil.copy(tiny, model / "snapshots/abc/tiny.gguf")
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path)}
    done = run("bench", "streaming", "--hf-model-id", "org/tiny", *SMALL, env=environment)
    assert done.returncode == 0, done.stderr
    assert row(done.stdout, "model") == "tiny"


def test_output_is_checked_before_anything_runs(bench, tmp_path):
    fails(bench("--output", tmp_path / "no/such.json", model=tmp_path / "none.gguf"), "--output")


def test_a_failed_start_keeps_the_old_result(bench, tmp_path):
    path = tmp_path / "old.json"
    path.write_text("kept")
    fails(bench("--output", path, model=tmp_path / "none.gguf"), "none.gguf")
    assert path.read_text() == "kept"
    fails(bench("--output", tmp_path / "new.json", model=tmp_path / "none.gguf"))
    assert os.listdir(tmp_path) == ["old.json"]


def test_output_through_a_link(bench, tmp_path):
    """What the link leads to is written; nothing temporary stays."""
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    assert bench("--output", tmp_path / "link.json").returncode == 0
    assert json.loads((tmp_path / "real.json").read_text())["completed"] == 12
    assert bench("--output", tmp_path / "real.json").returncode == 0
    assert (tmp_path / "link.json").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link.json", "real.json"]


def test_output_to_a_device(bench):
    assert bench("--output", "/dev/null").returncode == 0
    assert not Path("/dev/null").is_file()


# ---- what goes wrong while it runs --------------------------------------------------------------

def test_errors_follow_the_table(binary, tiny):
    """Where both streams go to one file."""
    command = [binary, "bench", "streaming", "--model", tiny, *SMALL, "--prompt-tokens", 100,
               "--ctx", 64]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[-1].startswith("firstlight bench streaming: 12 of 12")


def test_failed_requests_are_counted_and_the_rest_kept(bench, tmp_path):
    path = tmp_path / "r.json"
    done = bench("--prompt-tokens", 100, "--ctx", 64, "--output", path)
    fails(done, "12 of 12 requests failed", "the context holds 64")
    assert row(done.stdout, "throughput") == "n/a"
    assert json.loads(path.read_text())["output_throughput"] is None
    assert "tokens_per_s" not in json.loads(path.read_text())["metrics"]
    assert row(done.stdout, "requests") == "12: 0 completed, 12 failed"
    out = json.loads(path.read_text())
    assert out["failed"] == 12
    assert "the context holds 64" in out["errors"][0]
    assert "ttft_p50" not in out["metrics"]


def catches_interrupt(pid: int) -> bool:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt"):
            return bool(int(line.split()[1], 16) >> (signal.SIGINT - 1) & 1)
    return False


def test_interrupt_keeps_what_there_is(binary, tiny, tmp_path):
    path = tmp_path / "r.json"
    command = [binary, "bench", "streaming", "--model", tiny, "--num-requests", "20000",
               "--max-concurrency", "1", "--max-new-tokens", "200", "--no-stop-on-eos",
               "--warmup-runs", "0", "--threads", "1", "--output", path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not catches_interrupt(process.pid):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED, err
    assert out.startswith("INTERRUPTED in run 1 of 1")
    written = json.loads(path.read_text())
    assert written["runs"][0]["interrupted"] is True
    assert written["completed"] < 20000


# ---- against servers (test_bench_http.py has the figures and the failures) ----------------------

def test_the_request_asks_what_the_flags_say(run):
    with FakeOpenAI(lambda *_: Answer(), models=("fake-model",)) as fake:
        done = run("bench", "streaming", "--url", fake.url, "--num-requests", 4, "--warmup-runs", 0,
                   "--max-new-tokens", 9, "--no-stop-on-eos", "--prompt", "Hi", "--unique-prompts",
                   "--model", "fake-model")
    assert done.returncode == 0, done.stderr
    assert len({one.body["prompt"] for one in fake.seen}) == 4
    for one in fake.seen:
        assert one.body["prompt"].startswith("Hi")
        assert one.body["max_tokens"] == 9
        assert one.body["ignore_eos"] is True
        assert one.body["model"] == "fake-model"


def test_a_server_that_is_not_there(run, tmp_path):
    path = tmp_path / "none.json"
    done = run("bench", "streaming", "--url", "http://127.0.0.1:9", "--output", path)
    fails(done, "127.0.0.1:9")
    assert not path.exists()


def test_this_server_tells_its_parts(run, servers, tiny, tmp_path):
    """Through HTTP this server's own `ttft` object fills the rows that others leave open."""
    server = servers(tiny)
    path = tmp_path / "url.json"
    done = run("bench", "streaming", "--url", server.url, *SMALL[:4], "--output", path)
    assert done.returncode == 0, done.stderr
    assert "n/a" not in row(done.stdout, "queue wait")
    assert "n/a" not in row(done.stdout, "client minus server TTFT")
    for request in json.loads(path.read_text())["runs"][0]["requests"]:
        total = request["first_ms"] - request["sent_ms"]
        assert request["ttft"]["total_ms"] <= total
