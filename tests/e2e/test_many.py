"""Several answers to one request: n, several prompts, seeds, echo, min_tokens."""

import concurrent.futures
import json
import socket
import time

import pytest
from wire import chunks, connect, post_bytes

TEXT = "/v1/completions"
CHAT = "/v1/chat/completions"
RANDOM = {"temperature": 1, "max_tokens": 12, "ignore_eos": True}
LONG = "The quick brown fox jumps over the lazy dog. " * 8


def ask(server, path: str, **body) -> dict:
    status, answer = server.post(path, body)
    assert status == 200, answer
    return answer


def texts(answer: dict) -> list[str]:
    assert [c["index"] for c in answer["choices"]] == list(range(len(answer["choices"])))
    return [c["message"]["content"] if "message" in c else c["text"] for c in answer["choices"]]


def cached(answer: dict) -> int:
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def streamed(server, path: str, **body) -> tuple[list[str], list[dict]]:
    """The text of every choice, and all chunks; each choice ends once and is over then."""
    parts = chunks(server, path, body)
    found: dict[int, str] = {}
    ended = set()
    for part in parts:
        for choice in part["choices"]:
            at = choice["index"]
            assert at not in ended
            first = at not in found
            delta = choice.get("delta")
            if delta is not None:
                assert ("role" in delta) == first
            found[at] = found.get(at, "") + (delta.get("content", "") if delta is not None
                                             else choice["text"])
            if choice["finish_reason"] is not None:
                ended.add(at)
    assert ended == set(found) == set(range(len(found)))
    assert all("ttft" not in part for part in parts[:-1]) and "ttft" in parts[-1]
    return [found[i] for i in range(len(found))], parts


# --- n ---------------------------------------------------------------------------------------


def test_choices_of_a_seed(server):
    body = {"prompt": LONG, "n": 4, "seed": 11} | RANDOM
    whole = ask(server, TEXT, **body)
    said = texts(whole)
    assert len(set(said)) == 4
    assert texts(ask(server, TEXT, **body)) == said
    assert streamed(server, TEXT, **body)[0] == said
    # the first choice is what n = 1 says; fewer choices are the first ones of more
    assert texts(ask(server, TEXT, **body | {"n": 1})) == said[:1]
    assert texts(ask(server, TEXT, **body | {"n": 2})) == said[:2]
    assert texts(ask(server, TEXT, **body | {"seed": 12})) != said


def test_choices_without_a_seed_differ(server):
    said = texts(ask(server, TEXT, prompt="Once", n=3, **RANDOM | {"max_tokens": 24}))
    assert len(set(said)) == 3


def test_neighbours_change_nothing(server):
    """The same seeds alone and in a crowd."""
    bodies = [{"prompt": LONG[:40 * (i + 1)], "n": 2, "seed": i} | RANDOM for i in range(5)]
    alone = [texts(ask(server, TEXT, **body)) for body in bodies]
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        crowd = list(pool.map(lambda body: texts(ask(server, TEXT, **body)), bodies * 2))
    assert crowd == alone * 2


