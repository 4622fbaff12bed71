"""The prefix cache from outside: what it says it had, that answers are the same with and without
it, and that salts keep tenants apart."""

import concurrent.futures
import json

import pytest

CHAT = "/v1/chat/completions"
SYSTEM = "You are a patient teacher. " * 20


def ask(server, question: str, **more) -> tuple[str, dict]:
    body = {"messages": [{"role": "system", "content": SYSTEM},
                         {"role": "user", "content": question}],
            "temperature": 0, "max_tokens": 12} | more
    status, answer = server.post(CHAT, body)
    assert status == 200, answer
    return answer["choices"][0]["message"]["content"], answer["usage"]


def cached(usage: dict) -> int:
    return usage["prompt_tokens_details"]["cached_tokens"]


@pytest.fixture(scope="module")
def uncached(servers, model):
    return servers(model, "--no-prefix-cache")


def test_a_second_time_only_the_last_token_is_computed(server):
    first, usage = ask(server, "What is a prime number?")
    assert cached(usage) < usage["prompt_tokens"] - 1
    again, usage = ask(server, "What is a prime number?")
    assert again == first
    assert cached(usage) == usage["prompt_tokens"] - 1


def test_a_shared_beginning_is_found(server):
    ask(server, "What is the moon?")
    _, usage = ask(server, "Who wrote Hamlet?")
    assert usage["prompt_tokens"] - 40 < cached(usage) < usage["prompt_tokens"] - 1


def test_salts_keep_tenants_apart(server):
    question = "What is a salt?"
    ask(server, question, cache_salt="one")
    _, other = ask(server, question, cache_salt="two")
    _, same = ask(server, question, cache_salt="one")
    assert cached(other) == 0
    assert cached(same) == same["prompt_tokens"] - 1


def test_without_a_cache_nothing_is_cached_and_all_is_the_same(server, uncached):
    questions = [f"Tell me about the number {n}." for n in range(6)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        with_cache = list(pool.map(lambda q: ask(server, q), questions))
        without = list(pool.map(lambda q: ask(uncached, q), questions))
    assert [text for text, _ in with_cache] == [text for text, _ in without]
    assert all(cached(usage) == 0 for _, usage in without)


def test_a_conversation_finds_its_own_answer(server):
    messages = [{"role": "user", "content": "Name three colours of the rainbow, please."}]
    body = {"messages": messages, "temperature": 0, "max_tokens": 16}
    _, first = server.post(CHAT, body)
    messages.append(first["choices"][0]["message"] | {"refusal": None})
    messages[1] = {"role": "assistant", "content": messages[1]["content"]}
    messages.append({"role": "user", "content": "And one more?"})
    _, second = server.post(CHAT, body | {"messages": messages})
    assert cached(second["usage"]) >= first["usage"]["prompt_tokens"]


@pytest.mark.parametrize("salt", ["", "x" * 257, 7])
def test_a_bad_salt_is_named(small, salt):
    status, answer = small.post(CHAT, {"messages": [{"role": "user", "content": "a"}],
                                       "max_tokens": 1, "cache_salt": salt})
    assert status == 400
    assert answer["error"]["param"] == "cache_salt"


@pytest.mark.parametrize("flags, says", [
    (["--policy", "luck"], "srpf"), (["--profile", "luck"], "interactive"),
    (["--max-active-requests", "0"], "--max-active-requests"),
    (["--max-decode-gap-ms", "-1"], "--max-decode-gap-ms"),
])
def test_a_bad_flag_is_named_with_what_there_is(run, tiny, flags, says):
    done = run("serve", "--model", tiny, "--port", 0, *flags)
    assert done.returncode != 0
    assert says in done.stderr


def warm_file(path, *lines) -> str:
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines))
    return str(path)


def test_warm_prompts_are_cached_from_the_start(servers, model, tmp_path):
    system = {"role": "system", "content": SYSTEM}
    server = servers(model, "--warm-prompts", warm_file(
        tmp_path / "warm.jsonl", {"messages": [system]}, "",
        {"prompt": ["one two three " * 20, "four five six " * 20], "cache_salt": "x"}))
    _, usage = ask(server, "What is a prime number?")
    assert cached(usage) > usage["prompt_tokens"] - 30
    for salt, least in ("x", 40), ("y", 0):
        body = {"prompt": "four five six " * 20, "max_tokens": 1, "cache_salt": salt}
        _, answer = server.post("/v1/completions", body)
        assert (cached(answer["usage"]) > 40) == (least > 0)
    assert server.get("/health")[1]["running"] == 0


@pytest.mark.parametrize("line, expected", [
    ("{", ":2:"), ({"prompt": 7}, "prompt"), ({}, "prompt"), ({"messages": []}, "messages"),
    ({"prompt": [10 ** 9]}, "prompt"), ({"prompt": [5] * 5000}, "context"), ("[1]", "object"),
])
def test_bad_warm_prompts_are_named(run, tiny, tmp_path, line, expected):
    path = warm_file(tmp_path / "warm.jsonl", {"prompt": [1, 2]}, line)
    result = run("serve", "--model", tiny, "--port", "0", "--warm-prompts", path)
    assert result.returncode == 1
    assert f"{path}:2: " in result.stderr and expected in result.stderr


def test_warm_prompts_need_their_file_and_the_cache(run, tiny, tmp_path):
    result = run("serve", "--model", tiny, "--port", "0", "--warm-prompts", tmp_path / "none")
    assert result.returncode == 1 and "none: No such file" in result.stderr
    result = run("serve", "--model", tiny, "--port", "0", "--no-prefix-cache", "--warm-prompts",
                 warm_file(tmp_path / "w", {"prompt": [1]}))
    assert result.returncode == 1 and "--no-prefix-cache" in result.stderr
