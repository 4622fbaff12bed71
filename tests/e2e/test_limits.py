"""Limits: sizes, deadlines, connections, slots."""

import concurrent.futures
import json
import signal
import time

import pytest
from limits_header import limit
from wire import connect, error_of, post_bytes, raw, read_response, request

BODY_LIMIT = 8 << 20
HEADER_LIMIT = 16 << 10
TEXT = "/v1/completions"


def padded(size: int) -> bytes:
    start = b'{"prompt":"a","max_tokens":1,"metadata":"'
    return start + b"x" * (size - len(start) - 2) + b'"}'


def test_body_limit(small):
    assert raw(small, post_bytes(TEXT, padded(BODY_LIMIT)))[0] == 200
    with connect(small) as sock:
        sock.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                     % (TEXT.encode(), BODY_LIMIT + 1))
        status, _, body = read_response(sock)
    assert status == 413 and str(BODY_LIMIT) in error_of(body)["message"]


def test_body_limit_counts_decoded_bytes(small):
    head = (b"POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            % TEXT.encode())
    with connect(small) as sock:
        sock.sendall(head)
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        for _ in range(8):
            sock.sendall(chunk)
        sock.sendall(b"1\r\n")
        assert read_response(sock)[0] == 413


def test_a_path_that_takes_no_body_reads_a_short_one(small):
    most = limit("LIMIT_BODY_UNASKED")
    for size in (most, most + 1):
        head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size
        status, _, body = raw(small, head + b"x" * size)
        assert status == (200 if size == most else 413)
    assert f"at most {most} bytes" in error_of(body)["message"]


def test_expect_is_not_continued_beyond_the_limit(small):
    with connect(small) as sock:
        sock.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                     b"Content-Length: 99999999\r\n\r\n" % TEXT.encode())
        assert read_response(sock)[0] == 413


def test_header_limit(small):
    def head(size: int) -> bytes:
        start, end = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ", b"\r\n\r\n"
        return start + b"x" * (size - len(start) - len(end)) + end

    assert raw(small, head(HEADER_LIMIT))[0] == 200
    status, _, body = raw(small, head(HEADER_LIMIT + 1))
    assert status == 431 and str(HEADER_LIMIT) in error_of(body)["message"]
    assert raw(small, b"GET /" + b"x" * 100_000)[0] == 431


def test_large_bodies_are_parsed_beside_others(small):
    """A body for the text worker gives the answer of a small one."""
    small_body = {"prompt": "abc", "max_tokens": 20, "temperature": 0}
    large_body = small_body | {"metadata": {"pad": "x" * 200_000}}
    answers = [small.post(TEXT, body)[1]["choices"] for body in (small_body, large_body)]
    assert answers[0] == answers[1]
    status, answer = small.post(TEXT, large_body | {"temperature": 9})
    assert (status, answer["error"]["param"]) == (400, "temperature")


def trickle(server, sent: bytes, pause: float | None) -> tuple[bytes, float]:
    """Sends this, then a byte after each pause, until an answer or the end comes."""
    start = time.monotonic()
    with connect(server) as sock:
        sock.sendall(sent)
        sock.settimeout(pause or 20)
        while time.monotonic() - start < 20:
            try:
                return sock.recv(65536), time.monotonic() - start
            except TimeoutError:
                sock.send(b"x")
    raise AssertionError("no deadline")


def test_deadlines_of_a_request(small):
    """So long for a whole request, so long without a byte; evhttp alone would wait for ever."""
    whole, silent = limit("LIMIT_REQUEST_SECONDS"), limit("LIMIT_IDLE_SECONDS")
    head = b"POST /v1/completions HTTP/1.1\r\n"
    cases = {
        "nothing": (b"", None),
        "a head that stops": (head, None),
        "a head that trickles": (head + b"X: ", 0.5),
        "a body that trickles": (head + b"Host: localhost\r\nContent-Length: 900\r\n\r\n", 0.5),
    }
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        ends = dict(zip(cases, pool.map(lambda case: trickle(small, *case), cases.values())))
    for name, (data, took) in ends.items():
        assert data == b"" if name == "nothing" else data.startswith(b"HTTP/1.1 408"), name
        most = silent if name == "a head that stops" else whole
        assert most - 0.5 < took < most + 2, name


