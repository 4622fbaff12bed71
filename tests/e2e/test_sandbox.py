"""The server's sandbox: every thread of a real server is made, from outside, to open files, to
start a program and to make a socket; what the server needs itself still works."""

import errno
import json
import os
import platform
import re
import shutil
import socket
import struct
import subprocess
import urllib.request
from pathlib import Path

import pytest

import inject
from conftest import GOLDEN, READY_SECONDS, collect_lines, start_server
from inject import AT_FDCWD, CLOSE, EXECVE, OPENAT, SOCKET

HOLDS = re.compile(r"server\.sandbox landlock=(\d+|off)\b.* seccomp=(on|off)\b")


def told(server) -> tuple[str, str]:
    """What the server's log says of (Landlock, seccomp), once."""
    server.logged("server.sandbox")
    found = [match for line in server.lines if (match := HOLDS.search(line))]
    assert len(found) == 1, server.lines
    return found[0][1], found[0][2]


def threads(server) -> list[int]:
    return [int(name) for name in os.listdir(f"/proc/{server.process.pid}/task")]


def ask(server) -> None:
    body = {"prompt": [1, 2, 3], "max_tokens": 2, "ignore_eos": True}
    status, answer = server.post("/v1/completions", body)
    assert status == 200 and answer["usage"]["completion_tokens"] == 2
    assert server.get("/health")[0] == 200


@pytest.fixture(scope="module")
def confined(small):
    """A server that is confined as a whole, or a skipped test that says what is missing."""
    landlock, seccomp = told(small)
    if landlock == "off" or seccomp == "off":
        pytest.skip("\n".join(line for line in small.lines if "server.sandbox" in line))
    return small


@pytest.fixture(scope="module")
def tracing():
    if platform.machine() != "x86_64":
        pytest.skip("the tracer knows x86-64 only")
    if reason := inject.why_not():
        pytest.skip(f"no process can be traced here: {reason}")


def test_every_thread_is_confined(confined):
    for thread in threads(confined):
        status = Path(f"/proc/{confined.process.pid}/task/{thread}/status").read_text()
        assert re.search(r"^NoNewPrivs:\s+1$", status, re.M), status
        assert re.search(r"^Seccomp:\s+2$", status, re.M), status


def attempts(server, model: Path, other: Path) -> dict[int, dict[str, int]]:
    """What each thread gets: 0, or an errno."""
    asked = {
        "its model": (OPENAT, AT_FDCWD, bytes(model), os.O_RDONLY),
        "/etc/passwd": (OPENAT, AT_FDCWD, b"/etc/passwd", os.O_RDONLY),
        "another file": (OPENAT, AT_FDCWD, bytes(other), os.O_RDONLY),
        "a new file": (OPENAT, AT_FDCWD, bytes(other) + b".new", os.O_RDWR | os.O_CREAT, 0o600),
        "a program": (EXECVE, b"/nonexistent/program", 0, 0),
        "a socket": (SOCKET, 2, 1, 0),
    }
    got: dict[int, dict[str, int]] = {}
    for tid in threads(server):
        with inject.Thread(server.process.pid, tid) as thread:
            got[tid] = {}
            for name, call in asked.items():
                result = thread.call(*call)
                got[tid][name] = max(-result, 0)
                if result >= 0:
                    assert thread.call(CLOSE, result) == 0
    return got


def test_an_open_and_an_exec_from_every_thread(confined, tracing, tiny, tmp_path):
    other = tmp_path / "other"
    other.write_text("secret")
    got = attempts(confined, tiny, other)
    assert len(got) >= 4  # I/O, text worker, engine, pages; more processors have more workers
    for tid, results in got.items():
        assert results == {"its model": 0, "/etc/passwd": errno.EACCES,
                           "another file": errno.EACCES, "a new file": errno.EACCES,
                           "a program": errno.EPERM, "a socket": errno.EPERM}, tid
    ask(confined)  # nobody noticed


def test_without_a_sandbox(servers, tracing, tiny, tmp_path):
    """The same attempts are let through, so that the refusals above are the sandbox's."""
    server = servers(tiny, "--no-sandbox")
    assert told(server) == ("off", "off")
    other = tmp_path / "other"
    other.write_text("secret")
    got = attempts(server, tiny, other)
    assert all(results == {"its model": 0, "/etc/passwd": 0, "another file": 0, "a new file": 0,
                           "a program": errno.ENOENT, "a socket": 0} for results in got.values())
    ask(server)
    assert server.stop() == 0


@pytest.fixture
def certificate(tmp_path) -> Path:
    folder = tmp_path / "tls"
    folder.mkdir()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-keyout", folder / "key", "-out", folder / "cert"],
                   check=True, capture_output=True)
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_every_file_of_its_own(servers, confined, model, tmp_path, certificate):
    trace = write(tmp_path / "trace/others", "").parent / "new"
    server = servers(
        model, "--grpc-port", 0, "--tls-cert", certificate / "cert",
        "--tls-key", certificate / "key", "--api-key-file", write(tmp_path / "keys/k", "secret"),
        "--chat-template", write(tmp_path / "templates/t", "{{ messages[0].content }}"),
        "--warm-prompts", write(tmp_path / "warm/w", '{"prompt": "hello"}\n'), "--record", trace)
    assert told(server) == told(confined)
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}).encode()
    request = urllib.request.Request(server.url + "/v1/chat/completions", body,
                                     {"Authorization": "Bearer secret"})
    with urllib.request.urlopen(request, timeout=60) as response:
        assert json.load(response)["usage"]["completion_tokens"] > 0
    assert server.stop() == 0
    assert len(trace.read_text().splitlines()) == 2


