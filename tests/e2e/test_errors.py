"""Bad requests: each gets its status and an error that names the thing, and the server goes on."""

import json

import pytest
from wire import connect, error_of, post_bytes, raw, read_response, request

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HI = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(autouse=True)
def goes_on(small):
    yield
    assert small.process.poll() is None
    assert small.get("/health")[0] == 200


@pytest.mark.parametrize("body, says", [
    (b"", "empty"),
    (b"hello", "line 1"),
    (b"[1]", "object"),
    (b'{"prompt":"a",}', "line 1, column 15"),
    (b'{"prompt":"a","prompt":"b"}', "duplicate"),
    (b'{"prompt":"a","temperature":NaN}', "not valid JSON"),
    (b'{"prompt":"\xff"}', "not valid JSON"),
    (b'{"prompt":"\\ud800"}', "not valid JSON"),
    (b'{"prompt":' + b"[" * 100 + b"]" * 100 + b"}", "deeper than 64"),
    (b'{"prompt":' + b"[" * 1_000_000, "deeper than 64"),
    (b'{"prompt":"a","max_tokens":1e400}', "overflow"),
])
def test_bodies_that_are_no_json(small, body, says):
    status, _, answer = raw(small, post_bytes(TEXT, body))
    assert status == 400
    error = error_of(answer)
    assert says in error["message"] and error["type"] == "invalid_request_error"


@pytest.mark.parametrize("members, param, says", [
    ({"temperature": 2.5}, "temperature", "between 0 and 2"),
    ({"temperature": "1"}, "temperature", "a string"),
    ({"max_tokens": 0}, "max_tokens", "between 1 and"),
    ({"max_tokens": -1}, "max_tokens", "found -1"),
    ({"max_tokens": 1e30}, "max_tokens", "1e+30"),
    ({"top_p": 0}, "top_p", "above 0"),
    ({"stop": ["a"] * 5}, "stop", "at most 4"),
    ({"logit_bias": {"5": 200}}, "logit_bias[5]", "between -100 and 100"),
    ({"logit_bias": {"99999": 1}}, "logit_bias", "99999"),
    ({"prompt": [99999]}, "prompt[0]", "below 274"),
    ({"prompt": ["a", 5]}, "prompt[1]", "a string"),
    ({"prompt": ""}, "prompt", "empty"),
    ({"n": 65}, "n", "between 1 and 64"),
    ({"best_of": 2}, "best_of", "not implemented"),
    ({"echo": 1}, "echo", "true or false"),
    ({"suffix": "x"}, "suffix", "not implemented"),
    ({"logprobs": 6}, "logprobs", "between 0 and 5"),
    ({"stream": "yes"}, "stream", "true or false"),
])
def test_fields(small, members, param, says):
    status, answer = small.post(TEXT, {"prompt": "a", "max_tokens": 1} | members)
    assert status == 400
    assert answer["error"]["param"] == param
    assert says in answer["error"]["message"]


def test_null_and_unknown_fields_are_fine(small):
    status, _ = small.post(TEXT, {"prompt": "a", "max_tokens": 1, "n": None, "temperature": None,
                                  "stop": None, "surprise": {"a": [1]}, "user": "me"})
    assert status == 200


def test_chat_needs_a_template(small):
    status, answer = small.post(CHAT, HI)
    assert status == 400 and "template" in answer["error"]["message"]


def test_messages(server):
    for messages, param in [([], "messages"), ("hi", "messages"),
                            ([{"role": "king", "content": "a"}], "messages[0].role"),
                            ([{"role": "user"}], "messages[0].content"),
                            ([{"role": "user", "content": [{"type": "image_url"}]}],
                             "messages[0].content[0]")]:
        status, answer = server.post(CHAT, {"messages": messages})
        assert (status, answer["error"]["param"]) == (400, param)


def test_too_long_for_the_context(small):
    status, answer = small.post(TEXT, {"prompt": "a " * 5000})
    assert status == 400
    assert answer["error"]["code"] == "context_length_exceeded"
    assert "256" in answer["error"]["message"]


def test_unknown_model(small):
    status, answer = small.post(TEXT, {"prompt": "a", "model": "gpt-9"})
    assert status == 404
    assert answer["error"]["code"] == "model_not_found" and answer["error"]["param"] == "model"


@pytest.mark.parametrize("method, path, status, allow", [
    ("GET", "/nothing", 404, None),
    ("POST", "/", 405, "GET, HEAD, OPTIONS"),
    ("GET", "/v1/models/other", 404, None),
    ("GET", CHAT, 405, "POST, OPTIONS"),
    ("DELETE", TEXT, 405, "POST, OPTIONS"),
    ("POST", "/health", 405, "GET, HEAD, OPTIONS"),
    ("PUT", "/v1/models", 405, "GET, HEAD, OPTIONS"),
])
def test_routes_and_methods(small, method, path, status, allow):
    got, headers, body = request(small, method, path)
    assert got == status and headers.get("allow") == allow
    error_of(body)


