"""Streams: their chunks and the order of them, the measurements, characters, and that the text is
that of the unstreamed answer."""

import concurrent.futures
import json
import time

import pytest
from wire import chunks, connect, post_bytes, read_response, stream, text_of

HELLO = {"messages": [{"role": "user", "content": "Say hello in five languages."}],
         "temperature": 0, "max_tokens": 24}
PARTS = ["receive_ms", "tokenize_ms", "submit_ms", "queue_ms", "cache_ms", "prefill_ms",
         "decode_ms", "first_write_ms"]
# byte-level text of a random model: most of it is no UTF-8, and characters span tokens
NOISE = {"prompt": "noise", "temperature": 1, "seed": 7, "max_tokens": 120, "ignore_eos": True}


def thousandths(value: float) -> int:
    rounded = round(value * 1000)
    assert abs(value * 1000 - rounded) < 1e-6
    return rounded


def check_measurements(answer: dict) -> None:
    ttft, timings, metrics = answer["ttft"], answer["timings"], answer["metrics"]
    assert set(ttft) == {*PARTS, "total_ms"}
    assert all(value >= 0 for value in ttft.values())
    assert sum(thousandths(ttft[p]) for p in PARTS) == thousandths(ttft["total_ms"])
    assert metrics["time_to_first_token_ms"] == ttft["total_ms"]
    assert metrics["queue_time_ms"] == ttft["queue_ms"]
    assert set(metrics) == {"time_to_first_token_ms", "queue_time_ms", "generation_time_ms",
                            "mean_itl_ms", "tokens_per_second"}
    assert set(timings) == {f"{what}_{unit}" for what in ("prompt", "predicted")
                            for unit in ("n", "ms", "per_token_ms", "per_second")}


def test_order_of_chunks(server):
    parts = chunks(server, "/v1/chat/completions", HELLO)
    assert len({(p["id"], p["created"], p["model"]) for p in parts}) == 1
    assert {p["object"] for p in parts} == {"chat.completion.chunk"}
    first, *middle, last = parts
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert first["choices"][0]["delta"]["content"] != ""
    assert all(set(p["choices"][0]["delta"]) == {"content"} for p in middle)
    assert all(p["choices"][0]["finish_reason"] is None for p in parts[:-1])
    assert last["choices"][0]["delta"] == {}
    assert last["choices"][0]["finish_reason"] in ("stop", "length")
    assert all("usage" not in p for p in parts)
    check_measurements(last)
    assert all("ttft" not in p for p in parts[:-1])


def test_decode_is_a_part_of_whole_answers_alone(server):
    """The generation is not hidden in the first write, and the stream's first token waits for
    none of it."""
    body = HELLO | {"max_tokens": 30, "ignore_eos": True}
    _, whole = server.post("/v1/chat/completions", body)
    check_measurements(whole)
    ttft, generation = whole["ttft"], whole["metrics"]["generation_time_ms"]
    assert ttft["decode_ms"] == generation > ttft["first_write_ms"]
    last = chunks(server, "/v1/chat/completions", body)[-1]
    check_measurements(last)
    assert last["ttft"]["decode_ms"] == 0 < last["metrics"]["generation_time_ms"]


def test_usage_only_when_asked(server):
    parts = chunks(server, "/v1/chat/completions",
                   HELLO | {"stream_options": {"include_usage": True}})
    *others, last = parts
    assert all(p["usage"] is None for p in others)
    assert last["choices"] == []
    usage = last["usage"]
    assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"]
    assert 0 < usage["completion_tokens"] <= HELLO["max_tokens"]
    assert usage["prompt_tokens"] == last["timings"]["prompt_n"]
    check_measurements(last)


@pytest.mark.parametrize("path, body", [
    ("/v1/chat/completions", HELLO),
    ("/v1/completions", {"prompt": "\u4f60\u597d\uff0c\u4e16\u754c", "temperature": 0,
                         "max_tokens": 40}),
    ("/v1/completions", {"prompt": "One two", "temperature": 0.8, "seed": 3, "max_tokens": 40,
                         "stop": [" four", "xyz"]}),
])
def test_streamed_equals_unstreamed(server, path, body):
    status, whole = server.post(path, body)
    assert status == 200
    choice = whole["choices"][0]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    parts = chunks(server, path, body)
    assert text_of(parts) == text
    assert parts[-1]["choices"][0]["finish_reason"] == choice["finish_reason"]
    check_measurements(whole)


def test_characters_are_never_split(small):
    parts = chunks(small, "/v1/completions", NOISE)  # .decode() in stream() refuses bad UTF-8
    _, whole = small.post("/v1/completions", NOISE)
    assert text_of(parts) == whole["choices"][0]["text"]
    assert whole["usage"]["completion_tokens"] == NOISE["max_tokens"]