def read_by(server, path: Path) -> int:
    """As the I/O thread: 0, or an errno."""
    with inject.Thread(server.process.pid, server.process.pid) as thread:
        result = thread.call(OPENAT, AT_FDCWD, bytes(path), os.O_RDONLY)
        if result >= 0:
            thread.call(CLOSE, result)
        return max(-result, 0)


def test_a_key_file_that_is_replaced_stays_readable(servers, confined, tracing, tiny, tmp_path):
    """By a rename, and as a cluster mounts secrets: a link to a folder that changes."""
    keys, model, beside = tmp_path / "keys", tmp_path / "m" / tiny.name, tmp_path / "beside"
    write(keys / "..1" / "list", "one")
    (keys / "..data").symlink_to("..1")
    (keys / "list").symlink_to("..data/list")
    write(model, "").write_bytes(tiny.read_bytes())
    beside.write_text("secret")
    server = servers(model, "--api-key-file", keys / "list")
    assert read_by(server, keys / "list") == 0
    write(keys / "..2" / "list", "two")
    (keys / "new").symlink_to("..2")
    (keys / "new").rename(keys / "..data")
    assert read_by(server, keys / "list") == 0
    (keys / "..2" / "next").write_text("three")
    (keys / "..2" / "next").rename(keys / "..2" / "list")
    assert read_by(server, keys / "list") == 0
    assert read_by(server, beside) == errno.EACCES  # beside the folder
    assert read_by(server, write(model.parent / "new" / "file", "")) == errno.EACCES  # of a model


def test_a_folder_of_links(servers, confined, tmp_path):
    """As the Hub's cache has it: names in snapshots/, files in blobs/."""
    snapshot, blobs = tmp_path / "snapshots/1", tmp_path / "blobs"
    snapshot.mkdir(parents=True)
    shutil.copytree(GOLDEN / "hf/bf16_tied", blobs)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(f"../../blobs/{file.name}")
    server = servers(snapshot)
    assert told(server) == told(confined)
    ask(server)


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def split(model: Path, folder: Path) -> Path:
    """As two parts: all tensors are in the first one. Metadata go in front of what is there, in
    multiples of the alignment, so that nothing behind has to be changed."""
    magic, version, n_tensors, n_values = struct.unpack_from("<4sIQQ", model.read_bytes())
    for part, tensors, values, rest in [(0, n_tensors, n_values, model.read_bytes()[24:]),
                                        (1, 0, 0, b"")]:
        more = b"".join(string(key) + struct.pack("<II", 4, value) for key, value in [
            ("split.no", part), ("split.count", 2), ("split.tensors.count", n_tensors)])
        text = string("pad") + struct.pack("<I", 8)
        padding = -(len(more) + len(text) + 8) % 32
        more += text + string("x" * padding)
        path = folder / f"m-{part + 1:05}-of-00002.gguf"
        path.write_bytes(struct.pack("<4sIQQ", magic, version, tensors, values + 4) + more + rest)
    return folder / "m-00001-of-00002.gguf"


def test_a_model_in_parts(servers, confined, tiny, tmp_path):
    server = servers(split(tiny, tmp_path))
    assert told(server) == told(confined)
    ask(server)


def test_a_name_and_a_port(confined, binary, tiny):
    """The name is looked up, and the rows are of the ports that were asked for."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [binary, "serve", "--model", tiny, "--host", "localhost", "--port", str(port)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:
        try:
            lines, arrived = collect_lines(process)
            while (line := arrived.get(timeout=READY_SECONDS)) and "firstlight ready" not in line:
                pass
            assert line and f"on http://localhost:{port} " in line, lines
        finally:
            process.kill()


def test_a_denied_call_is_an_error(confined, tracing, servers, tiny):
    """A denied call is an error in the thread that made it, and the server goes on."""
    server = servers(tiny)
    for tid in threads(server):
        with inject.Thread(server.process.pid, tid) as thread:
            assert thread.call(9999) == -errno.ENOSYS
    ask(server)
    assert server.stop() == 0


QEMU = shutil.which("qemu-x86_64")


@pytest.mark.skipif(QEMU is None, reason="qemu-x86_64 is not here: `make deps` installs it")
def test_a_kernel_that_has_neither(binary, tiny, tmp_path):
    """Which qemu's user mode looks like: the server runs, and says once what does not hold."""
    path = tmp_path / "emulated"
    path.write_text(f'#!/bin/sh\nexec {QEMU} -cpu Haswell {binary} "$@"\n')
    path.chmod(0o755)
    server = start_server(path, tiny)
    try:
        assert told(server) == ("off", "off")
        line, = [line for line in server.lines if "server.sandbox" in line]
        assert " warn " in line and "landlock_reason=" in line and "seccomp_reason=" in line
        ask(server)
    finally:
        assert server.stop() == 0
