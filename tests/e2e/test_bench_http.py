"""`bench streaming --url` against a scripted server that notes when it sent what.

Nothing here depends on how fast the machine is: both programs read one clock, so that every stamp
of the client has a stamp of the server that it must not come before, and one that it must not come
after.
"""

import itertools
import json
import math
import os
import re
import subprocess
import time

import pytest

from fake_openai import PROMPT_TOKENS, Answer, FakeOpenAI

TTFT = {"receive_ms": 0.125, "tokenize_ms": 0.25, "submit_ms": 0.5, "queue_ms": 1.0,
        "cache_ms": 0.05, "prefill_ms": 2.0, "first_write_ms": 0.075, "total_ms": 4.0}


def bench(run, tmp_path, url, *flags, **kwargs):
    """The finished process and its result file (None: it wrote none)."""
    path = tmp_path / "result.json"
    path.unlink(missing_ok=True)
    done = run("bench", "streaming", "--url", url, "--warmup-runs", 0, "--output", path, *flags,
               **kwargs)
    return done, json.loads(path.read_text()) if path.exists() else None


def measured(run, tmp_path, script, *flags):
    """(server's notes, result, table) of a run in which nothing fails."""
    with FakeOpenAI(script) as fake:
        done, result = bench(run, tmp_path, fake.url, *flags)
    assert done.returncode == 0, done.stderr
    return fake.seen, result, done.stdout


def row(table: str, label: str) -> list[str]:
    """The words of the line that begins so."""
    lines = [line for line in table.splitlines() if line.startswith(label + " ")]
    assert len(lines) == 1, table
    return lines[0][len(label):].split()


def percentile(samples: list[float], p: float) -> float:
    """Linear between the closest ranks, as numpy has it."""
    s = sorted(samples)
    at = p / 100 * (len(s) - 1)
    low = math.floor(at)
    return s[low] + (s[min(low + 1, len(s) - 1)] - s[low]) * (at - low)


def assert_printed(text: str, value: float) -> None:
    """Equal up to the last digit printed."""
    digits = len(text.partition(".")[2])
    assert abs(float(text) - value) <= 0.5 * 10**-digits + 1e-9, (text, value)


def gaps(chunks: list[float]) -> list[float]:
    return [b - a for a, b in zip(chunks, chunks[1:])]


def by_arrival(requests: list[dict]) -> list[dict]:
    """Request i of the server reports PROMPT_TOKENS + i tokens of prompt."""
    return sorted(requests, key=lambda r: r["prompt_tokens"])


def assert_stamps(seen: list, run_of_it: dict) -> None:
    """sent <= received by the server; each chunk sent by the server <= seen, in order."""
    def clock_ns(ms: float) -> float:
        return run_of_it["start_us"] * 1000 + round(ms * 1000) * 1000

    requests = by_arrival(run_of_it["requests"])
    assert len(requests) == len(seen)
    for one, r in zip(seen, requests):
        assert r["prompt_tokens"] == PROMPT_TOKENS + one.index
        assert clock_ns(r["sent_ms"]) <= one.received_ns
        sent = one.content_ns()
        assert len(r["chunks_ms"]) == len(sent)
        for at_ns, chunk in zip(sent, r["chunks_ms"]):
            assert at_ns // 1000 * 1000 <= clock_ns(chunk)
        assert r["chunks_ms"] == sorted(r["chunks_ms"])
        assert r["first_ms"] == r["chunks_ms"][0]
        assert r["due_ms"] <= r["sent_ms"] <= r["accepted_ms"] <= r["first_ms"]
        assert r["end_ms"] >= r["chunks_ms"][-1]
        assert one.frames[-1].at_ns // 1000 * 1000 <= clock_ns(r["end_ms"])


