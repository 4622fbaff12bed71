"""Log probabilities: equal to the reference's, in both dialects, streamed and not, with their bytes
and places in the text."""

import json
import time

import numpy as np
import pytest
from wire import chunks, connect, post_bytes, text_of

from conftest import GOLDEN

TEXT = "/v1/completions"
CHAT = "/v1/chat/completions"
MODELS = json.loads((GOLDEN / "tiny/manifest.json").read_text())["models"]
IDS = next(row["ids"] for row in MODELS if row["name"] == "base")
# a float of up to 20 or so; the reference's own tolerance is 1e-4
TOLERANCE = 2e-4
HELLO = {"messages": [{"role": "user", "content": "Say hello in five languages, with emoji."}],
         "temperature": 0, "max_tokens": 32, "logprobs": True, "top_logprobs": 3}
# byte-level text of a random model: most of it is no UTF-8, and characters span tokens
NOISE = {"prompt": "noise", "temperature": 1, "seed": 7, "max_tokens": 120, "ignore_eos": True,
         "logprobs": 2}


def log_softmax(logits: np.ndarray) -> np.ndarray:
    x = logits.astype(np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


@pytest.fixture(scope="module")
def exact(servers, tiny):
    return servers(tiny, "--activations", "f32")


def test_equal_to_transformers(exact):
    expected = log_softmax(np.load(GOLDEN / "tiny/base.npy"))
    prompts = [IDS[:n + 1] for n in range(len(IDS))]
    status, answer = exact.post(TEXT, {"prompt": prompts, "max_tokens": 1, "temperature": 0,
                                       "logprobs": 5, "ignore_eos": True})
    assert status == 200, answer
    assert [c["index"] for c in answer["choices"]] == list(range(len(IDS)))
    for choice, row in zip(answer["choices"], expected, strict=True):
        found = choice["logprobs"]
        best = np.sort(row)[::-1][:5]
        assert np.abs(np.array(sorted(found["top_logprobs"][0].values(), reverse=True))
                      - best).max() <= TOLERANCE
        assert abs(found["token_logprobs"][0] - best[0]) <= TOLERANCE


@pytest.mark.parametrize("flags", [[], ["--no-prefix-cache"], ["--max-batch-size", 3]])
def test_the_prompts_equal_transformers(servers, tiny, flags):
    """However a prompt is cut into steps, and whatever is in the cache."""
    server = servers(tiny, "--activations", "f32", *flags)
    expected = log_softmax(np.load(GOLDEN / "tiny/base.npy"))
    body = {"prompt": IDS, "max_tokens": 2, "temperature": 0, "ignore_eos": True}
    assert server.post(TEXT, body)[0] == 200  # now it is in the cache
    status, answer = server.post(TEXT, body | {"echo": True, "logprobs": 5, "n": 2})
    assert status == 200, answer
    for choice in answer["choices"]:
        found = choice["logprobs"]
        assert len(found["tokens"]) == len(IDS) + 2
        assert found["token_logprobs"][0] is None and found["top_logprobs"][0] is None
        for at, token in enumerate(IDS[1:]):
            assert abs(found["token_logprobs"][at + 1] - expected[at][token]) <= TOLERANCE
            best = sorted(found["top_logprobs"][at + 1].values(), reverse=True)
            assert np.abs(best[:5] - np.sort(expected[at])[::-1][:5]).max() <= TOLERANCE
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert server.stop() == 0


def test_echo_with_a_long_prompt(server):
    """Longer than the rows of a step; streamed and not."""
    prompt = "The quick brown fox jumps over the lazy dog \u4e2d\u6587. " * 12
    body = {"prompt": prompt, "echo": True, "logprobs": 1, "max_tokens": 4, "temperature": 0}
    _, whole = server.post(TEXT, body)
    choice = whole["choices"][0]
    found = choice["logprobs"]
    assert choice["text"].startswith(prompt)
    assert len(found["tokens"]) == whole["usage"]["prompt_tokens"] + 4 > 128
    check_offsets(found, choice["text"])
    assert found["text_offset"][-4] == len(prompt)
    assert all(value < 0 for value in found["token_logprobs"][1:])
    parts = [part["choices"][0] for part in chunks(server, TEXT, body)]
    assert "".join(part["text"] for part in parts) == choice["text"]
    for key in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert [v for p in parts if p["logprobs"] for v in p["logprobs"][key]] == found[key]


def test_they_are_the_models_own_whatever_the_sampling(exact):
    """Bias, penalties and temperature choose another token; they change no probability."""
    ask = {"prompt": IDS, "max_tokens": 1, "logprobs": 5, "ignore_eos": True}
    _, plain = exact.post(TEXT, ask | {"temperature": 0})
    _, bent = exact.post(TEXT, ask | {"temperature": 2, "seed": 3, "logit_bias": {"100": 100},
                                      "repetition_penalty": 2, "top_k": 3})
    plain, bent = (a["choices"][0]["logprobs"] for a in (plain, bent))
    assert set(plain["top_logprobs"][0].items()) <= set(bent["top_logprobs"][0].items())
    assert len(bent["top_logprobs"][0]) == 6  # the token itself is none of the likeliest
    assert bent["token_logprobs"][0] == bent["top_logprobs"][0][bent["tokens"][0]]
    expected = log_softmax(np.load(GOLDEN / "tiny/base.npy"))[-1]
    assert abs(bent["token_logprobs"][0] - expected[100]) <= TOLERANCE


@pytest.mark.parametrize("tokens", [1, 7])
def test_equal_to_the_logits_command(run, servers, model, tmp_path, tokens):
    server = servers(model, "--activations", "f32")
    ids = [504, 3575, 282, 4649, 314]
    _, answer = server.post(TEXT, {"prompt": ids, "max_tokens": tokens, "temperature": 0,
                                   "logprobs": 5})
    found = answer["choices"][0]["logprobs"]
    told = run("tokenize", "--model", model, "--json", stdin=json.dumps(found["tokens"]))
    generated = [one[0] for one in json.loads(told.stdout)]
    result = run("logits", "--model", model, "--activations", "f32", "--npy", tmp_path / "out.npy",
                 stdin=json.dumps(ids + generated))
    assert result.returncode == 0, result.stderr
    rows = log_softmax(np.load(tmp_path / "out.npy"))[len(ids) - 1:-1]
    for token, value, top, row in zip(generated, found["token_logprobs"], found["top_logprobs"],
                                      rows, strict=True):
        assert abs(row[token] - value) < 1e-4
        assert np.abs(np.sort(row)[::-1][:5] - sorted(top.values(), reverse=True)).max() < 1e-4


def name_of(spelled: bytes) -> str:
    """What is no character stands as \\xNN."""
    return spelled.decode(errors="backslashreplace")


def check_chat(content: list[dict], text: str, top: int) -> None:
    spelled = b"".join(bytes(entry["bytes"]) for entry in content)
    assert spelled.decode(errors="ignore") == text  # a character cut off by max_tokens is not shown
    for entry in content:
        assert set(entry) == {"token", "logprob", "bytes", "top_logprobs"}
        assert entry["logprob"] <= 0
        values = [alternative["logprob"] for alternative in entry["top_logprobs"]]
        assert len(values) == top and values == sorted(values, reverse=True)
        assert entry["token"] == name_of(bytes(entry["bytes"]))
        if top > 0:  # greedy
            assert entry["top_logprobs"][0]["token"] == entry["token"]
            assert entry["top_logprobs"][0]["logprob"] == entry["logprob"]


@pytest.mark.parametrize("top", [0, 3, 20])
def test_chat(server, top):
    status, answer = server.post(CHAT, HELLO | {"top_logprobs": top})
    assert status == 200, answer
    choice = answer["choices"][0]
    content = choice["logprobs"]["content"]
    check_chat(content, choice["message"]["content"], top)
    ended = choice["finish_reason"] == "stop"
    assert len(content) == answer["usage"]["completion_tokens"] - ended


def test_chat_without(server):
    _, answer = server.post(CHAT, HELLO | {"logprobs": False, "top_logprobs": None})
    assert answer["choices"][0]["logprobs"] is None


def test_streamed_chat_is_the_same(server):
    _, whole = server.post(CHAT, HELLO)
    parts = chunks(server, CHAT, HELLO)
    choices = [part["choices"][0] for part in parts]
    content = [e for c in choices if c["logprobs"] for e in c["logprobs"]["content"]]
    assert content == whole["choices"][0]["logprobs"]["content"]
    assert text_of(parts) == whole["choices"][0]["message"]["content"]


def check_offsets(found: dict, text: str) -> None:
    at = 0
    for token, offset in zip(found["tokens"], found["text_offset"], strict=True):
        assert offset >= at
        at = offset
        if text[offset:offset + 1] == "\ufffd":  # of the tokens before, known to be none only now
            offset += not text.startswith(token, offset)
        if not token.startswith(("bytes:", "<|")):
            assert text.startswith(token, offset)


# more than the I/O thread makes JSON of by itself
LONG = NOISE | {"max_tokens": 200, "n": 3, "logprobs": 5, "echo": True}


def test_a_long_answer_streamed_and_whole(small):
    status, whole = small.post(TEXT, LONG)
    assert status == 200, whole
    parts = [part["choices"][0] for part in chunks(small, TEXT, LONG)]
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2]
    for choice in whole["choices"]:
        mine = [part for part in parts if part["index"] == choice["index"]]
        assert "".join(part["text"] for part in mine) == choice["text"]
        assert len(choice["logprobs"]["tokens"]) > LONG["max_tokens"]
        for key, values in choice["logprobs"].items():
            told = [part["logprobs"][key] for part in mine if part["logprobs"]]
            assert [value for some in told for value in some] == values


