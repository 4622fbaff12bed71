"""Start and stop of the server: the ready line, readiness, a port in use, the end by SIGTERM."""

import ctypes
import json
import os
import platform
import signal
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request

import pytest


def test_ready_line_names_url_and_example(server):
    deadline = time.monotonic() + 5  # the line may follow a log line that names the URL too
    while not any("curl" in line for line in server.lines) and time.monotonic() < deadline:
        time.sleep(0.01)
    ready = "\n".join(server.lines)
    assert "curl" in ready and server.url in ready


def test_health_ready_and_models(server):
    assert server.get("/health")[0] == 200
    assert server.get("/ready")[0] == 200
    status, models = server.get("/v1/models")
    assert status == 200 and len(models["data"]) == 1


def test_port_in_use(run, tiny):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--model", tiny, "--port", port)
    assert result.returncode != 0
    assert str(port) in result.stderr and "in use" in result.stderr


def test_sigterm_ends_an_idle_server(servers, tiny):
    server = servers(tiny)
    assert server.stop() == 0


def wait_loading(url: str) -> None:
    """Until the server answers, which it does while it loads."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url + "/health", timeout=5) as response:
                assert json.load(response)["status"] == "loading"
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.005)
    raise AssertionError("no answer while loading")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_loading_ends_it(binary, model, number):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # plain C and exact: warming up takes long enough to be met
    command = [binary, "serve", "--model", model, "--port", str(port), "--cpu-mask", "c",
               "--activations", "f32"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            wait_loading(f"http://127.0.0.1:{port}")
            process.send_signal(number)
            out, log = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 0, log
    assert "server.end" in log and "ready" not in out


def scheduling(thread: int) -> tuple[int, int]:
    """Its niceness and its slice in ns (0: the kernel has none of its own for a thread)."""
    attributes = ctypes.create_string_buffer(56)
    get = {"x86_64": 315}[platform.machine()]  # sched_getattr(2)
    assert ctypes.CDLL(None).syscall(get, thread, attributes, 56, 0) == 0
    _, _, _, nice, _, runtime = struct.unpack("=IIQiIQ", attributes.raw[:32])
    return nice, runtime


def test_the_io_thread_pre_empts_the_others(servers, tiny):
    """Or a token that is ready waits for milliseconds while they compute the next ones."""
    server = servers(tiny)
    io = server.process.pid
    threads = {int(name): scheduling(int(name)) for name in os.listdir(f"/proc/{io}/task")}
    nice, own = threads.pop(io)
    assert any(other_nice > nice for other_nice, _ in threads.values())
    if own > 0:  # Linux 6.12
        assert own == 100_000 and all(slice_ns > own for _, slice_ns in threads.values())
    assert server.stop() == 0