def test_a_refused_connection_stays(small):
    """Long enough for its client to read why, and no longer."""
    stay = limit("LIMIT_LINGER_SECONDS")
    with connect(small) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * HEADER_LIMIT)
        assert read_response(sock)[0] == 431
        start = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() - start < 20:
                sock.send(b"x")
                time.sleep(0.05)
    assert stay - 0.5 < time.monotonic() - start < stay + 2


def test_requests_ahead_of_an_answer(servers, model):
    """Sent before the answer to an earlier request: as many bytes as may wait, then one more."""
    server = servers(model)
    most, n = limit("LIMIT_PIPELINED_BYTES"), 8
    start, end = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ", b"\r\n\r\n"
    ahead = start + b"x" * (most // n - len(start) - len(end)) + end
    first = post_bytes(TEXT, {"prompt": "a", "max_tokens": 60, "ignore_eos": True, "stream": True})
    for more in (b"", b"G"):
        with connect(server) as sock:
            sock.sendall(first)
            answer = sock.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 200")
            sock.sendall(n * ahead + more)
            while answer.count(b"HTTP/1.1 200") <= n and (data := sock.recv(1 << 16)):
                answer += data
        assert answer.count(b"HTTP/1.1 200") == (1 if more else 1 + n)


def test_connection_limit(servers, tiny):
    server = servers(tiny, "--max-connections", 4)
    idle = [connect(server) for _ in range(4)]
    status, headers, body = raw(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status == 503 and "too many connections" in error_of(body)["message"]
    assert "retry-after" in headers
    for sock in idle:
        sock.close()
    deadline = time.monotonic() + 10
    while request(server, "GET", "/health")[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_many_connections_come_and_go(small):
    for _ in range(300):
        connect(small).close()
    deadline = time.monotonic() + 5
    while small.get("/health")[1]["connections"] > 5:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_slots(servers, model):
    server = servers(model, "--max-requests", 2)
    body = {"prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": True}
    running = [connect(server) for _ in range(2)]
    for sock in running:
        sock.sendall(post_bytes(TEXT, body))
        sock.recv(4096)
    status, headers, answer = raw(server, post_bytes(TEXT, body))
    assert status == 429 and int(headers["retry-after"]) > 0
    assert error_of(answer)["code"] == "rate_limit_exceeded"
    for sock in running:
        sock.close()
    deadline = time.monotonic() + 20
    while raw(server, post_bytes(TEXT, {"prompt": "a", "max_tokens": 1}))[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_answer_ends_with_the_context(small):
    """The default of max_tokens is more than this context holds; tests/unit/api knows it."""
    _, answer = small.post(TEXT, {"prompt": "a", "ignore_eos": True, "temperature": 0})
    assert answer["usage"]["total_tokens"] == 256
    assert answer["choices"][0]["finish_reason"] == "length"


def test_health_answers_during_a_long_prefill(server):
    body = json.dumps({"prompt": "word " * 7000, "max_tokens": 1}).encode()
    with connect(server) as sock:
        sock.sendall(post_bytes(TEXT, body))
        worst = 0.0
        for _ in range(20):
            start = time.monotonic()
            assert request(server, "GET", "/health")[0] == 200
            worst = max(worst, time.monotonic() - start)
            time.sleep(0.02)
    assert worst < 1.0


def test_only_the_surplus_of_a_burst_is_refused(servers, tiny):
    """The burst waits in the kernel until the server looks: then all of it is accepted at once."""
    server = servers(tiny, "--max-connections", 20)
    server.process.send_signal(signal.SIGSTOP)
    try:
        burst = [connect(server) for _ in range(23)]
        for sock in burst:
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    finally:
        server.process.send_signal(signal.SIGCONT)
    statuses = [read_response(sock)[0] for sock in burst]
    assert sorted(statuses) == 20 * [200] + 3 * [503]
    leaving = [sock for sock, status in zip(burst, statuses) if status == 200][:2]
    for sock in leaving:
        sock.close()
    deadline = time.monotonic() + 10
    while request(server, "GET", "/health")[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for sock in burst:
        sock.close()
