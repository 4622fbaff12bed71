"""bench replay: what was recorded of one server is asked of another, to the token."""

import itertools
import json
from pathlib import Path

import pytest
from conftest import GOLDEN
from wire import chunks

HEADER = {"schema": "firstlight-trace/1", "block_tokens": 32, "started": "2026-11-21T17:00:00Z"}


def requests_of(path: Path) -> list[dict]:
    lines = map(json.loads, path.read_text().splitlines()[1:])
    return sorted(lines, key=lambda line: line["timestamp"])


def write(path: Path, *requests: tuple, header: dict | None = HEADER) -> Path:
    """requests: (timestamp, input_length, output_length, hash_ids)"""
    names = ("timestamp", "input_length", "output_length", "hash_ids")
    lines = [dict(zip(names, request)) for request in requests]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*([header] * bool(header)),
                                                                 *lines]))
    return path


def common(a: list, b: list) -> int:
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b))))


def sharing(trace: list[dict]) -> dict:
    """Blocks in common at the beginning, for each two requests, which their lengths name."""
    assert len({line["input_length"] for line in trace}) == len(trace)
    return {frozenset((a["input_length"], b["input_length"])): common(a["hash_ids"], b["hash_ids"])
            for a, b in itertools.combinations(trace, 2)}


def result_of(path: Path) -> dict:
    result = json.loads(path.read_text())
    assert result["schema"] == "firstlight-bench/1" and result["kind"] == "replay"
    return result


def session(server, chat: bool) -> None:
    """Prompts of ids that share 64, 32 and 0 tokens, and one in the chat template."""
    ids = [5 + i % 200 for i in range(120)]
    others = [9 + i % 100 for i in range(120)]
    prompts = [ids, ids[:90], ids[:64] + others[:20], ids[:40] + others[:60], others[:110],
               others[:33], [7]]
    for n, prompt in enumerate(prompts):
        body = {"prompt": prompt, "max_tokens": 3 + n, "ignore_eos": True}
        if n % 2:
            assert server.post("/v1/completions", body)[0] == 200
        else:
            chunks(server, "/v1/completions", body)
    if chat:
        assert server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Why is the sky blue? " * 9}],
            "max_tokens": 4, "ignore_eos": True})[0] == 200


@pytest.fixture(params=["tiny", "model"])
def recorded(request, servers, tmp_path):
    """A model and the trace of a session with it."""
    model = request.getfixturevalue(request.param)
    path = tmp_path / "first.jsonl"
    server = servers(model, "--record", path)
    session(server, request.param == "model")
    assert server.post("/v1/completions", {"prompt": [1] * 50, "top_p": 7})[0] == 400
    assert server.stop() == 0
    return model, path


def test_a_recorded_replay_is_the_recording(recorded, servers, run, tmp_path):
    model, first = recorded
    second, output = tmp_path / "second.jsonl", tmp_path / "result.json"
    server = servers(model, "--record", second)
    result = run("bench", "replay", first, "--url", server.url, "--tokenizer", model, "--speed", 3,
                 "--output", output)
    assert result.returncode == 0, result.stderr
    assert server.stop() == 0
    asked = [line for line in requests_of(first) if line["output_length"] > 0]
    again = requests_of(second)
    assert len(asked) == len(requests_of(first)) - 1 and len(again) == len(asked)
    lengths = {(line["input_length"], line["output_length"]) for line in asked}
    assert lengths == {(line["input_length"], line["output_length"]) for line in again}
    assert sharing(asked) == sharing(again)
    assert max(sharing(asked).values()) == 2
    assert all(line["status"] == 200 and line["stream"] and not line["chat"] for line in again)
    assert not {id for line in asked for id in line["hash_ids"]} & {
        id for line in again for id in line["hash_ids"]}

    measured = result_of(output)
    workload = measured["workload"]
    assert workload["num_requests"] == len(asked) and workload["speed"] == 3
    assert workload["empty"] == 1
    assert measured["input_lens"] == [line["input_length"] for line in asked]
    assert measured["output_lens"] == [line["output_length"] for line in asked]
    start = asked[0]["timestamp"]
    due = [request["due_ms"] for request in measured["runs"][0]["requests"]]
    assert due == pytest.approx([(line["timestamp"] - start) / 3 for line in asked], abs=0.01)
    assert "1 without a prompt or an output" in result.stdout
    assert f"{len(asked)} completed" in result.stdout


