"""`bench streaming --compare-blocking`: blocking, sync and streaming in turns, on servers of its
own or on one that is there."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fake_openai import Answer, FakeOpenAI

SMALL = ["--num-requests", 8, "--max-new-tokens", 6, "--no-stop-on-eos", "--warmup-runs", 0]
MODES = {"blocking", "sync", "streaming"}
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
        cells = row(done.stdout, f"TTFT P{percent}")
        assert len(cells) == 7
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
    assert "all up at once: cpu, cpu-sync, cpu" in done.stdout
    assert "the engine cpu-sync, which serves one request at a time" in done.stdout
    assert row(done.stdout, "milliseconds") == ["blocking", "sync", "streaming", "blocking", "sync"]


def test_the_columns_take_turns(run, tiny, tmp_path):
    """Each repeat asks all of them, the same prompts, in an order of its own."""
    path = tmp_path / "b.json"
    done = run(*BLOCKING, "--model", tiny, "--threads", 1, "--repeat-runs", 3, "--prompt-tokens",
               10, "--warmup-runs", 1, "--output", path)
    assert done.returncode == 0, done.stderr
    runs = json.loads(path.read_text())["runs"]
    assert [r["mode"] for r in runs] == [m for m in ("blocking", "sync", "streaming")
                                         for _ in range(3)]
    assert {r["start"] for r in runs} == {0}
    ran = [r["mode"] for r in sorted(runs, key=lambda r: r["start_us"])]
    orders = [ran[i:i + 3] for i in range(0, 9, 3)]
    assert all(set(order) == MODES for order in orders)
    assert len(set(map(tuple, orders))) > 1  # of the default seed


def test_improvement_follows_from_the_figures(run, tiny, tmp_path):
    path = tmp_path / "b.json"
    done = run(*BLOCKING, "--model", tiny, "--threads", 1, "--repeat-runs", 2, "--output", path)
    assert done.returncode == 0, done.stderr
    metrics = json.loads(path.read_text())["metrics"]
    for baseline, of in ("blocking", ""), ("sync", "_sync"):
        for what in "ttft_p50", "ttft_p90", "ttft_p95", "tokens_per_s":
            ratio, percent = (metrics[f"improvement{kind}{of}_{what.removeprefix('ttft_')}"]
                              for kind in ("", "_percent"))
            assert (ratio["unit"], percent["unit"]) == ("x", "%")
            assert ratio["better"] == percent["better"] == "higher"
            for i in 0, 1:
                base, stream = (metrics[f"{mode}_{what}"]["repeats"][i]
                                for mode in (baseline, "streaming"))
                lower = what != "tokens_per_s"
                gain = base - stream if lower else stream - base
                assert percent["repeats"][i] == pytest.approx(100 * gain / base)
                assert ratio["repeats"][i] == pytest.approx(
                    base / stream if lower else stream / base)


def test_on_a_server_that_is_there(run, tmp_path):
    path = tmp_path / "b.json"
    with FakeOpenAI(lambda *_: Answer(gap=0.01)) as fake:
        done = run(*BLOCKING, "--url", fake.url, "--unique-prompts", "--repeat-runs", 4,
                   "--output", path)
    asked = [(one.body["stream"], one.body["prompt"]) for one in fake.seen]
    assert done.returncode == 0, done.stderr
    turns = [{stream for stream, _ in asked[i:i + 8]} for i in range(0, 64, 8)]
    assert all(len(turn) == 1 for turn in turns)
    assert all(turns[i] != turns[i + 1] for i in range(0, 8, 2))  # both in each repeat
    assert len({prompt for _, prompt in asked}) == 64  # none finds another's in a cache
    assert row(done.stdout, "TTFT P50")[1] == "n/a"
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


def test_an_interruption_keeps_the_repeats_before_it(binary, tmp_path):
    path = tmp_path / "b.json"
    with FakeOpenAI(lambda *_: Answer(gap=0.01)) as fake:
        process = subprocess.Popen([binary, *map(str, BLOCKING), "--url", fake.url,
                                    "--repeat-runs", "100", "--output", path],
                                   stdout=subprocess.PIPE, text=True)
        while len(fake.seen) < 30:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        table, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    runs = json.loads(path.read_text())["runs"]
    whole = [r for r in runs if not r["interrupted"]]
    assert len(runs) - len(whole) <= 1
    assert 3 <= len(whole) < 100 and {r["mode"] for r in whole} == MODES - {"sync"}
    assert "TTFT P50" in table


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_its_servers_end_with_it(binary, tiny, how):
    """However the benchmark ends, no server is left."""
    command = [binary, *map(str, BLOCKING), "--model", tiny, "--threads", "1",
               "--max-concurrency", "1", "--num-requests", "20000"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while len(children := children_of(process.pid)) < 3:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(how)
        process.wait(60)
    finally:
        process.kill()
    assert process.returncode == {signal.SIGINT: 130, signal.SIGKILL: -9}[how]
    deadline = time.monotonic() + 60
    while not all(map(gone, children)):
        assert time.monotonic() < deadline, "a server outlives the benchmark"
        time.sleep(0.01)
