"""A model file that is cut short while it is in use: errors that name it, and no signal."""

import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest
from wire import error_of, request, stream

from conftest import GOLDEN

EXACT = ("--activations", "f32")  # no weight is copied into memory


@pytest.fixture
def copy(model, tmp_path) -> Path:
    return Path(shutil.copy(model, tmp_path / "cut.gguf"))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 100)


def error_in(frames: list[str]) -> dict:
    return json.loads(frames[-1].removeprefix("data: "))["error"]


def log_of(server) -> list[str]:
    return [line for line in server.lines if "server.failed" in line]


@pytest.mark.parametrize("flags", [EXACT, ()], ids=["mapped", "embeddings alone mapped"])
def test_streams_end_and_the_server_says_why(servers, copy, flags):
    server = servers(copy, *flags)
    body = {"prompt": "Once upon a time", "max_tokens": 4000, "ignore_eos": True}
    frames: dict[int, list[str]] = {0: [], 1: []}

    def read(i: int) -> None:
        for frame in stream(server, "/v1/completions", body | {"seed": i}):
            frames[i].append(frame)

    readers = [threading.Thread(target=read, args=(i,), daemon=True) for i in frames]
    for reader in readers:
        reader.start()
    while min(map(len, frames.values())) < 3:  # accepted, and some tokens
        time.sleep(0.005)
    cut(copy)
    for reader in readers:
        reader.join(60)
        assert not reader.is_alive()
    for of_one in frames.values():
        assert error_in(of_one)["type"] == "service_unavailable_error"
        assert str(copy) in error_in(of_one)["message"]

    for path in ("/v1/completions", "/v1/chat/completions"):
        question = {"prompt": "a", "messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
        status, _, answer = request(server, "POST", path, json.dumps(question).encode())
        assert status == 503 and str(copy) in error_of(answer)["message"]
    for path in ("/health", "/ready"):
        status, answer = server.get(path)
        assert status == 503 and answer["status"] == "failed"
        assert str(copy) in answer["error"]["message"]
    metrics = request(server, "GET", "/metrics")[2].decode()
    assert 'reason="failed"' in metrics
    assert server.get("/health")[1]["running"] == 0
    blocks = server.get("/health")[1]
    assert blocks["kv_blocks_free"] == blocks["kv_blocks_total"]
    assert str(copy) in server.logged("server.failed") and len(log_of(server)) == 1
    assert server.process.poll() is None
    assert server.stop() == 0


def test_an_unstreamed_answer_is_an_error(servers, copy):
    server = servers(copy, *EXACT)
    cut(copy)
    status, answer = server.post("/v1/completions", {"prompt": "Once", "max_tokens": 4})
    assert status == 503 and str(copy) in answer["error"]["message"]
    assert server.stop() == 0


def test_what_runs_while_it_is_drained_ends_too(servers, copy):
    server = servers(copy, *EXACT)
    frames = stream(server, "/v1/completions",
                    {"prompt": "Once", "max_tokens": 4000, "ignore_eos": True})
    for _ in range(3):
        next(frames)
    server.process.terminate()
    while server.get("/health")[1]["status"] != "draining":
        time.sleep(0.01)
    cut(copy)
    rest = list(frames)
    assert str(copy) in error_in(rest)["message"]
    assert server.process.wait(20) == 0


def cut_after(process: subprocess.Popen, path: Path, seconds: float) -> str:
    time.sleep(seconds)
    cut(path)
    _, log = process.communicate(timeout=60)
    return log


COMMANDS = {
    "run": ["run", "Once upon a time", "--raw", "--max-tokens", "8000", "--ignore-eos"],
    "perplexity": ["perplexity", "--ctx", "64"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_name_the_file(binary, copy, name):
    """Whether it is still loaded or used already when it is cut."""
    command, *rest = COMMANDS[name]
    if name == "perplexity":  # a text that takes its time
        text = copy.with_name("text.txt")
        text.write_text(10 * (GOLDEN / "perplexity.txt").read_text())
        rest += ["--file", text]
    for seconds in (0.02, 0.6):
        whole = copy.with_name("whole.gguf")
        shutil.copy(copy, whole)
        with subprocess.Popen([binary, command, "--model", whole, *EXACT, *rest], text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            log = cut_after(process, whole, seconds)
        assert process.returncode == 1, log
        assert str(whole) in log