def test_no_such_path_names_all_there_are(small):
    message = error_of(request(small, "GET", "/nothing")[2])["message"]
    paths = message.split("; there are ")[1].split(", ")
    assert len(paths) == len(set(paths)) >= 12 and "/v1/debug/stats" in paths
    for path in paths:
        assert request(small, "OPTIONS", path.replace("...", "x"))[0] == 204, path


def test_head(small):
    status, headers, body = request(small, "HEAD", "/v1/models")
    assert status == 200 and body == b""
    _, whole_headers, _ = request(small, "GET", "/v1/models")
    assert headers["content-length"] == whole_headers["content-length"]


def test_request_id(small):
    _, headers, _ = request(small, "GET", "/health", X_Request_Id="mine-1")
    assert headers["x-request-id"] == "mine-1"
    for bad in ("a b", "x" * 129):
        _, headers, _ = request(small, "GET", "/health", X_Request_Id=bad)
        assert headers["x-request-id"] not in (bad, "")


HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
BODY = b'{"prompt":"a","max_tokens":1}'


@pytest.mark.parametrize("data, status", [
    (HEAD + b"Content-Length: +7\r\n\r\n1234567", 400),
    (HEAD + b"Content-Length: 29\r\nContent-Length: 30\r\n\r\n" + BODY, 400),
    (HEAD + b"Content-Length: 29\r\nTransfer-Encoding: chunked\r\n\r\n" + BODY, 400),
    (HEAD + b"Transfer-Encoding: gzip\r\n\r\n" + BODY, 501),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x7\r\n1234567\r\n0\r\n\r\n", 400),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1d;x\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    (HEAD + b"X: a\0b\r\n\r\n", 400),
    (HEAD + b"X : a\r\n\r\n", 400),
    (HEAD + b"X: a\r\n folded\r\n\r\n", 400),
    (HEAD + b"Expect: cake\r\n\r\n", 417),
    (b"POST /v1/completions HTTP/1.1\r\n\r\n", 400),
    (b"BREW /pot HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
    (b"GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n", 505),
    (b"GET /health HTTP/1.1\nHost: localhost\n\n", 505),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
])
def test_framing(small, data, status):
    got, headers, body = raw(small, data)
    assert got == status
    assert headers["connection"] == "close"
    error_of(body)


@pytest.mark.parametrize("target", [
    "http://[", "http://[:::]/", "http://a:99999999/", "http://a:8x/", "http://a%zz/",
    "http://a@b@c/", "http://u@a/health", "http:///health", "http://a\\b/", "http://" + "a" * 300,
])
def test_bad_absolute_targets(small, target):
    """evhttp would answer some of them by itself, in HTML."""
    status, headers, body = raw(small, b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                % target.encode())
    assert status == 400 and headers["content-type"] == "application/json"
    assert "http://host" in error_of(body)["message"]


def test_good_absolute_targets(small):
    for target in (b"http://localhost/health", b"http://127.0.0.1:8080/health?a=b",
                   b"http://[::1]:1/health"):
        assert raw(small, b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % target)[0] == 200


def test_good_framing(small):
    chunked = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
    assert raw(small, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked)[0] == 200
    with connect(small) as sock:
        sock.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: 29\r\n\r\n")
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(BODY)
        assert read_response(sock)[0] == 200


def test_byte_by_byte(small):
    with connect(small) as sock:
        for byte in post_bytes(TEXT, BODY):
            sock.send(bytes([byte]))
        assert read_response(sock)[0] == 200


def test_keep_alive_and_pipelining(small):
    with connect(small) as sock:
        for _ in range(3):
            sock.sendall(post_bytes(TEXT, BODY))
            assert read_response(sock)[0] == 200
        sock.sendall(3 * post_bytes(TEXT, BODY)
                     + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        file = sock.makefile("rb")
        statuses = [file.readline()]
        while len(statuses) < 4 and (line := file.readline()):
            if b"HTTP/1.1 " in line:
                statuses.append(line[line.index(b"HTTP/1.1 "):])
        assert statuses == [b"HTTP/1.1 200 OK\r\n"] * 4


def test_a_bad_request_behind_a_good_one(small):
    with connect(small) as sock:
        sock.sendall(post_bytes(TEXT, BODY) + b"NONSENSE\r\n\r\n")
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 OK") and b"HTTP/1.1 400" in answer


def test_garbage(small):
    for data in (b"\0" * 100, b"GET", b"\r\n\r\n", bytes(range(256)) * 10, b"GET / HTTP/1.1\r\n"):
        with connect(small) as sock:
            sock.sendall(data)
            sock.shutdown(1)
            sock.recv(65536)


def test_random_json_is_never_a_crash(small):
    values = [None, True, -1, 0, 1.5, 1e308, "x", [], {}, [[]], [None], {"a": 1}]
    fields = ["prompt", "messages", "max_tokens", "stop", "stream", "logit_bias", "seed", "model",
              "stream_options", "tools", "n", "temperature", "logprobs", "top_logprobs", "echo",
              "best_of", "min_tokens"]
    for field in fields:
        for value in values:
            body = json.dumps({"prompt": "a", "max_tokens": 1, field: value})
            for path in (TEXT, CHAT):
                status, _, _ = raw(small, post_bytes(path, body.encode(), "Connection: close"))
                assert status in (200, 400, 404)
