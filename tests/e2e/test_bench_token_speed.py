"""bench token-speed: the standard prompts in process and against a server, its JSON, bad input."""

import json
import os
import pty
import select
import signal
import socketserver
import subprocess
import threading
import time

import pytest

from conftest import ROOT

STANDARD = ["zh_long_text", "code", "maths"]
SHORT = {"token_speed": [{"id": id, "text": text} for id, text in
                         (("greeting", "Hello"), ("code", "int main"), ("sum", "1 + 1 ="))]}


@pytest.fixture(scope="module")
def bench(run, tiny):
    """bench(*flags): the finished process. The tiny model has no chat template, hence --raw; of its
    256 positions the standard prompts leave none or few."""

    def run_bench(*flags):
        return run("bench", "token-speed", "--model", tiny, "--raw", *flags)

    return run_bench


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "short.json"
    path.write_text(json.dumps(SHORT))
    return path


def read(path) -> dict:
    return json.loads(path.read_text())


def test_the_standard_prompts_as_they_stand(bench, tmp_path):
    out = tmp_path / "a.json"
    done = bench("--runs", 1, "--max-new-tokens", 2, "--output", out)
    assert done.returncode == 0, done.stderr
    standard = json.loads((ROOT / "prompts/standard.json").read_text())["token_speed"]
    asked = read(out)["workload"]["prompts"]
    assert [p["text"] for p in asked] == [p["text"] for p in standard]
    assert [p["id"] for p in asked] == STANDARD
    for prompt in STANDARD + ["all"]:
        assert f"\n{prompt} " in done.stdout
    assert "TTFT" in done.stdout


def test_figures_of_each_prompt_in_each_run(bench, short, tmp_path):
    out = tmp_path / "a.json"
    done = bench("--prompts", short, "--runs", 2, "--max-new-tokens", 8, "--output", out,
                 "--note", "a note")
    assert done.returncode == 0, done.stderr
    result = read(out)
    assert result["kind"] == "token-speed"
    assert result["note"] == "a note"
    assert result["workload"]["max_new_tokens"] == 8
    for prompt in result["prompts"]:
        assert prompt["requests"] == 2
        assert prompt["completion_tokens"] == 2 * 8  # past any end of text
        assert prompt["cached_tokens"] < prompt["prompt_tokens"]
    ids = [p["id"] for p in SHORT["token_speed"]]
    for name in ["tokens_per_s", "ttft_p50"] + [
            name for p in ids for name in (f"tokens_per_s_{p}", f"ttft_{p}_p50")]:
        assert len(result["metrics"][name]["repeats"]) == 2, name


def test_a_context_that_ends_is_told(bench):
    done = bench("--runs", 1, "--max-new-tokens", 128)
    assert done.returncode == 0, done.stderr
    assert "of 384 that were asked for" in done.stdout


def test_one_stream_is_one_request_at_a_time(bench, short, tmp_path):
    out = tmp_path / "a.json"
    assert bench("--prompts", short, "--max-new-tokens", 4, "--output", out).returncode == 0
    for one in read(out)["runs"]:
        requests = one["requests"]
        assert len(requests) == 3
        for before, after in zip(requests, requests[1:]):
            assert after["sent_ms"] >= before["end_ms"]


def test_concurrency_sends_all_at_once(bench, short, tmp_path):
    out = tmp_path / "a.json"
    done = bench("--prompts", short, "--concurrency", 100, "--runs", 1, "--max-new-tokens", 4,
                 "--output", out)
    assert done.returncode == 0, done.stderr
    result = read(out)
    requests = result["runs"][0]["requests"]
    assert len(requests) == 100
    assert [p["requests"] for p in result["prompts"]] == [34, 33, 33]
    assert all(r["state"] == "ok" and r["completion_tokens"] == 4 for r in requests)
    assert "aggregate" in done.stdout
    run = result["runs"][0]
    assert result["metrics"]["tokens_per_s"]["median"] == pytest.approx(400 / run["duration_s"])


def test_own_prompts(bench, tmp_path):
    prompts, out = tmp_path / "p.json", tmp_path / "a.json"
    prompts.write_text(json.dumps({"token_speed": [{"id": "mine", "text": "hello"}]}))
    done = bench("--prompts", prompts, "--runs", 1, "--max-new-tokens", 2, "--output", out)
    assert done.returncode == 0, done.stderr
    assert "ttft_mine_p50" in read(out)["metrics"]
    assert "\nmine " in done.stdout


@pytest.mark.parametrize("text, expected", [
    ("", "no JSON"),
    ("{}", "token_speed: expected an array"),
    ('{"token_speed": [{"id": "a"}]}', "token_speed[0].text: expected"),
    ('{"token_speed": [{"id": "a/b", "text": "x"}]}', 'found "a/b"'),
])
def test_bad_prompts_name_the_field(bench, tmp_path, text, expected):
    prompts = tmp_path / "p.json"
    prompts.write_text(text)
    done = bench("--prompts", prompts)
    assert done.returncode == 1
    assert str(prompts) in done.stderr and expected in done.stderr


