"""What one client may have: connections, requests and tokens a second, answers under way."""

import json
import re
import threading
import time

import openai
import pytest
from h2wire import Client, message
from test_access import grpc_address
from wire import connect, error_of, post_bytes, raw, read_response, request

TEXT = "/v1/completions"
BRIEF = {"prompt": "a", "max_tokens": 1, "ignore_eos": True}
LONG = {"prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": True}
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def ask(server, body: dict, key: str | None = None) -> tuple[int, dict, bytes]:
    return raw(server, post_bytes(TEXT, body, *([f"Authorization: Bearer {key}"] if key else [])))


def count(server, name: str, labels: str) -> int:
    page = request(server, "GET", "/metrics")[2].decode()
    found = re.search(r"^%s\{[^}]*%s[^}]*\} (\d+)$" % (name, labels), page, re.MULTILINE)
    return int(found[1]) if found else 0


def until(true) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_max_connections_per_address(servers, tiny):
    server = servers(tiny, "--max-connections-per-address", 3, "--grpc-port", 0)
    held = [connect(server) for _ in range(2)]
    for sock in held:
        sock.sendall(HEALTH)
        assert read_response(sock)[0] == 200
    with Client(grpc_address(server)) as third:  # of another port, and of the same address
        third.send(b"")
        assert third.read() is not None
        status, headers, body = raw(server, HEALTH)
        error = error_of(body)
        assert status == 429 and int(headers["retry-after"]) >= 1
        assert "--max-connections-per-address" in error["message"]
        assert error["type"] == "rate_limit_error"
        try:
            with Client(grpc_address(server)) as fourth:
                assert fourth.end() in (11, None)  # ENHANCE_YOUR_CALM, if it came through
        except ConnectionError:
            pass
    held.pop().close()

    def has_room() -> bool:
        return raw(server, HEALTH)[0] == 200

    until(has_room)  # a client that leaves gives its place back
    for _ in range(20):
        until(has_room)
    held.pop().close()
    until(lambda: count(server, "firstlight_connections_refused_total", 'status="429"') >= 2)
    with Client(grpc_address(server)) as client:
        assert client.read() is not None


def test_one_address_does_not_take_all_connections(servers, tiny):
    """Those that are refused do not stay to be told so when places are rare."""
    server = servers(tiny, "--max-connections-per-address", 2, "--max-connections", 6)
    held = [connect(server) for _ in range(2)]
    for sock in held:
        sock.sendall(HEALTH)
        assert read_response(sock)[0] == 200
    crowd = [connect(server) for _ in range(30)]

    def has_room() -> bool:
        held[1].sendall(HEALTH)
        return json.loads(read_response(held[1])[2])["connections"] <= 6

    until(has_room)
    for sock in crowd:
        assert sock.recv(100)[:12] in (b"", b"HTTP/1.1 429")
        sock.close()
    held[0].sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    page = read_response(held[0])[2].decode()
    assert re.search(r'connections_refused_total\{[^}]*status="429"[^}]*\} 30\b', page)


def test_max_requests_per_second(servers, tiny, tmp_path):
    """A burst, then refusals that say when; by API key."""
    (tmp_path / "keys").write_text("one\ntwo\n")
    server = servers(tiny, "--api-key-file", tmp_path / "keys", "--rate-burst", 300,
                     "--max-requests-per-second", 0.01)
    for left in (2, 1, 0):
        status, headers, _ = ask(server, BRIEF, "one")
        assert status == 200
        assert headers["x-ratelimit-limit-requests"] == "3"
        assert headers["x-ratelimit-remaining-requests"] == str(left)
        assert re.fullmatch(r"\d+\.\d{3}s", headers["x-ratelimit-reset-requests"])
        assert "x-ratelimit-limit-tokens" not in headers
    status, headers, body = ask(server, BRIEF, "one")
    error = error_of(body)
    assert status == 429 and error["code"] == "rate_limit_exceeded" and error["param"] is None
    assert "--max-requests-per-second" in error["message"]
    assert 0 < int(headers["retry-after"]) <= 100
    assert 0 < int(headers["retry-after-ms"]) <= 100_000
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert ask(server, BRIEF, "two")[0] == 200
    assert request(server, "GET", "/v1/models", Authorization="Bearer one")[0] == 200
    assert count(server, "firstlight_requests_refused_total", 'reason="request_rate"') == 1


def test_whoever_waits_as_told_is_served(servers, tiny):
    server = servers(tiny, "--max-requests-per-second", 4, "--rate-burst", 1)
    served = 0
    for _ in range(12):
        status, headers, _ = ask(server, BRIEF)
        if status == 429:
            time.sleep(int(headers["retry-after-ms"]) / 1000)
            status, headers, _ = ask(server, BRIEF)
        served += status == 200
    assert served == 12
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=3) as client:
        for _ in range(6):  # it waits by itself
            client.completions.create(model="base", prompt="a", max_tokens=1)