def test_every_length_cuts_at_a_character(small):
    for n in range(1, 25):
        body = NOISE | {"max_tokens": n}
        parts = chunks(small, "/v1/completions", body)
        _, whole = small.post("/v1/completions", body)
        assert text_of(parts) == whole["choices"][0]["text"]
        assert parts[-1]["choices"][0]["finish_reason"] == "length"


def test_line_separators_are_escaped(server):
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1,
            "model": "a\u2028b\u2029c\u0085d"}
    with connect(server) as sock:
        sock.sendall(post_bytes("/v1/chat/completions", body))
        status, _, answer = read_response(sock)
    assert status == 404
    assert b"a\\u2028b\\u2029c\\u0085d" in answer


def test_empty_output(server):
    """A stop string that comes first leaves nothing, and the stream is whole all the same."""
    _, whole = server.post("/v1/chat/completions", HELLO)
    first = whole["choices"][0]["message"]["content"][:1]
    parts = chunks(server, "/v1/chat/completions", HELLO | {"stop": [first]})
    assert text_of(parts) == ""
    assert len(parts) == 2
    assert parts[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert parts[1]["choices"][0]["finish_reason"] == "stop"
    check_measurements(parts[1])


def test_accepted_before_the_first_token(servers, model):
    """Headers and a comment come at once, also when the answer has to wait for another one."""
    server = servers(model, "--max-active-requests", 1)
    body = {"prompt": "a", "max_tokens": 5000, "ignore_eos": True, "stream": True}
    with connect(server) as other:
        other.sendall(post_bytes("/v1/completions", body))
        while b"data:" not in other.recv(4096):
            pass
        frames = stream(server, "/v1/completions", body | {"max_tokens": 1})
        assert next(frames).startswith(":")
        while (health := server.get("/health")[1])["waiting"] == 0:  # the engine looks in between
            assert health["running"] == 1
    assert next(frame for frame in frames if not frame.startswith(":")).startswith("data:")


def test_comments_while_it_is_silent(servers, model):
    """On plain C kernels, where a layer takes long. Those who leave just before a comment is due,
    while the engine is still in that layer, are not written to."""
    server = servers(model, "--cpu-mask", "c", "--sse-comment", 1, "--no-prefix-cache")
    body = {"prompt": list(range(100, 4100)), "max_tokens": 1, "stream": True}
    socks = []
    for _ in range(30):
        socks.append((connect(server), time.monotonic()))
        socks[-1][0].sendall(post_bytes("/v1/completions", body))
    first = b""
    while first.count(b": ") < 2:  # it was accepted, and there is nothing new
        first += socks[0][0].recv(4096)
    assert b"data:" not in first
    for i, (sock, sent) in enumerate(socks):
        due = sent + 2 - 0.02 * i
        time.sleep(max(0, due - time.monotonic()))
        sock.close()
    time.sleep(0.5)
    assert server.get("/health")[0] == 200
    assert server.process.poll() is None


def test_http_1_0_stream_ends_with_its_connection(small):
    body = json.dumps({"prompt": "a", "max_tokens": 3, "stream": True}).encode()
    head = (b"POST /v1/completions HTTP/1.0\r\nConnection: keep-alive\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body))
    with connect(small) as sock:
        sock.sendall(head + body)
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert b"Transfer-Encoding" not in answer and b"Content-Length" not in answer
    assert answer.endswith(b"data: [DONE]\n\n")


def test_concurrent_streams_do_not_mix(server):
    alone = {n: text_of(chunks(server, "/v1/completions", counting(n))) for n in range(4)}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = {n: pool.submit(chunks, server, "/v1/completions", counting(n))
                   for n in range(4)}
        together = {n: text_of(future.result()) for n, future in futures.items()}
    assert together == alone


def counting(n: int) -> dict:
    return {"prompt": f"{n} {n + 1} {n + 2} {n + 3}", "temperature": 0, "max_tokens": 16}


def test_receive_counts_from_the_first_byte_of_the_request(small):
    """Not from when the connection was made, nor from the request before."""
    data = post_bytes("/v1/completions", {"prompt": "a", "max_tokens": 1})
    with connect(small) as sock:
        for pause in (0.4, 0.4):
            time.sleep(pause)
            sock.sendall(data)
            _, _, answer = read_response(sock)
            assert json.loads(answer)["ttft"]["receive_ms"] < 200
        sock.sendall(data[:10])
        time.sleep(0.3)
        sock.sendall(data[10:])
        _, _, answer = read_response(sock)
        assert 290 < json.loads(answer)["ttft"]["receive_ms"] < 2000
