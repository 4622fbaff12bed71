"""What a model brings besides weights, and the flags that put something else in its place: chat
template, sampling defaults, end tokens."""

import json
import re
import shutil

import pytest

from conftest import GOLDEN, ROOT

FOLDER = GOLDEN / "hf/mistral"
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}"


def answer(run, model, *flags):
    result = run("run", "--model", model, "--json", "--max-tokens", 12, "--ignore-eos", *flags,
                 "hello")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout), result.stderr


@pytest.fixture
def folder(tmp_path):
    """folder(**generation_config): a copy of a model with that generation_config.json."""

    def copy(**generation):
        path = tmp_path / "model"
        shutil.copytree(FOLDER, path)
        (path / "generation_config.json").write_text(json.dumps(generation))
        return path

    return copy


def test_chat_template_from_a_file(run, tmp_path):
    path = tmp_path / "template.jinja"
    path.write_text(TEMPLATE)
    own, _ = answer(run, FOLDER, "--temperature", 0)
    other, _ = answer(run, FOLDER, "--temperature", 0, "--chat-template", path)
    raw = run("run", "--model", FOLDER, "--json", "--max-tokens", 12, "--ignore-eos",
              "--temperature", 0, "--raw", "<|im_start|>hello")
    assert other["text"] == json.loads(raw.stdout)["text"] != own["text"]


@pytest.mark.parametrize("command", [["run", "hello"], ["serve", "--port", "0"]])
def test_a_bad_chat_template_ends_the_start(run, tmp_path, command):
    path = tmp_path / "template.jinja"
    path.write_text("a\n{{ x")
    result = run(*command, "--model", FOLDER, "--chat-template", path)
    assert result.returncode != 0
    assert f"{path}: line 2: expected '}}}}'" in result.stderr
    result = run(*command, "--model", FOLDER, "--chat-template", tmp_path / "none")
    assert result.returncode != 0 and "none" in result.stderr


def test_run_takes_the_model_s_sampling(run, folder):
    path = folder(do_sample=True, temperature=1.5, top_k=2, eos_token_id=[1, 0])
    line = "sampling defaults from generation_config.json: temperature 1.5, top_k 2\n"
    greedy, said = answer(run, path, "--temperature", 0)
    assert line in said
    drawn, _ = answer(run, path, "--seed", 3)
    spelled, _ = answer(run, path, "--seed", 3, "--temperature", 1.5, "--top-k", 2)
    assert drawn["text"] == spelled["text"]
    assert drawn["text"] != greedy["text"]
    assert answer(run, path, "--top-k", 1)[0]["text"] == greedy["text"]
    plain, said = answer(run, path, "--sampling-defaults", "none", "--seed", 3)
    assert "sampling defaults" not in said
    spelled, _ = answer(run, path, "--seed", 3, "--temperature", 0.8, "--top-k", 40,
                        "--top-p", 0.95, "--min-p", 0.05, "--repetition-penalty", 1)
    assert plain["text"] == spelled["text"]


DEFAULTS = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}


def test_where_nothing_is_said_the_api_draws_as_run_does(run, small, tiny):
    """And as what is spelled out; each value that a request gives changes only itself."""
    ask = {"prompt": "hello", "max_tokens": 12, "ignore_eos": True, "seed": 3}

    def text(**more):
        status, body = small.post("/v1/completions", ask | more)
        assert status == 200, body
        return body["choices"][0]["text"]

    here, _ = answer(run, tiny, "--raw", "--seed", 3)
    assert here["text"] == text() == text(**DEFAULTS) == text(**dict.fromkeys(DEFAULTS))
    assert text(temperature=1.5) == text(**DEFAULTS | {"temperature": 1.5}) != text()
    assert text(temperature=1.5, top_k=0, top_p=1, min_p=0) != text(temperature=1.5)


def test_the_help_and_the_docs_name_the_defaults(run):
    said = run("run", "--help").stdout
    page = (ROOT / "docs/api.md").read_text()
    for name, value in DEFAULTS.items():
        flag = said.split(f"\n  --{name.replace('_', '-')} ")[1].split("\n  --")[0]
        assert f"(default: the model's, else {value})" in flag
        assert re.search(rf"^\| `{name}` \|.*\| the model's, else {value} \|$", page, re.M), name


def test_a_value_out_of_range_can_be_left_out(run, folder):
    path = folder(temperature=5)
    result = run("run", "--model", path, "hello")
    assert result.returncode != 0 and "temperature" in result.stderr and "found 5" in result.stderr
    answer(run, path, "--sampling-defaults", "none")


def test_the_server_says_that_the_context_is_shorter(servers, tmp_path):
    def said(*flags):
        server = servers(FOLDER, *flags)
        assert server.stop() == 0
        return [line for line in server.all_lines() if "server.context" in line]

    most = json.loads((FOLDER / "config.json").read_text())["max_position_embeddings"]
    assert not said() and not said("--ctx", most // 2)
    short = said("--kv-memory", "32K")
    assert len(short) == 1 and f" of={most} reason=memory" in short[0]


def test_the_server_takes_the_model_s_sampling(servers, folder):
    path = folder(do_sample=False, temperature=0.7)
    server = servers(path)
    assert "sampling defaults from generation_config.json: temperature 0" in server.lines
    ask = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 12, "ignore_eos": True}

    def text(**more):
        status, body = server.post("/v1/chat/completions", ask | more)
        assert status == 200, body
        return body["choices"][0]["message"]["content"]

    assert text() == text(temperature=0) == text(temperature=None)
    assert len({text(temperature=2, seed=i) for i in range(4)}) > 1