def test_who_leaves_a_long_answer(small):
    """Also while it is made: everything is given back."""
    for i in range(30):
        with connect(small) as sock:
            sock.sendall(post_bytes(TEXT, LONG | {"seed": i}))
            time.sleep(0.01 * i)
    status, _ = small.post(TEXT, LONG)
    assert status == 200
    deadline = time.monotonic() + 60
    while (health := small.get("/health")[1])["running"] + health["waiting"] > 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert health["kv_blocks_free"] == health["kv_blocks_total"]


def test_more_than_one_answer_may_have(server):
    """LIMIT_ANSWER_LOGPROBS: 64 choices of 100 tokens with twenty alternatives."""
    ask = HELLO | {"n": 64, "max_tokens": 100, "top_logprobs": 20}
    status, answer = server.post(CHAT, ask)
    assert status == 400 and answer["error"]["param"] == "top_logprobs"
    assert "134400 log probabilities, at most 131072" in answer["error"]["message"]
    assert '"stream": true' in answer["error"]["message"]
    assert server.post(CHAT, ask | {"max_tokens": 1})[0] == 200
    with connect(server) as sock:
        sock.sendall(post_bytes(CHAT, ask | {"stream": True}))
        assert sock.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("more", [{}, {"stop": ["ab", "\ufffd!", "e"]}, {"max_tokens": 3}])