def test_max_tokens_per_second(servers, tiny):
    """What was read and what was generated; also of prompts that are refused for their length."""
    server = servers(tiny, "--max-tokens-per-second", 0.1, "--rate-burst", 1000)
    status, headers, body = ask(server, BRIEF | {"max_tokens": 20})
    used = json.loads(body)["usage"]["total_tokens"]
    prompt = json.loads(body)["usage"]["prompt_tokens"]
    assert status == 200 and headers["x-ratelimit-limit-tokens"] == "100"
    assert headers["x-ratelimit-remaining-tokens"] == str(100 - prompt)
    status, headers, _ = ask(server, BRIEF)
    left = int(headers["x-ratelimit-remaining-tokens"])
    assert status == 200 and 100 - used - prompt <= left <= 100 - used - prompt + 2
    status, headers, body = ask(server, {"prompt": "abc " * 500})
    assert status == 400 and error_of(body)["code"] == "context_length_exceeded"
    assert headers["x-ratelimit-remaining-tokens"] == "0"
    status, headers, body = ask(server, BRIEF)
    error = error_of(body)
    assert status == 429 and error["code"] == "rate_limit_exceeded"
    assert "--max-tokens-per-second" in error["message"]
    assert int(headers["retry-after-ms"]) > 1_000_000  # 400 tokens and more are owed
    assert count(server, "firstlight_requests_refused_total", 'reason="token_rate"') == 1


def test_rates_over_grpc(servers, tiny):
    """Tokenize reads tokens too."""
    server = servers(tiny, "--grpc-port", 0, "--max-tokens-per-second", 0.1, "--rate-burst", 1000)
    text = b"abc " * 1000
    field = b"\x0a" + bytes([len(text) & 127 | 128, len(text) >> 7]) + text
    with Client(grpc_address(server)) as client:
        tokenize = "/firstlight.v1.Inference/Tokenize"
        assert client.grpc(tokenize, message(field))["grpc-status"] == "0"
        refused = client.grpc(tokenize, message(field))
        assert refused["grpc-status"] == "8" and refused["error-code"] == "rate_limit_exceeded"
        assert "--max-tokens-per-second" in refused["grpc-message"]
        assert int(refused["grpc-retry-pushback-ms"]) > 1000
    assert ask(server, BRIEF)[0] == 429  # of one address, whatever the protocol


def test_each_answer_counts(servers, model, tmp_path):
    """--max-requests-per-client counts prompts times n, and gives back what it took."""
    (tmp_path / "keys").write_text("one\ntwo\n")
    server = servers(model, "--api-key-file", tmp_path / "keys", "--max-requests-per-client", 4)

    def refused(body: dict, for_good: bool) -> None:
        status, headers, answer = ask(server, body, "one")
        error = error_of(answer)
        assert status == 429 and error["code"] == "rate_limit_exceeded"
        assert "--max-requests-per-client" in error["message"]
        assert int(headers["retry-after"]) >= 1
        assert (headers.get("x-should-retry") == "false") == for_good

    refused(BRIEF | {"n": 5}, True)
    refused(BRIEF | {"prompt": ["a", "b", "c"], "n": 2}, True)
    for _ in range(3):
        assert ask(server, BRIEF | {"n": 4}, "one")[0] == 200
        assert ask(server, BRIEF | {"prompt": ["a", "b"], "n": 2}, "one")[0] == 200
        assert ask(server, BRIEF | {"n": 4, "temperature": 9}, "one")[0] == 400
    with connect(server) as sock:
        sock.sendall(post_bytes(TEXT, LONG | {"n": 3}, "Authorization: Bearer one"))
        assert b" 200 " in sock.recv(4096)
        refused(BRIEF | {"n": 2}, False)
        assert ask(server, BRIEF, "one")[0] == 200
        assert ask(server, BRIEF | {"n": 4}, "two")[0] == 200
    until(lambda: ask(server, BRIEF | {"n": 4}, "one")[0] == 200)  # cancelled: all three are back


def test_a_request_that_timed_out_is_not_sent_again(servers, model):
    """The official client asks three times after a 408, unless it is told not to."""
    server = servers(model, "--request-timeout", 1)
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none") as client:
        with pytest.raises(openai.APIStatusError) as caught:
            client.completions.create(model=client.models.list().data[0].id, prompt="a",
                                      max_tokens=8000, extra_body={"ignore_eos": True})
    assert caught.value.status_code == 408
    entries = server.get("/v1/debug/requests")[1]["data"]
    assert [entry["status"] for entry in entries] == [408]
    assert caught.value.response.headers["x-should-retry"] == "false"


def test_a_request_that_did_not_arrive_is_not_sent_again(small):
    with connect(small) as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                     b"Content-Length: 9\r\n\r\n")
        status, headers, _ = read_response(sock)
    assert status == 408 and headers["x-should-retry"] == "false"


def test_many_at_once_are_counted_exactly(servers, tiny):
    server = servers(tiny, "--max-requests-per-second", 0.001, "--rate-burst", 10_000)
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(ask(server, BRIEF)[0]))
               for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == 10 * [200] + 20 * [429]


@pytest.mark.parametrize("flag, value", [
    ("--max-connections-per-address", "0"),
    ("--max-requests-per-second", "0"),
    ("--max-requests-per-second", "nan"),
    ("--max-tokens-per-second", "-1"),
    ("--rate-burst", "0"),
])
def test_flags_are_checked(run, tiny, flag, value):
    result = run("serve", "--model", tiny, flag, value)
    assert result.returncode == 2 and flag in result.stderr
