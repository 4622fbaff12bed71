"""serve --record: a line for each request, whole at every moment, and no word of what was said."""

import json
import resource
import time
from datetime import datetime
from pathlib import Path

from wire import chunks, connect, post_bytes, stream

SECRET = "xylophone quagmire zeppelin "
FIELDS = {"timestamp", "input_length", "output_length", "hash_ids", "max_tokens", "stream", "chat",
          "status", "finish"}


def read(path: Path) -> tuple[dict, list[dict]]:
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert header["schema"] == "firstlight-trace/1" and header["block_tokens"] == 32
    datetime.fromisoformat(header["started"])
    return header, lines


def complete(server, prompt, max_tokens: int = 3, **more) -> dict:
    body = {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True} | more
    status, answer = server.post("/v1/completions", body)
    assert status == 200
    return answer


def test_lines(servers, model, tmp_path):
    path = tmp_path / "trace.jsonl"
    server = servers(model, "--record", path)
    ids = list(range(100))
    complete(server, ids, 3)
    time.sleep(0.05)
    complete(server, ids[:70] + [7] * 30, 4)
    parts = chunks(server, "/v1/completions", {"prompt": SECRET * 4, "max_tokens": 5,
                                               "ignore_eos": True,
                                               "stream_options": {"include_usage": True}})
    usage = parts[-1]["usage"]
    status, answer = server.post("/v1/chat/completions", {
        "messages": [{"role": "user", "content": SECRET}], "max_tokens": 2, "ignore_eos": True})
    assert status == 200
    assert server.stop() == 0

    _, lines = read(path)
    assert len(lines) == 4 and all(set(line) == FIELDS for line in lines)
    first, second, streamed, chat = lines  # each ended before the next began
    assert [line["input_length"] for line in lines] == [
        100, 100, usage["prompt_tokens"], answer["usage"]["prompt_tokens"]]
    assert [line["output_length"] for line in lines] == [3, 4, 5, 2]
    assert [line["max_tokens"] for line in lines] == [3, 4, 5, 2]
    assert [line["stream"] for line in lines] == [False, False, True, False]
    assert [line["chat"] for line in lines] == [False, False, False, True]
    assert all(line["status"] == 200 and line["finish"] == "length" for line in lines)
    assert all(len(line["hash_ids"]) == line["input_length"] // 32 for line in lines)
    assert first["hash_ids"][:2] == second["hash_ids"][:2]
    assert not set(first["hash_ids"][2:]) & set(second["hash_ids"][2:])
    stamps = [line["timestamp"] for line in lines]
    assert stamps == sorted(stamps) and stamps[1] - stamps[0] >= 50

    text = path.read_text()
    assert not any(word in text for word in SECRET.split())
    assert "127.0.0.1" not in text
    assert path.stat().st_mode & 0o077 == 0


def test_what_was_refused(servers, model, tmp_path):
    path = tmp_path / "trace.jsonl"
    server = servers(model, "--record", path, "--max-requests", 1)
    assert server.post("/v1/completions", b"{")[0] == 400
    status, answer = server.post("/v1/completions", {"prompt": [5] * 60000})
    assert status == 400 and "context" in answer["error"]["message"]
    busy = stream(server, "/v1/completions", {"prompt": "a", "max_tokens": 100000,
                                              "ignore_eos": True})
    next(busy)
    next(busy)  # so it has been counted
    assert server.post("/v1/completions", {"prompt": [5] * 40, "max_tokens": 8})[0] == 429
    busy.close()
    while server.get("/health")[1]["running"]:
        time.sleep(0.01)
    assert server.stop() == 0
    _, lines = read(path)
    assert [(line["status"], line["finish"]) for line in lines] == [
        (400, "refused"), (400, "refused"), (429, "refused"), (200, "cancelled")]
    bad, too_long, full, left = lines
    assert bad["input_length"] == 0 and too_long["input_length"] == 60000
    assert full["input_length"] == 40 and len(full["hash_ids"]) == 1 and full["max_tokens"] == 8
    assert all(line["output_length"] == 0 for line in (bad, too_long, full))
    assert left["output_length"] > 0


def test_lines_are_there_while_it_runs(servers, tiny, tmp_path):
    path = tmp_path / "trace.jsonl"
    server = servers(tiny, "--record", path)
    for n in range(1, 4):
        complete(server, "a")
        deadline = time.monotonic() + 30
        while len(read(path)[1]) < n and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(read(path)[1]) == n
    server.process.kill()  # what was written stays good
    server.process.wait()
    assert len(read(path)[1]) == 3


def test_large_bodies(servers, tiny, tmp_path):
    """Hashed by the text worker."""
    path = tmp_path / "trace.jsonl"
    server = servers(tiny, "--record", path)
    body = {"prompt": [3] * 64, "max_tokens": 1, "metadata": {"pad": "x" * 200_000}}
    assert server.post("/v1/completions", body)[0] == 200
    assert server.stop() == 0
    assert len(read(path)[1][0]["hash_ids"]) == 2


def test_leaving_before_the_answer(servers, model, tmp_path):
    path = tmp_path / "trace.jsonl"
    server = servers(model, "--record", path)
    with connect(server) as sock:
        sock.sendall(post_bytes("/v1/completions", {"prompt": [3] * 40, "max_tokens": 100000,
                                                    "ignore_eos": True}))
        while not server.get("/health")[1]["running"]:
            time.sleep(0.01)
    assert server.stop() == 0
    line, = read(path)[1]
    assert line["finish"] == "cancelled" and line["input_length"] == 40


def test_an_existing_file_is_refused(run, tiny, tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text("mine")
    result = run("serve", "--model", tiny, "--port", 0, "--record", path)
    assert result.returncode == 1
    assert "--record" in result.stderr and str(path) in result.stderr
    assert path.read_text() == "mine"
    result = run("serve", "--model", tiny, "--port", 0, "--record", tmp_path / "no" / "trace")
    assert result.returncode == 1 and "--record" in result.stderr


def test_a_full_disk_does_not_stop_the_server(servers, tiny, tmp_path):
    """A limit on the size of files stands in for it."""
    path = tmp_path / "trace.jsonl"
    server = servers(tiny, "--record", path)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (2048, 2048))
    for _ in range(40):
        complete(server, [9] * 192, 1)
        time.sleep(0.02)
    assert server.get("/health")[0] == 200
    assert server.stop() == 0
    assert sum("trace.write" in line for line in server.all_lines()) == 1
    lines = path.read_text().splitlines()
    written = [line for line in map(json.loads, lines) if "input_length" in line]
    assert len(written) < 40 and path.stat().st_size <= 2048
    dropped = json.loads(lines[-1]).get("dropped")
    assert dropped is None or dropped + len(written) == 40
