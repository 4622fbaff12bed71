"""`bench streaming --compare-blocking`: stream off, cpu-sync and streaming, on servers of its own
or on one that is there."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fake_openai import Answer, FakeOpenAI

SMALL = ["--num-requests", 8, "--max-new-tokens", 6, "--no-stop-on-eos", "--warmup-runs", 0]
BLOCKING = ["bench", "streaming", "--compare-blocking", *SMALL]


def row(table: str, label: str) -> list[str]:
    lines = [line for line in table.splitlines() if line.startswith(label)]
    assert lines, f"no row {label} in\n{table}"
    return lines[0][len(label):].split()


def test_on_servers_of_its_own(run, tiny, tmp_path):
    path = tmp_path / "b.json"
    done = run(*BLOCKING, "--model", tiny, "--threads", 1, "--repeat-runs", 2, "--unique-prompts",
               "--output", path)
    assert done.returncode == 0, done.stderr
    for percent in 50, 90, 95:
        cells = row(done.stdout, f"first visible token P{percent}")
        assert len(cells) == 5
        assert "n/a" not in cells
    assert row(done.stdout, "completed of requests") == ["16/16"] * 3
    out = json.loads(path.read_text())
    assert out["kind"] == "blocking"
    assert out["environment"]["target"] == "own server"
    assert out["environment"]["engine"] == "cpu"
    assert out["environment"]["machine"] == "measured"  # it is this one
    runs = {}
    for each in out["runs"]:
        runs.setdefault(each["mode"], []).append(each)
        assert each["completion_tokens"] == 8 * 6
    assert {mode: len(each) for mode, each in runs.items()} == {
        "blocking": 2, "sync": 2, "streaming": 2}
    for mode in "blocking", "sync":  # an answer that comes whole is one chunk
        for request in runs[mode][0]["requests"]:
            assert len(request["chunks_ms"]) == 1
    ratio = out["metrics"]["improvement_p50"]["repeats"][0]
    metrics = out["metrics"]
    assert ratio == pytest.approx(metrics["blocking_ttft_p50"]["repeats"][0] /
                                  metrics["streaming_ttft_p50"]["repeats"][0])
    assert "improvement_sync_p95" in metrics


def test_on_a_server_that_is_there(run, tmp_path):
    path = tmp_path / "b.json"
    with FakeOpenAI(lambda *_: Answer(gap=0.01)) as fake:
        done = run(*BLOCKING, "--url", fake.url, "--unique-prompts", "--output", path)
    asked = [(one.body["stream"], one.body["prompt"]) for one in fake.seen]
    assert done.returncode == 0, done.stderr
    assert [stream for stream, _ in asked] == [False] * 8 + [True] * 8
    assert len({prompt for _, prompt in asked}) == 16  # none finds another's in a cache
    assert row(done.stdout, "first visible token P50")[1] == "n/a"
    metrics = json.loads(path.read_text())["metrics"]
    assert "sync_ttft_p50" not in metrics
    assert metrics["streaming_ttft_p50"]["median"] > 0


def test_a_server_that_cannot_start_says_why(run, tiny):
    done = run(*BLOCKING, "--model", tiny, "--kv-memory", "1")
    assert done.returncode == 1
    assert "kv-memory" in done.stderr


def test_failures_are_told_and_kept(run, tmp_path):
    path = tmp_path / "b.json"
    with FakeOpenAI(lambda *_: Answer(status=503, message="full")) as fake:
        done = run(*BLOCKING, "--url", fake.url, "--output", path)
    assert done.returncode == 1
    assert "8 of 8 requests failed" in done.stderr
    assert row(done.stdout, "completed of requests") == ["0/8", "n/a", "0/8"]
    assert json.loads(path.read_text())["runs"][0]["failed"] == 8


def children_of(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_its_server_ends_with_it(binary, tiny, how):
    """However the benchmark ends, no server is left."""
    command = [binary, *map(str, BLOCKING), "--model", tiny, "--threads", "1",
               "--max-concurrency", "1", "--num-requests", "20000"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not (children := children_of(process.pid)):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(how)
        process.wait(60)
    finally:
        process.kill()
    assert process.returncode == {signal.SIGINT: 130, signal.SIGKILL: -9}[how]
    deadline = time.monotonic() + 60
    while not gone(children[0]):
        assert time.monotonic() < deadline, "the server outlives the benchmark"
        time.sleep(0.01)
