"""Clients that read slowly or not at all: their tokens wait, nothing is lost, nobody else waits."""

import json
import socket
import struct
import time
from urllib.parse import urlsplit

import pytest
from wire import post_bytes, text_of

N_CTX = 8192
BODY = {"prompt": "a", "max_tokens": 5000, "ignore_eos": True, "seed": 5, "stream": True}


@pytest.fixture(scope="module")
def roomy(servers, tiny, tmp_path_factory):
    """The tiny model, said to have been trained for a longer context; its long name makes frames
    large enough to fill the socket's buffers."""
    data = bytearray(tiny.read_bytes())
    key = b"llama.context_length"
    struct.pack_into("<I", data, data.index(key) + len(key) + 4, N_CTX)
    path = tmp_path_factory.mktemp("roomy") / "roomy.gguf"
    path.write_bytes(data)
    return servers(path, "--ctx", N_CTX, "--served-model-name", "m" * 3000)


def narrow(server) -> socket.socket:
    """A connection whose socket holds little, so that what is not read stays with the server."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(60)
    url = urlsplit(server.url)
    sock.connect((url.hostname, url.port))
    return sock


def busy(server) -> bool:
    health = server.get("/health")[1]
    return health["running"] + health["waiting"] > 0


def read_chunks(sock: socket.socket) -> list[dict]:
    data = bytearray()
    while not data.endswith(b"0\r\n\r\n"):
        data += sock.recv(1 << 20)
    lines = data.split(b"\n")
    assert b"data: [DONE]" in lines
    return [json.loads(line[len(b"data: "):]) for line in lines if line.startswith(b"data: {")]


@pytest.fixture(scope="module")
def expected(roomy) -> str:
    return roomy.post("/v1/completions", BODY | {"stream": False})[1]["choices"][0]["text"]


def test_nothing_read_until_the_end(roomy, expected):
    with narrow(roomy) as sock:
        sock.sendall(post_bytes("/v1/completions", BODY))
        time.sleep(0.2)
        while busy(roomy):
            time.sleep(0.05)
        parts = read_chunks(sock)
    assert text_of(parts) == expected
    # what came after the buffers were full is in the one frame that the end has written
    assert len(parts) < BODY["max_tokens"] * 2 // 3
    assert parts[-1]["timings"]["predicted_n"] == BODY["max_tokens"]


def test_stopping_and_going_on(roomy, expected):
    with narrow(roomy) as sock:
        sock.sendall(post_bytes("/v1/completions", BODY))
        time.sleep(0.5)
        parts = read_chunks(sock)
    assert text_of(parts) == expected


def test_others_do_not_wait(roomy):
    with narrow(roomy) as stalled:
        stalled.sendall(post_bytes("/v1/completions", BODY))
        start = time.monotonic()
        status, _ = roomy.post("/v1/completions", {"prompt": "b", "max_tokens": 10})
        assert status == 200 and time.monotonic() - start < 5
    while busy(roomy):
        time.sleep(0.05)