def test_an_engine_in_process_and_repeats(run, tiny, tmp_path):
    trace = write(tmp_path / "t", (0, 70, 4, [1, 2]), (5, 64, 2, [1, 3]), (2, 31, 3, []))
    output = tmp_path / "o.json"
    result = run("bench", "replay", trace, "--model", tiny, "--repeat-runs", 2, "--warmup-runs", 1,
                 "--max-concurrency", 1, "--goodput", "ttft:600000", "--output", output)
    assert result.returncode == 0, result.stderr
    measured = result_of(output)
    assert measured["input_lens"] == [70, 31, 64] * 2
    assert measured["output_lens"] == [4, 3, 2] * 2
    assert len(measured["runs"]) == 2
    assert len(measured["metrics"]["ttft_p50"]["repeats"]) == 2
    assert measured["workload"]["max_concurrency"] == 1


def test_a_trace_of_schema_1(run, tiny, tmp_path):
    """What was recorded once stays readable."""
    output = tmp_path / "o.json"
    result = run("bench", "replay", GOLDEN / "trace.jsonl", "--model", tiny, "--speed", 100,
                 "--output", output)
    assert result.returncode == 0, result.stderr
    assert result_of(output)["input_lens"] == [70, 33, 100, 10]
    assert result_of(output)["output_lens"] == [8, 12, 6, 4]


def test_mooncake_and_what_is_left_out(run, tiny, tmp_path):
    """No first line of ours: blocks of 512, here with a last one that is not whole."""
    trace = write(tmp_path / "t", (10, 100, 2, [7]), (0, 60, 2, [8]), (20, 600, 2, [7, 9]),
                  (30, 80, 2, [7]), (40, 90, 0, [7]), header=None)
    output = tmp_path / "o.json"
    result = run("bench", "replay", trace, "--model", tiny, "--max-length", 200, "--num-requests",
                 2, "--output", output)
    assert result.returncode == 0, result.stderr
    assert result_of(output)["input_lens"] == [60, 100]
    assert result_of(output)["workload"]["block_tokens"] == 512
    assert "1 of more than 200 tokens" in result.stdout


def test_requests_that_fail(run, tiny, tmp_path):
    """The tiny model's context is 256: the other request's figures are kept."""
    trace = write(tmp_path / "t", (0, 300, 2, []), (1, 30, 2, []))
    output = tmp_path / "o.json"
    result = run("bench", "replay", trace, "--model", tiny, "--output", output)
    assert result.returncode == 1
    assert "1 of 2 requests failed" in result.stderr and "300 tokens" in result.stderr
    assert "1 completed, 1 failed" in result.stdout
    assert result_of(output)["completed"] == 1


@pytest.mark.parametrize("text, what", [
    (None, "cannot read"), ("", "no request"), ("{\n", ":1:"),
    ('{"timestamp": 0, "input_length": 3, "output_length": 1}\n{"timestamp": -1}\n', ":2:"),
    ('{"schema": "firstlight-trace/9", "block_tokens": 32}\n', "schema"),
])
def test_bad_files(run, tiny, tmp_path, text, what):
    path = tmp_path / "trace"
    if text is not None:
        path.write_text(text)
    result = run("bench", "replay", path, "--model", tiny)
    assert result.returncode == 1
    assert str(path) in result.stderr and what in result.stderr
    assert result.stderr.count("\n") == 1


def test_bad_flags(run, tiny, tmp_path):
    trace = write(tmp_path / "t", (0, 30, 2, []))
    for flags in (["--speed", "0"], ["--speed", "nan"], ["--goodput", "ttft"], ["more"]):
        result = run("bench", "replay", trace, "--model", tiny, *flags)
        assert result.returncode == 2, flags
    assert run("bench", "replay", "--model", tiny).returncode == 1
    result = run("bench", "replay", trace, "--url", "http://127.0.0.1:9", "--model", "m")
    assert result.returncode == 1 and "127.0.0.1:9" in result.stderr


def test_more_requests_than_a_run_has(run, tmp_path):
    """LIMIT_BENCH_REQUESTS: here, because a sanitizer's program takes ten times as long."""
    path = tmp_path / "long.jsonl"
    path.write_text('{"timestamp":1,"input_length":1,"output_length":1}\n' * (2**20 + 1))
    result = run("bench", "replay", path)
    assert result.returncode == 1
    assert ":1048577: more than 1048576 requests" in result.stderr
