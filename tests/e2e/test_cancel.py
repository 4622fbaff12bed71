"""A client that leaves: its request ends within a step, wherever it was; its blocks are free."""

import socket
import struct
import time

import pytest
from wire import connect, post_bytes, stream

LONG = {"prompt": "Once upon a time", "max_tokens": 4000, "ignore_eos": True, "temperature": 0}


def health(server) -> dict:
    return server.get("/health")[1]


def wait_until(server, what, seconds: float = 20) -> dict:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if what(now := health(server)):
            return now
        time.sleep(0.01)
    raise AssertionError(f"still {health(server)}")


@pytest.fixture
def idle(server):
    return wait_until(server, lambda h: h["running"] == h["waiting"] == 0)


def is_idle(before: dict, cancelled: int):
    return lambda h: (h["running"] == h["waiting"] == 0
                      and h["kv_blocks_free"] == before["kv_blocks_free"]
                      and h["cancelled"] == before["cancelled"] + cancelled)


def test_leaving_a_stream(server, idle):
    frames = stream(server, "/v1/completions", LONG)
    for _ in range(3):
        next(frames)
    assert health(server)["running"] == 1
    assert health(server)["kv_blocks_free"] < idle["kv_blocks_free"]
    frames.close()
    wait_until(server, is_idle(idle, 1))


@pytest.mark.parametrize("streamed", [True, False])
def test_leaving_before_the_first_token(server, idle, streamed):
    body = LONG | {"prompt": "word " * 6000, "stream": streamed}
    with connect(server) as sock:
        sock.sendall(post_bytes("/v1/completions", body))
        wait_until(server, lambda h: h["running"] == 1)
    wait_until(server, is_idle(idle, 1))


def test_leaving_an_unstreamed_answer(server, idle):
    with connect(server) as sock:
        sock.sendall(post_bytes("/v1/completions", LONG))
        wait_until(server, lambda h: h["running"] == 1)
        time.sleep(0.2)
    wait_until(server, is_idle(idle, 1))


def test_leaving_with_a_large_body(server, idle):
    """Gone while the text worker has the body, or just after."""
    body = LONG | {"prompt": "word " * 7000, "metadata": {"pad": "x" * 3_000_000}}
    with connect(server) as sock:
        sock.sendall(post_bytes("/v1/completions", body))
    wait_until(server, lambda h: is_idle(idle, 0)(h) or is_idle(idle, 1)(h))


def test_leaving_all_at_once(server, idle):
    sockets = [connect(server) for _ in range(12)]
    for sock in sockets:
        sock.sendall(post_bytes("/v1/completions", LONG | {"stream": True}))
    wait_until(server, lambda h: h["running"] + h["waiting"] == 12)
    for sock in sockets:
        sock.close()
    wait_until(server, is_idle(idle, 12))


def test_half_close_counts_as_leaving(server, idle):
    with connect(server) as sock:
        sock.sendall(post_bytes("/v1/completions", LONG))
        wait_until(server, lambda h: h["running"] == 1)
        sock.shutdown(1)
        wait_until(server, is_idle(idle, 1))


def test_reset(server, idle):
    sock = connect(server)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.sendall(post_bytes("/v1/completions", LONG | {"stream": True}))
    wait_until(server, lambda h: h["running"] == 1)
    sock.close()
    wait_until(server, is_idle(idle, 1))


def test_the_log_says_who_left(server, idle):
    with connect(server) as sock:
        sock.sendall(post_bytes("/v1/completions", LONG, "X-Request-Id: leaver-1"))
        wait_until(server, lambda h: h["running"] == 1)
    wait_until(server, is_idle(idle, 1))
    line = server.logged("leaver-1")
    assert "gone=1" in line and "finish=cancelled" in line