def assert_table(result: dict, table: str) -> None:
    """Each printed figure follows from the stamps in the result."""
    (one,) = result["runs"]
    ok = [r for r in one["requests"] if r["state"] == "ok"]
    ttft = [r["first_ms"] - r["sent_ms"] for r in ok]
    latency = [r["end_ms"] - r["sent_ms"] for r in ok]
    tpot = [(r["end_ms"] - r["first_ms"]) / max(1, r["completion_tokens"] - 1) for r in ok
            if len(r["chunks_ms"]) > 1]
    itl = [gap for r in ok for gap in gaps(r["chunks_ms"])]
    for label, samples in {"TTFT": ttft, "TPOT": tpot, "ITL": itl, "latency": latency}.items():
        for text, p in zip(row(table, label), (50, 95, 99), strict=True):
            assert_printed(text, percentile(samples, p))
    assert int(row(table, "prompt tokens")[0]) == sum(r["prompt_tokens"] for r in ok)
    tokens = sum(r["completion_tokens"] for r in ok)
    assert int(row(table, "completion tokens")[0]) == tokens
    seconds = max(r["end_ms"] for r in one["requests"]) / 1000
    rate, unit, requests, _ = row(table, "throughput")
    assert unit == "tokens/s,"
    assert_printed(rate, tokens / seconds)
    assert_printed(requests, len(ok) / seconds)
    # vLLM's names say the same
    assert result["total_output_tokens"] == tokens
    assert result["duration"] == pytest.approx(seconds)
    assert result["output_throughput"] == pytest.approx(tokens / seconds)
    assert result["p99_ttft_ms"] == pytest.approx(percentile(ttft, 99))
    assert result["median_itl_ms"] == pytest.approx(percentile(itl, 50))
    assert result["ttfts"] == pytest.approx([x / 1000 for x in ttft])
    assert [len(x) for x in result["itls"]] == [len(r["chunks_ms"]) - 1 for r in ok]


# --- figures


def test_each_figure_of_a_stream(run, tmp_path):
    """One after another: what the client did between two requests is bounded from both sides."""
    def script(index: int, _body: dict) -> Answer:
        texts = ["a", "\u00e9\U0001f600", " c"] + [" d"] * (index % 4)
        return Answer(texts=texts, comment="hold on", gap=0.002 * index, delay=0.001 * index,
                      completion_tokens=7 + index, cached=2, ttft=TTFT)

    seen, result, table = measured(run, tmp_path, script, "--num-requests", 8, "--max-concurrency",
                                   1, "--endpoint", "chat")
    assert len(seen) == 8
    (one,) = result["runs"]
    assert_stamps(seen, one)
    assert_table(result, table)
    requests = by_arrival(one["requests"])
    start_ns = one["start_us"] * 1000
    for earlier, later in zip(seen, seen[1:]):
        end_ns = start_ns + requests[earlier.index]["end_ms"] * 1e6
        assert earlier.frames[-1].at_ns <= end_ns + 1000 and end_ns <= later.received_ns
    for i, r in enumerate(requests):
        assert r["completion_tokens"] == 7 + i and r["cached_tokens"] == 2
        assert r["finish"] == "stop" and r["http_status"] == 200 and r["error"] is None
        assert r["ttft"] == TTFT | {"decode_ms": 0}  # this server tells none
        assert r["server_ttft_ms"] == 4 and r["server_queue_ms"] == 1
    assert result["metrics"]["queue_p50"]["median"] == 1
    assert result["metrics"]["prefill_p50"]["median"] == 2.05  # admitted to first token
    for label, value in {"queue wait": 1, "prefill->first token": 2.05}.items():
        for text in row(table, label):
            assert_printed(text, value)
    assert row(table, "requests") == ["8:", "8", "completed,", "0", "failed"]


def test_requests_at_once(run, tmp_path):
    """All in flight together, split in the middle of frames, characters and chunk sizes."""
    def script(index: int, _body: dict) -> Answer:
        return Answer(texts=[f"\u4e2d{index}", "\U0001f600"] * (1 + index % 3), gap=0.001,
                      split=3 + index, newline="\r\n" if index % 2 else "\n")

    seen, result, table = measured(run, tmp_path, script, "--num-requests", 24)
    assert_stamps(seen, result["runs"][0])
    assert_table(result, table)
    for one, r in zip(seen, by_arrival(result["runs"][0]["requests"])):
        assert r["completion_tokens"] == len(one.content_ns()) == 2 * (1 + one.index % 3)
        assert one.path == "/v1/completions"
        assert one.body["model"] == "fake" and one.body["stream"] is True
        assert one.body["stream_options"] == {"include_usage": True}
        assert one.body["max_tokens"] == 64 and one.body["temperature"] == 0
        assert "ignore_eos" not in one.body


