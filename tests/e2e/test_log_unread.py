"""A log that nobody reads: requests are answered, the server ends, and what was lost is counted."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import threading
import urllib.request

import pytest
from conftest import GOLDEN, READY, Server
from test_metrics import scrape

PIPE_BYTES = 4096  # the smallest that Linux has
REQUESTS = 200
SECONDS = 60  # no measure of speed: a server that waits for its log waits for ever


def full_pipe() -> tuple[int, int]:
    """Both ends of a pipe in which there is no room."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.write(writer, b"\n" * PIPE_BYTES)
    return reader, writer


class Unread:
    """A server, and the reading end of its log, a small pipe."""

    def __init__(self, binary, model, *flags) -> None:
        self.log, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        command = [binary, "serve", "--model", model, "--port", "0", *flags]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=writer, text=True)
        os.close(writer)
        try:
            url = READY.search(process.stdout.readline())[1]
        except BaseException:
            process.kill()
            raise
        self.server = Server(process, url, [])

    def read_log(self) -> str:
        """All that comes until its other end is closed."""
        with open(self.log, errors="replace", closefd=False) as log:
            return log.read()

    def close(self) -> None:
        self.server.process.kill()
        self.server.process.wait()
        self.server.process.stdout.close()
        os.close(self.log)


@pytest.fixture
def unread(binary, tiny):
    made = Unread(binary, tiny)
    yield made
    made.close()


def ask(server, times: int) -> None:
    body = {"prompt": "a", "max_tokens": 1}
    for _ in range(times):
        assert server.post("/v1/completions", body, timeout=SECONDS)[0] == 200


def dropped(server) -> int:
    return int(scrape(server).get("firstlight_log_lines_dropped_total"))


def test_requests_do_not_wait_for_the_log(unread):
    server = unread.server
    ask(server, REQUESTS)
    assert server.get("/health", SECONDS)[1]["status"] == "ok"
    server.process.terminate()
    assert server.process.wait(SECONDS) == 0


def test_what_is_dropped_is_counted(binary, tiny):
    """More lines than the ring has bytes for; then somebody reads."""
    unread = Unread(binary, tiny, "--log-level", "debug")
    server = unread.server
    try:
        lines = 0
        while dropped(server) == 0:
            ask(server, REQUESTS)
            lines += REQUESTS
            assert lines < 20000
        log: list[str] = []
        reader = threading.Thread(target=lambda: log.append(unread.read_log()))
        reader.start()
        before = dropped(server)
        ask(server, 10)
        server.process.terminate()
        assert server.process.wait(SECONDS) == 0
        reader.join(SECONDS)
    finally:
        unread.close()
    told = [int(n) for n in re.findall(r"warn log\.dropped lines=([0-9]+)\n", log[0])]
    assert sum(told) >= before > 0
    assert log[0].endswith("info server.end\n")
    # every line came whole, once, or is among those dropped
    done = len(re.findall(r" info request\.done ", log[0]))
    assert done <= lines + 10 <= done + sum(told)
    stamp = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{12}Z (debug|info|warn|error) [a-z]")
    assert all(stamp.match(line) for line in log[0].splitlines())


@pytest.mark.parametrize("talkative", [False, True])
def test_a_log_that_is_full_from_the_start(binary, tiny, tmp_path, talkative):
    """And stays so: neither start nor end wait for a reader. A model that brings settings of its
    own has the loader say something as well."""
    model = tiny
    if talkative:
        model = tmp_path / "model"
        shutil.copytree(GOLDEN / "hf/mistral", model)
        (model / "generation_config.json").write_text(json.dumps({"temperature": 0.7}))
    reader, writer = full_pipe()
    process = subprocess.Popen([binary, "serve", "--model", model, "--port", "0"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writer,
                               text=True)
    try:
        url = READY.search(process.stdout.readline())[1]
        with urllib.request.urlopen(url + "/health", timeout=SECONDS) as answer:
            assert json.load(answer)["status"] == "ok"
        process.terminate()
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        os.close(reader)
        os.close(writer)


def test_a_ready_line_that_nobody_reads(binary, tiny):
    """Standard output is full: the log says so, and the server serves."""
    reader, writer = full_pipe()
    process = subprocess.Popen([binary, "serve", "--model", tiny, "--port", "0"],
                               stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE,
                               text=True)
    try:
        said = ""
        while "server.ready_line" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        url = re.search(r"url=(http\S+)", said)[1]
        with urllib.request.urlopen(url + "/health", timeout=SECONDS) as answer:
            assert json.load(answer)["status"] == "ok"
        process.terminate()
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        os.close(reader)
        os.close(writer)
