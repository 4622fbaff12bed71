"""Backpressure: what is refused, what the refused are told, and deadlines."""

import json
import os
import re
import time

import pytest
from wire import connect, error_of, post_bytes, raw, read_response

TEXT = "/v1/completions"
LONG = {"prompt": "word " * 6000, "max_tokens": 1, "stream": True}


@pytest.fixture(scope="module")
def narrow(servers, model):
    """A server with a short queue."""
    return servers(model, "--max-queued-tokens", 2000)


def wait_idle(server) -> None:
    """Those who left are forgotten."""
    deadline = time.monotonic() + 20
    while (health := server.get("/health")[1])["running"] + health["waiting"] > 0:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def occupy(server, body: dict = LONG):
    """A stream that has been accepted and has seconds of prefill before it: nothing is cached."""
    sock = connect(server)
    sock.sendall(post_bytes(TEXT, body | {"cache_salt": os.urandom(8).hex()}))
    assert b" 200 " in sock.recv(4096)
    return sock


def wait_running(server) -> None:
    """The engine has admitted it, so that it waits in the queue no more."""
    deadline = time.monotonic() + 20
    while (health := server.get("/health")[1])["running"] == 0 or health["waiting"] > 0:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_full_queue_refuses_and_says_when(narrow):
    wait_idle(narrow)
    with occupy(narrow):
        status, headers, body = raw(narrow, post_bytes(TEXT, LONG))
    error = error_of(body)
    assert status == 429 and error["code"] == "rate_limit_exceeded"
    assert "--max-queued-tokens" in error["message"] and "2000" in error["message"]
    assert 1 <= int(headers["retry-after"]) <= 3600
    ms = int(headers["retry-after-ms"])  # to the millisecond, for OpenAI's clients
    assert int(headers["retry-after"]) == max(1, -(-ms // 1000))
    page = raw(narrow, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")[2].decode()
    assert re.search(r'refused_total{[^}]*status="429",reason="queued_tokens"} [1-9]', page)


def test_room_again_after_the_wait(narrow):
    """Whoever keeps to Retry-After is taken in the end, alone in a few tries."""
    body = {"prompt": "b " * 1500, "max_tokens": 1}
    wait_idle(narrow)
    with occupy(narrow):
        for _ in range(20):
            status, headers, _ = raw(narrow, post_bytes(TEXT, body))
            if status == 200:
                break
            time.sleep(int(headers["retry-after"]))
    assert status == 200


def test_waiting_requests_are_bounded(servers, model):
    server = servers(model, "--max-queued-requests", 1, "--max-active-requests", 1)
    first = occupy(server)
    wait_running(server)
    second = occupy(server, LONG | {"prompt": "other " * 3000})
    status, headers, body = raw(server, post_bytes(TEXT, {"prompt": "a", "max_tokens": 1}))
    assert status == 429 and "--max-queued-requests" in error_of(body)["message"]
    assert int(headers["retry-after"]) >= 1
    first.close()
    second.close()


def test_waiting_is_bounded_in_time(servers, model):
    server = servers(model, "--max-queue-ms", 20)
    with occupy(server):
        status, headers, body = raw(server, post_bytes(TEXT, {"prompt": "a b c", "max_tokens": 1}))
    assert status == 429 and "--max-queue-ms" in error_of(body)["message"]
    assert int(headers["retry-after-ms"]) >= 1


def test_a_long_prompt_is_taken_when_nobody_waits(narrow):
    wait_idle(narrow)
    status, answer = narrow.post(TEXT, {"prompt": "c " * 2500, "max_tokens": 1})
    assert status == 200 and answer["usage"]["prompt_tokens"] > 2000


def test_timeout_of_a_request(server):
    """During its prefill: an error with its status, or as the stream's last frame."""
    body = LONG | {"timeout": 0.3, "cache_salt": "timeout"}
    status, _, answer = raw(server, post_bytes(TEXT, body | {"stream": False}))
    assert status == 408 and error_of(answer)["type"] == "timeout_error"
    with connect(server) as sock:
        sock.sendall(post_bytes(TEXT, body))
        status, _, answer = read_response(sock)
    last = answer.decode().strip().split("\n\n")[-1]
    assert status == 200 and last.startswith("data: ")
    assert json.loads(last[len("data: "):])["error"]["type"] == "timeout_error"


def test_timeout_of_the_server(servers, model):
    """The server's is the most; a request may ask for less, never for more."""
    server = servers(model, "--request-timeout", 2)
    body = {"prompt": "a", "max_tokens": 8000, "ignore_eos": True}
    for more in ({}, {"timeout": 600}):
        start = time.monotonic()
        status, answer = server.post(TEXT, body | more)
        assert status == 408 and "--request-timeout" in answer["error"]["message"]
        assert time.monotonic() - start >= 1.9
    assert server.post(TEXT, {"prompt": "a", "max_tokens": 1})[0] == 200


def test_each_client_has_so_many(servers, model, tmp_path):
    """By API key: one has its two, the other its own."""
    (tmp_path / "keys").write_text("one\ntwo\n")
    server = servers(model, "--api-key-file", tmp_path / "keys", "--max-requests-per-client", 2)

    def ask(key: str, body: dict) -> bytes:
        return post_bytes(TEXT, body, f"Authorization: Bearer {key}")

    running = [connect(server) for _ in range(2)]
    for sock in running:
        sock.sendall(ask("one", {"prompt": "a", "max_tokens": 4000, "ignore_eos": True,
                                 "stream": True}))
        assert b" 200 " in sock.recv(4096)
    brief = {"prompt": "a", "max_tokens": 1}
    status, headers, body = raw(server, ask("one", brief))
    error = error_of(body)
    assert status == 429 and error["code"] == "rate_limit_exceeded"
    assert "--max-requests-per-client" in error["message"] and int(headers["retry-after"]) >= 1
    assert raw(server, ask("two", brief))[0] == 200
    running[0].close()
    deadline = time.monotonic() + 20
    while raw(server, ask("one", brief))[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running[1].close()


def test_without_keys_a_client_is_an_address(servers, model):
    server = servers(model, "--max-requests-per-client", 1)
    brief = {"prompt": "a", "max_tokens": 1}
    with occupy(server):
        assert raw(server, post_bytes(TEXT, brief))[0] == 429
        assert server.get("/health")[0] == 200  # only completions count
    deadline = time.monotonic() + 20  # the engine has forgotten it before the server has
    while server.post(TEXT, brief)[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for _ in range(5):  # each gives back what it took, refused ones too
        assert server.post(TEXT, brief)[0] == 200
        assert server.post(TEXT, {"prompt": 7})[0] == 400


@pytest.mark.parametrize("timeout", [0, -1, "5", 86401, True])
def test_timeout_is_checked(small, timeout):
    status, answer = small.post(TEXT, {"prompt": "a", "timeout": timeout})
    assert (status, answer["error"]["param"]) == (400, "timeout")


@pytest.mark.parametrize("flags", [
    ["--max-queued-requests", "0"],
    ["--max-queued-tokens", "0"],
    ["--max-requests-per-client", "0"],
    ["--request-timeout", "0"],
    ["--request-timeout", "86401"],
])
def test_flags_are_checked(run, tiny, flags):
    result = run("serve", "--model", tiny, *flags)
    assert result.returncode == 2 and flags[0] in result.stderr