def test_what_came_together_has_one_stamp(run, tmp_path):
    seen, result, table = measured(run, tmp_path, lambda *_: Answer(together=True),
                                   "--num-requests", 3, "--max-concurrency", 1)
    assert_stamps(seen, result["runs"][0])
    assert_table(result, table)
    for r in result["runs"][0]["requests"]:
        assert len(r["chunks_ms"]) == 3 and len(set(r["chunks_ms"])) == 1
        assert r["end_ms"] == r["first_ms"]
    assert [float(text) for text in row(table, "ITL")] == [0] * 3


def test_a_server_that_says_little(run, tmp_path):
    """No usage, no [DONE], no measurements: n/a, and the chunks are the tokens."""
    answer = Answer(texts=["a", "b"], usage=False, done=False)
    _, result, table = measured(run, tmp_path, lambda *_: answer, "--num-requests", 4)
    for r in result["runs"][0]["requests"]:
        assert r["prompt_tokens"] == 0 and r["completion_tokens"] == 2
        assert r["ttft"] is None and r["server_ttft_ms"] is None and r["server_queue_ms"] is None
    for label in ("add_request latency", "queue wait", "prefill->first token"):
        assert row(table, label) == ["n/a"] * 3
    for label in ("paged attention", "batch settings", "prompt tokens"):
        assert row(table, label) == ["n/a"]
    told = row(table, "completion tokens")
    assert told[:2] == ["8", "(4"] and "chunks:" in told
    assert result["runs"][0]["uncounted"] == 4
    assert "queue_p50" not in result["metrics"]
    assert result["environment"]["engine"] is None and "batch" not in result


def test_measurements_of_others(run, tmp_path):
    """vLLM's metrics give the queue, llama.cpp's timings count tokens."""
    def script(index: int, _body: dict) -> Answer:
        return Answer(usage=False, timings=True, cached=3, completion_tokens=5 + index,
                      metrics={"time_to_first_token_ms": 9.5, "queue_time_ms": 2.5})

    _, result, table = measured(run, tmp_path, script, "--num-requests", 2, "--max-concurrency", 1)
    for i, r in enumerate(by_arrival(result["runs"][0]["requests"])):
        assert r["prompt_tokens"] == PROMPT_TOKENS + i and r["cached_tokens"] == 3
        assert r["completion_tokens"] == 5 + i
        assert r["server_ttft_ms"] == 9.5 and r["server_queue_ms"] == 2.5
    assert_table(result, table)


def test_goodput(run, tmp_path):
    """Those that the server holds back past the objective do not meet it."""
    def script(index: int, _body: dict) -> Answer:
        return Answer(texts=["a", "b"], delay=0 if index % 2 else 0.25)

    _, result, table = measured(run, tmp_path, script, "--num-requests", 4, "--goodput",
                                "ttft:250,tpot:9e9")
    requests = by_arrival(result["runs"][0]["requests"])
    good = [r for r in requests if r["first_ms"] - r["sent_ms"] <= 250]
    assert not any(r in good for r in requests[::2])
    rate, _, n, _, of = row(table, "goodput")[:5]
    assert (n, of) == (str(len(good)), "4")
    assert_printed(rate, len(good) / (max(r["end_ms"] for r in requests) / 1000))


def test_warm_ups_do_not_count(run, tmp_path):
    with FakeOpenAI(lambda *_: Answer()) as fake:
        done, result = bench(run, tmp_path, fake.url + "/v1/", "--num-requests", 3,
                             "--warmup-runs", 2, "--repeat-runs", 2, "--unique-prompts",
                             "--max-concurrency", 1)
    assert done.returncode == 0, done.stderr
    assert len(fake.seen) == 12 and len(result["runs"]) == 2
    asked = {one.body["prompt"] for one in fake.seen}
    assert len(asked) == 12
    for k, one in enumerate(result["runs"]):
        assert_stamps_of = fake.seen[6 + 3 * k:9 + 3 * k]
        assert_stamps(assert_stamps_of, one)
    assert row(done.stdout, "requests")[:4] == ["6", "in", "2", "runs:"]


# --- failures