def test_unique_prompts_are_longer_and_differ(bench, short, tmp_path):
    plain, unique = tmp_path / "a.json", tmp_path / "b.json"
    flags = ("--prompts", short, "--runs", 1, "--max-new-tokens", 2, "--output")
    assert bench(*flags, plain).returncode == 0
    assert bench("--unique-prompts", *flags, unique).returncode == 0
    a, b = read(plain), read(unique)
    assert b["workload"]["unique_prompts"] is True
    for before, after in zip(a["prompts"], b["prompts"]):
        assert after["prompt_tokens"] > before["prompt_tokens"]


def test_json_on_standard_output_and_the_table_beside_it(bench):
    done = bench("--runs", 1, "--max-new-tokens", 2, "--output", "-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["kind"] == "token-speed"
    assert "zh_long_text" in done.stderr and "TTFT" in done.stderr


def test_the_engine_that_delivers_at_the_end_has_no_decode_rate(bench, tmp_path):
    out = tmp_path / "a.json"
    done = bench("--engine", "cpu-sync", "--runs", 1, "--max-new-tokens", 4, "--output", out)
    assert done.returncode == 0, done.stderr
    result = read(out)
    assert "cpu-sync" in done.stdout
    assert "decode_tokens_per_s" not in result["metrics"]
    assert result["metrics"]["tokens_per_s"]["median"] > 0


def test_a_model_without_a_chat_template_says_so(run, tiny):
    done = run("bench", "token-speed", "--model", tiny, "--runs", 1)
    assert done.returncode == 1
    assert "3 of 3 requests failed" in done.stderr and "chat template" in done.stderr


@pytest.mark.parametrize("flags, code, expected", [
    (("--engine", "warp"), 1, "warp"),
    (("--runs", "0"), 2, "--runs"),
    (("--concurrency", "0"), 2, "--concurrency"),
    (("--concurrency", "100000"), 2, "--concurrency"),
    (("--max-new-tokens", "0"), 2, "--max-new-tokens"),
    (("--prompts", "/nonexistent"), 1, "/nonexistent"),
    (("--output", "/nonexistent/a.json"), 1, "/nonexistent/a.json"),
    (("--url", "http://127.0.0.1:9", "--threads", "2"), 2, "--threads"),
])
def test_bad_flags_are_named(bench, flags, code, expected):
    done = bench(*flags)
    assert done.returncode == code
    assert expected in done.stderr
    assert done.stdout == ""


def test_a_model_is_needed(run):
    done = run("bench", "token-speed")
    assert done.returncode == 1
    assert "--model PATH is required" in done.stderr


def test_against_a_server(run, small, short, tmp_path):
    out = tmp_path / "a.json"
    done = run("bench", "token-speed", "--url", small.url, "--raw", "--prompts", short,
               "--runs", 1, "--max-new-tokens", 4, "--concurrency", 6, "--output", out)
    assert done.returncode == 0, done.stderr
    result = read(out)
    assert [p["completion_tokens"] for p in result["prompts"]] == [8, 8, 8]
    assert all(p["prompt_tokens"] > 0 for p in result["prompts"])
    assert small.url in done.stdout


class ClosingServer(socketserver.StreamRequestHandler):
    """Answers one completion a connection and closes it, without having said that it would."""

    def handle(self):
        while line := self.rfile.readline():
            length = 0
            while (header := self.rfile.readline()) not in (b"\r\n", b""):
                if header.lower().startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
            self.rfile.read(length)
            if line.startswith(b"GET"):
                self.answer(b"application/json", b'{"data": [{"id": "m"}]}')
                continue
            chunk = b'{"choices": [{"index": 0, "text": "a", "finish_reason": "length"}]}'
            self.answer(b"text/event-stream", b"data: " + chunk + b"\n\ndata: [DONE]\n\n")
            time.sleep(0.01)  # by now the client may have sent its next request on this connection
            return

    def answer(self, kind: bytes, body: bytes) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" %
                         (kind, len(body), body))


def test_a_server_that_closes_kept_connections_fails_no_request(run, short):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), ClosingServer) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = run("bench", "token-speed", "--url", f"http://127.0.0.1:{server.server_address[1]}",
                   "--raw", "--prompts", short, "--runs", 8, "--max-new-tokens", 1)
        server.shutdown()
    assert done.returncode == 0, done.stderr


def read_until(descriptor: int, text: bytes) -> None:
    """Reads a terminal until `text` came."""
    seen = b""
    while text not in seen:
        ready, _, _ = select.select([descriptor], [], [], 60)
        assert ready, seen
        seen += os.read(descriptor, 4096)


def test_interrupted_it_shows_what_there_is(binary, tiny, short, tmp_path):
    out = tmp_path / "a.json"
    command = [binary, "bench", "token-speed", "--model", tiny, "--raw", "--prompts", short,
               "--warmup-runs", "0", "--runs", "1000", "--max-new-tokens", "200", "--output", out]
    terminal, stderr = pty.openpty()  # on which it shows its progress
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=stderr,
                          text=True) as process:
        os.close(stderr)
        read_until(terminal, b"run 2 of 1000")
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=60)
    os.close(terminal)
    assert process.returncode == 130
    assert "\nall " in stdout
    assert 2 <= len(read(out)["runs"]) < 1000
