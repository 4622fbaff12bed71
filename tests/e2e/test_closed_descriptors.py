"""Standard descriptors that come closed, and files that may not grow."""

import os
import re
import resource
import subprocess

import pytest
from conftest import Server

NAMES = {0: "<&-", 1: ">&-", 2: "2>&-"}
URL = re.compile(r"http://[0-9.]+:[0-9]+")


def without(number: int, command: list) -> list[str]:
    """The command, started with that descriptor closed."""
    return ["bash", "-c", f'exec "$@" {NAMES[number]}', "bash", *map(str, command)]


@pytest.mark.parametrize("number", NAMES)
def test_serve(binary, tiny, number):
    command = [binary, "serve", "--model", tiny, "--port", 0, "--log-level", "debug"]
    with subprocess.Popen(without(number, command), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = process.stderr if number == 1 else process.stdout
            url = None
            while not url:
                line = said.readline()
                assert line, "the server ended before it was ready"
                url = URL.search(line)
            server = Server(process, url[0], [])
            for _ in range(5):
                assert server.post("/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200
            descriptors = f"/proc/{process.pid}/fd"
            targets = {int(fd): os.readlink(f"{descriptors}/{fd}")
                       for fd in os.listdir(descriptors)}
            assert targets[number] == "/dev/null"
            assert all(name.startswith("pipe:") for fd, name in targets.items()
                       if 0 < fd <= 2 and fd != number)
            process.terminate()
            process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0


@pytest.mark.parametrize("number", NAMES)
def test_version(binary, number):
    done = subprocess.run(without(number, [binary, "version"]), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert ("firstlight" in done.stdout) == (number != 1) and done.stderr == ""


def test_a_file_that_may_not_grow(run, tiny, tmp_path):
    """SIGXFSZ would end the process; a full quota is an error like any other."""
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    result = run("convert", tiny, tmp_path / "out.gguf", "--type", "q8_0", preexec_fn=limit)
    assert result.returncode == 1
    assert "out.gguf" in result.stderr and "File too large" in result.stderr
