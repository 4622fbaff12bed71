"""The prefix cache of a server with API keys: what one key asked, no other can find out by it; the
prompts of --warm-prompts are there for all."""

import json
import signal
from pathlib import Path

import pytest
from grpc_client import channel, generate
from wire import request

PUBLIC = [5 + i % 40 for i in range(90)]
OWN = [50 + i % 40 for i in range(100)]


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text("sk-one\nsk-two\n")
    return path


@pytest.fixture(scope="module")
def warm(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("warm") / "warm.jsonl"
    path.write_text(json.dumps({"prompt": PUBLIC}))
    return path


@pytest.fixture(scope="module")
def apart(servers, tiny, keys, warm):
    return servers(tiny, "--api-key-file", keys, "--warm-prompts", warm,
                   "--grpc-port", 0)


def ask(server, key: str, prompt: list[int], **more) -> int:
    """How many tokens of the prompt were cached."""
    body = json.dumps({"prompt": prompt, "max_tokens": 1} | more).encode()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    status, _, answer = request(server, "POST", "/v1/completions", body, **headers)
    assert status == 200, answer
    usage = json.loads(answer)["usage"]
    assert usage["prompt_tokens"] == len(prompt)
    return usage["prompt_tokens_details"]["cached_tokens"]


def test_a_key_finds_its_own_prompts_and_no_others(apart):
    prompt = [1, *OWN]
    assert ask(apart, "sk-one", prompt) == 0
    assert ask(apart, "sk-two", prompt) == 0
    assert ask(apart, "sk-one", prompt) == len(prompt) - 1
    assert ask(apart, "sk-two", prompt) == len(prompt) - 1


def test_warm_prompts_are_everybodys_and_nothing_behind_them(apart):
    prompt = PUBLIC + [2, *OWN]
    for key in "sk-one", "sk-two":
        for salt in {}, {"cache_salt": "tenant"}:
            assert ask(apart, key, prompt, **salt) == len(PUBLIC)
            assert ask(apart, key, prompt, **salt) == len(prompt) - 1


def test_a_salt_divides_one_keys_prompts(apart):
    prompt = [3, *OWN]
    for key in "sk-one", "sk-two":
        assert ask(apart, key, prompt, cache_salt="a") == 0
        assert ask(apart, key, prompt, cache_salt="b") == 0
        assert ask(apart, key, prompt) == 0
        assert ask(apart, key, prompt, cache_salt="a") == len(prompt) - 1


def test_a_key_keeps_its_prompts_when_the_keys_are_read_anew(servers, tiny, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("sk-one\nsk-two\n")
    server = servers(tiny, "--api-key-file", keys)
    prompt = [7, *OWN]
    assert ask(server, "sk-two", prompt) == 0
    keys.write_text("sk-new\nsk-two\nsk-one\n")
    server.process.send_signal(signal.SIGHUP)
    server.logged(" server.reload ")
    assert ask(server, "sk-two", prompt) == len(prompt) - 1
    for other in "sk-one", "sk-new":
        assert ask(server, other, prompt) == 0


def test_choices_of_one_request_share(apart):
    prompt = [4, *OWN]
    ask(apart, "sk-one", prompt, n=3)
    assert ask(apart, "sk-one", prompt) == len(prompt) - 1
    assert ask(apart, "sk-two", prompt) == 0


def test_grpc_has_the_same_keys(apart, tmp_path):
    pb, services = generate(tmp_path)
    prompt = [6, *OWN]
    question = pb.GenerateRequest(tokens=pb.TokenIds(ids=prompt),
                                  sampling=pb.Sampling(max_tokens=1))
    assert ask(apart, "sk-one", prompt) == 0
    with channel(apart) as link:
        stub = services.InferenceStub(link)

        def over_grpc(key: str) -> int:
            answer = stub.GenerateBlocking(question, metadata=[("authorization", f"Bearer {key}")])
            return answer.usage.cached_tokens

        assert over_grpc("sk-two") == 0
        assert over_grpc("sk-one") == len(prompt) - 1
        assert over_grpc("sk-two") == len(prompt) - 1


def test_a_shared_cache_is_everybodys(servers, tiny, keys, warm):
    server = servers(tiny, "--api-key-file", keys, "--warm-prompts", warm,
                     "--shared-prefix-cache")
    assert ask(server, "sk-one", [1, *OWN]) == 0
    assert ask(server, "sk-two", [1, *OWN]) == len(OWN)
    assert ask(server, "sk-one", [2, *OWN], cache_salt="a") == 0
    assert ask(server, "sk-two", [2, *OWN], cache_salt="a") == len(OWN)
    assert ask(server, "sk-two", [2, *OWN], cache_salt="b") == 0


def test_without_keys_warm_prompts_are_found_under_every_salt(servers, tiny, warm):
    server = servers(tiny, "--warm-prompts", warm)
    for salt in {}, {"cache_salt": "a"}, {"cache_salt": "b"}:
        assert ask(server, "", PUBLIC + [7, *OWN], **salt) == len(PUBLIC)


def test_a_warm_prompt_cannot_name_a_keys_salt(run, tiny, keys, tmp_path):
    path = tmp_path / "warm.jsonl"
    path.write_text(json.dumps({"prompt": PUBLIC, "cache_salt": "tenant"}))
    done = run("serve", "--model", tiny, "--port", 0, "--api-key-file", keys, "--warm-prompts",
               path)
    assert done.returncode == 1
    assert f"{path}:1: cache_salt: " in done.stderr and "--shared-prefix-cache" in done.stderr