def test_the_prompt_counts_once_and_is_computed_once(servers, model):
    server = servers(model)
    prompt = "Completely unheard-of words: " + LONG
    whole = ask(server, TEXT, prompt=prompt, n=4, seed=1, **RANDOM)
    usage = whole["usage"]
    assert usage["completion_tokens"] == 4 * RANDOM["max_tokens"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert cached(whole) == 0
    again = ask(server, TEXT, prompt=prompt, n=2, seed=1, **RANDOM)
    assert again["usage"]["prompt_tokens"] == usage["prompt_tokens"]
    assert cached(again) == usage["prompt_tokens"] - 1
    assert server.stop() == 0


def test_without_the_prefix_cache_the_answers_are_the_same(server, servers, model):
    plain = servers(model, "--no-prefix-cache")
    body = {"prompt": LONG, "n": 3, "seed": 5} | RANDOM
    assert texts(ask(plain, TEXT, **body)) == texts(ask(server, TEXT, **body))
    assert plain.stop() == 0


def test_chat_choices(server):
    body = {"messages": [{"role": "user", "content": "Name an animal."}], "n": 3, "seed": 4,
            "temperature": 1, "max_tokens": 16}
    said = texts(ask(server, CHAT, **body))
    assert streamed(server, CHAT, **body)[0] == said
    assert streamed(server, CHAT, **body, stream_options={"include_usage": True})[0] == said


def test_each_choice_has_its_own_end(server):
    """One stops at a string that others may not have."""
    body = {"prompt": "A list of numbers: 1, 2,", "n": 6, "seed": 3, "temperature": 1.2,
            "max_tokens": 30, "ignore_eos": True}
    free = texts(ask(server, TEXT, **body))
    word = next(w for t in free for w in t.split() if 1 <= sum(w in u for u in free) < 6)
    whole = ask(server, TEXT, **body, stop=word)
    for choice, text in zip(whole["choices"], free, strict=True):
        assert choice["finish_reason"] == ("stop" if word in text else "length")
        assert choice["text"] == text.split(word)[0]
    said, parts = streamed(server, TEXT, **body, stop=word)
    assert said == texts(whole)
    reasons = {c["index"]: c["finish_reason"] for p in parts for c in p["choices"]
               if c["finish_reason"]}
    assert [reasons[i] for i in range(6)] == [c["finish_reason"] for c in whole["choices"]]


def test_logprobs_of_choices(server):
    body = {"prompt": "Once", "n": 2, "seed": 4, "logprobs": 1} | RANDOM
    whole = ask(server, TEXT, **body)
    for choice in whole["choices"]:
        assert "".join(choice["logprobs"]["tokens"]).startswith(choice["text"])
    _, parts = streamed(server, TEXT, **body)
    for index in range(2):
        tokens = [t for p in parts for c in p["choices"] if c["index"] == index and c["logprobs"]
                  for t in c["logprobs"]["tokens"]]
        assert tokens == whole["choices"][index]["logprobs"]["tokens"]


# --- several prompts -------------------------------------------------------------------------


def test_prompts_come_prompt_by_prompt(server):
    prompts = ["The capital of France is", "One two three"]
    alone = [texts(ask(server, TEXT, prompt=p, n=2, seed=8, **RANDOM)) for p in prompts]
    whole = ask(server, TEXT, prompt=prompts, n=2, seed=8, **RANDOM)
    assert texts(whole) == alone[0] + alone[1]
    lengths = [ask(server, TEXT, prompt=p, max_tokens=1)["usage"]["prompt_tokens"] for p in prompts]
    assert whole["usage"]["prompt_tokens"] == sum(lengths)
    assert streamed(server, TEXT, prompt=prompts, n=2, seed=8, **RANDOM)[0] == texts(whole)


def test_prompts_as_ids(server):
    ids = [[504, 3575, 282], [4649, 314]]
    alone = [texts(ask(server, TEXT, prompt=p, temperature=0, max_tokens=5))[0] for p in ids]
    assert texts(ask(server, TEXT, prompt=ids, temperature=0, max_tokens=5)) == alone


# --- echo ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_echo(server, stream):
    def said(**body) -> list[str]:
        return streamed(server, TEXT, **body)[0] if stream else texts(ask(server, TEXT, **body))

    body = {"prompt": ["One \u4e2d two", "Three"], "n": 2, "seed": 1} | RANDOM
    plain = said(**body)
    assert said(**body, echo=True) == [body["prompt"][i // 2] + plain[i] for i in range(4)]
    ids = [504, 3575, 282]
    alone = said(prompt=ids, temperature=0, max_tokens=3)[0]
    assert said(prompt=ids, temperature=0, max_tokens=3, echo=True)[0] == "The capital of" + alone


# --- min_tokens ------------------------------------------------------------------------------


def test_min_tokens(server):
    body = {"messages": [{"role": "user", "content": "Say only: yes"}], "temperature": 0,
            "max_tokens": 80}
    short = ask(server, CHAT, **body)
    n = short["usage"]["completion_tokens"]
    assert short["choices"][0]["finish_reason"] == "stop" and n < 60
    longer = ask(server, CHAT, **body, min_tokens=n + 5)
    assert longer["usage"]["completion_tokens"] >= n + 5
    assert texts(longer)[0].startswith(texts(short)[0])
    same = ask(server, CHAT, **body, min_tokens=n - 1)
    assert texts(same) == texts(short)


def test_no_stop_string_before_min_tokens(server):
    body = {"prompt": "1 2 3 4", "temperature": 0, "max_tokens": 20, "stop": " "}
    assert ask(server, TEXT, **body)["usage"]["completion_tokens"] < 6
    assert ask(server, TEXT, **body, min_tokens=9)["usage"]["completion_tokens"] >= 9


# --- all or nothing, leaving, limits -----------------------------------------------------------


def until(what) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def running(server) -> int:
    health = server.get("/health")[1]
    return health["running"] + health["waiting"]


def test_leaving_cancels_all(servers, model):
    server = servers(model)
    body = {"prompt": LONG, "n": 8, "max_tokens": 4000, "ignore_eos": True}
    for more in ({"stream": True}, {}):
        with connect(server) as sock:
            sock.sendall(post_bytes(TEXT, body | more))
            until(lambda: running(server) == 8)
        until(lambda: running(server) == 0)
    assert ask(server, TEXT, prompt="a", n=8, max_tokens=2)["usage"]["prompt_tokens"] > 0
    assert server.stop() == 0


def test_all_or_nothing(servers, model):
    """256 slots: four times 64 choices hold them all; a fifth gets none, and leaves none taken."""
    server = servers(model, "--max-requests", 256)
    body = {"prompt": "a", "n": 64, "max_tokens": 4000, "ignore_eos": True, "stream": True}
    socks = [connect(server) for _ in range(4)]
    for sock in socks:
        sock.sendall(post_bytes(TEXT, body))
        assert sock.recv(12) == b"HTTP/1.1 200"
    status, answer = server.post(TEXT, {"prompt": "a", "n": 2, "max_tokens": 1})
    assert status == 429 and answer["error"]["code"] == "rate_limit_exceeded"
    for sock in socks:
        sock.close()
    until(lambda: running(server) == 0)
    until(lambda: server.post(TEXT, {"prompt": "a", "n": 64, "max_tokens": 1})[0] == 200)
    assert server.stop() == 0


@pytest.mark.parametrize("more, param", [
    ({"n": 65}, "n"), ({"n": 0}, "n"), ({"n": 1e9}, "n"), ({"n": "2"}, "n"), ({"n": -1}, "n"),
    ({"n": 2, "best_of": 3}, "best_of"), ({"best_of": 2}, "best_of"),
    ({"prompt": ["a"] * 65}, "prompt"), ({"prompt": ["a"] * 33, "n": 2}, "n"),
    ({"prompt": ["a", ""]}, "prompt"), ({"prompt": [[1], [99999999]]}, "prompt[1][0]"),
    ({"prompt": [[1], ["a"]]}, "prompt[1][0]"), ({"prompt": ["a", 5]}, "prompt[1]"),
    ({"min_tokens": 6, "max_tokens": 5}, "min_tokens"), ({"min_tokens": -1}, "min_tokens"),
    ({"echo": "yes"}, "echo"), ({"seed": 0.5}, "seed"),
])
def test_ranges(server, more, param):
    status, answer = server.post(TEXT, {"prompt": "a"} | more)
    assert status == 400
    assert answer["error"]["param"] == param, answer
    assert param.split("[")[0] in answer["error"]["message"]


def test_measurements_cover_all_choices(server):
    whole = ask(server, TEXT, prompt=LONG, n=3, seed=1, **RANDOM)
    assert whole["timings"]["predicted_n"] == 3 * RANDOM["max_tokens"]
    ttft = whole["ttft"]
    parts = [value for name, value in ttft.items() if name != "total_ms"]
    assert round(sum(parts), 3) == ttft["total_ms"]
    assert whole["metrics"]["mean_itl_ms"] > 0
    assert json.dumps(whole)  # whole and finite


def test_a_reader_that_pauses_gets_all_of_every_choice(small):
    """Far more than the server keeps for a client that does not read."""
    body = {"prompt": "noise", "n": 64, "seed": 2, "temperature": 1, "max_tokens": 480,
            "ignore_eos": True, "logprobs": 5, "stream": True}
    before = small.get("/health")[1]["finished"]
    with connect(small, timeout=60) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        sock.sendall(post_bytes(TEXT, body))
        until(lambda: small.get("/health")[1]["finished"] - before >= 64)
        data = b""
        while not data.endswith(b"0\r\n\r\n"):
            part = sock.recv(1 << 20)
            assert part
            data += part
    assert len(data) > 3 << 20
    said, _ = streamed(small, TEXT, **body)
    whole = ask(small, TEXT, **body | {"stream": False})
    assert texts(whole) == said
    assert data.count(b'"finish_reason":"length"') == 64 and data.count(b"data: [DONE]") == 1