def test_noise_streamed_and_whole(small, more):
    _, whole = small.post(TEXT, NOISE | more)
    choice = whole["choices"][0]
    found = choice["logprobs"]
    check_offsets(found, choice["text"])
    assert any(token.startswith("bytes:\\x") for token in found["tokens"])
    parts = [part["choices"][0] for part in chunks(small, TEXT, NOISE | more)]
    for key in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        together = [value for part in parts if part["logprobs"] for value in part["logprobs"][key]]
        assert together == found[key]
    if "stop" not in more:
        assert len(found["tokens"]) == whole["usage"]["completion_tokens"]


def test_a_stop_string_has_no_entries(server):
    ask = {"prompt": "One two three", "temperature": 0, "max_tokens": 12, "logprobs": 0}
    _, whole = server.post(TEXT, ask)
    tokens = whole["choices"][0]["logprobs"]["tokens"]
    assert len(tokens) == 12 and all(len(top) == 1 for top in
                                     whole["choices"][0]["logprobs"]["top_logprobs"])
    stop = tokens[4] + tokens[5]
    assert whole["choices"][0]["text"].index(stop) == len("".join(tokens[:4]))
    _, cut = server.post(TEXT, ask | {"stop": stop})
    assert cut["choices"][0]["text"] == "".join(tokens[:4])
    assert cut["choices"][0]["logprobs"]["tokens"] == tokens[:4]
    assert cut["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("path, more, param", [
    (TEXT, {"logprobs": 6}, "logprobs"),
    (TEXT, {"logprobs": True}, "logprobs"),
    (TEXT, {"logprobs": -1}, "logprobs"),
    (CHAT, {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    (CHAT, {"logprobs": False, "top_logprobs": 2}, "top_logprobs"),
    (CHAT, {"logprobs": 1}, "logprobs"),
])
def test_ranges(server, path, more, param):
    body = {"prompt": "a"} if path == TEXT else {"messages": HELLO["messages"]}
    status, answer = server.post(path, body | more)
    assert status == 400
    assert answer["error"]["param"] == param and param in answer["error"]["message"]