def failing(run, tmp_path, script, *flags, n=4, **fake_arguments):
    """A run in which requests fail: exit status 1, and everything else as ever."""
    with FakeOpenAI(script, **fake_arguments) as fake:
        done, result = bench(run, tmp_path, fake.url, "--num-requests", n, "--max-concurrency", 1,
                             *flags)
    assert done.returncode == 1
    return done, result["runs"][0]["requests"]


BROKEN = {
    "malformed": (Answer(malformed_after=2), "malformed chunk: "),
    "error": (Answer(error_after=2, message="lost a worker"), "the server reports: lost a worker"),
    "died": (Answer(die_after=2), "the answer broke off after "),
    "no end": (Answer(texts=["a", "b"], finish=None, usage=False, done=False),
               "the stream ended after 2 chunks without [DONE] or a finish_reason"),
    "refused": (Answer(status=429, message="slow down"), "HTTP 429: slow down"),
    "loading": (Answer(status=503, message="loads"), "HTTP 503: loads"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_one_request_fails(run, tmp_path, name):
    answer, says = BROKEN[name]
    done, requests = failing(run, tmp_path,
                             lambda index, _: answer if index == 1 else Answer())
    assert [r["state"] for r in requests] == ["ok", "failed", "ok", "ok"]
    assert says in requests[1]["error"]
    assert "1 of 4 requests failed" in done.stderr and says in done.stderr
    assert row(done.stdout, "requests") == ["4:", "3", "completed,", "1", "failed"]
    assert requests[1]["http_status"] == answer.status
    if name not in ("refused", "loading", "died"):  # a reset may overtake what was sent
        assert len(requests[1]["chunks_ms"]) == 2
        assert requests[1]["completion_tokens"] == 2


def test_the_server_dies(run, tmp_path):
    """What came before is kept, in the table and in the file."""
    def script(index: int, _body: dict) -> Answer:
        return Answer(die_after=1, for_good=True) if index == 3 else Answer()

    done, requests = failing(run, tmp_path, script, n=8)
    assert [r["state"] for r in requests] == ["ok"] * 3 + ["failed"] * 5
    assert "broke off" in requests[3]["error"]
    for r in requests[4:]:
        assert "no answer: " in r["error"] and r["http_status"] is None
        assert r["first_ms"] is None and r["end_ms"] >= r["sent_ms"]
    assert row(done.stdout, "requests") == ["8:", "3", "completed,", "5", "failed"]
    assert float(row(done.stdout, "TTFT")[0]) > 0


def test_all_fail(run, tmp_path):
    done, requests = failing(run, tmp_path, lambda *_: Answer(status=503, message="full"))
    assert "4 of 4 requests failed; the first: HTTP 503: full" in done.stderr
    assert all(r["state"] == "failed" and r["http_status"] == 503 for r in requests)
    assert row(done.stdout, "TTFT") == ["n/a"] * 3


def test_timeout(run, tmp_path):
    done, requests = failing(run, tmp_path,
                             lambda index, _: Answer(gap=30 if index == 0 else 0), "--timeout", 2,
                             n=2)
    assert requests[0]["error"] == "no end within 2 s: 1 chunks had come"
    assert requests[0]["end_ms"] - requests[0]["sent_ms"] >= 1990
    assert len(requests[0]["chunks_ms"]) == 1
    assert requests[1]["state"] == "ok"
    assert "no end within 2 s" in done.stderr


# --- before anything is measured


def refused(run, tmp_path, url, *flags, **kwargs) -> str:
    done, result = bench(run, tmp_path, url, *flags, **kwargs)
    assert done.returncode in (1, 2) and done.stdout == "" and result is None
    return done.stderr


def test_unreachable(run, tmp_path):
    with FakeOpenAI(lambda *_: Answer()) as fake:
        pass  # its port is free again
    words = refused(run, tmp_path, fake.url)
    assert f"--url: no answer from {fake.url}/v1/models: Failed to connect" in words


def test_model_names(run, tmp_path):
    with FakeOpenAI(lambda *_: Answer(), models=("one", "two")) as fake:
        assert 'has no "three": it has "one", "two"' in refused(run, tmp_path, fake.url, "--model",
                                                               "three")
        done, result = bench(run, tmp_path, fake.url, "--model", "two", "--num-requests", 1)
    assert done.returncode == 0 and fake.seen[0].body["model"] == "two"
    assert row(done.stdout, "model") == ["two"]
    assert result["environment"]["model"] == "two"


def test_keys(run, tmp_path):
    """A wrong key is named by its file only; a proxy of the environment is not used."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text("# the server's\nsk-good\n")
    bad.write_text("sk-bad\n")
    environment = dict(os.environ, http_proxy="http://127.0.0.1:1", ALL_PROXY="http://127.0.0.1:1")
    with FakeOpenAI(lambda *_: Answer(), key="sk-good") as fake:
        assert "wants a key: give one with --api-key-file" in refused(run, tmp_path, fake.url)
        words = refused(run, tmp_path, fake.url, "--api-key-file", bad)
        assert "refuses the key of --api-key-file" in words and "sk-bad" not in words
        assert "--api-key-file" in refused(run, tmp_path, fake.url, "--api-key-file",
                                           tmp_path / "none")
        done, _ = bench(run, tmp_path, fake.url, "--api-key-file", good, "--num-requests", 2,
                        env=environment)
    assert done.returncode == 0, done.stderr
    assert [one.headers["authorization"] for one in fake.seen] == ["Bearer sk-good"] * 2


def test_urls(run, tmp_path):
    for url in ("127.0.0.1:8080", "ftp://127.0.0.1", "http://127.0.0.1:99999", ""):
        assert "--url: expected http://HOST:PORT" in refused(run, tmp_path, url)
    words = refused(run, tmp_path, "http://me:secret@127.0.0.1:1")
    assert "--api-key-file" in words and "secret" not in words


ENGINE_FLAGS = [("--threads", 2), ("--ctx", 64), ("--engine", "cpu"), ("--kv-memory", "64M"),
                ("--max-batch-size", 4), ("--paged-attn",), ("--device", "cpu")]


@pytest.mark.parametrize("flags", ENGINE_FLAGS, ids=lambda flags: flags[0])
def test_engine_flags_are_refused(run, tmp_path, flags):
    with FakeOpenAI(lambda *_: Answer()) as fake:
        words = refused(run, tmp_path, fake.url, *flags)
    assert flags[0] in words and "does not go with --url: the server has its own" in words
    assert not fake.seen


def test_nothing_asked(run, tmp_path):
    with FakeOpenAI(lambda *_: Answer()) as fake:
        assert "--num-requests" in refused(run, tmp_path, fake.url, "--num-requests", 0)


def test_interrupted(binary, tmp_path):
    """SIGINT: what came is kept, what runs is cancelled."""
    path = tmp_path / "result.json"
    with FakeOpenAI(lambda index, _: Answer(gap=0 if index == 0 else 60)) as fake:
        process = subprocess.Popen(
            [str(binary), "bench", "streaming", "--url", fake.url, "--warmup-runs", "0",
             "--num-requests", "3", "--max-concurrency", "1", "--output", str(path)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(fake.seen) < 2 or not fake.seen[1].content_ns():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(2)
        table, words = process.communicate(timeout=60)
    assert process.returncode == 130, words
    requests = json.loads(path.read_text())["runs"][0]["requests"]
    assert [r["state"] for r in requests] == ["ok", "cancelled", "unsent"]
    assert re.search("INTERRUPTED|cancelled", table)


def test_a_repeat_that_cannot_be_run(run, tmp_path):
    """The server refuses the second repeat's background stream: the first repeat is kept."""
    background = itertools.count()

    def script(_, body):
        if body["max_tokens"] != 1024:
            return Answer()
        if next(background) > 0:
            return Answer(status=503, message="full")
        return Answer(texts=["x"] * 1000, gap=0.01)

    with FakeOpenAI(script) as fake:
        done, result = bench(run, tmp_path, fake.url, "--num-requests", 2, "--background", 1,
                             "--repeat-runs", 3)
    assert done.returncode == 1
    assert "background stream 1 of 1 did not come up: HTTP 503: full" in done.stderr
    assert row(done.stdout, "requests")[:3] == ["2:", "2", "completed,"]
    assert len(result["runs"]) == 1 and result["runs"][0]["completed"] == 2
