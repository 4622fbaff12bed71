"""SIGTERM: what runs may finish, what comes is refused, and there is an end to it."""

import collections
import gzip
import json
import random
import signal
import string
import threading
import time

import pytest
from h2wire import ACK, DATA, END_STREAM, HEADERS, SETTINGS, Client, frame, message
from test_access import grpc_address
from wire import connect, error_of, post_bytes, read_response, request, stream

TOKENIZE = "/firstlight.v1.Inference/Tokenize"
GENERATE = "/firstlight.v1.Inference/Generate"
LONG = {"prompt": "Once upon a time", "ignore_eos": True, "temperature": 0}


class Reader(threading.Thread):
    """Reads a stream to its end."""

    def __init__(self, server, max_tokens: int) -> None:
        super().__init__(daemon=True)
        self.frames: list[str] = []
        self.source = stream(server, "/v1/completions", LONG | {"max_tokens": max_tokens})
        self.frames.append(next(self.source))  # accepted
        self.start()

    def run(self) -> None:
        for frame in self.source:
            self.frames.append(frame)


def varint(n: int) -> bytes:
    """As protobuf writes it."""
    return bytes([n & 127 | 128]) + varint(n >> 7) if n > 127 else bytes([n])


def ask(server) -> tuple[int, dict, bytes]:
    with connect(server) as sock:
        sock.sendall(post_bytes("/v1/completions", {"prompt": "a", "max_tokens": 1}))
        return read_response(sock)


def wait_draining(server) -> None:
    while server.get("/health")[1]["status"] != "draining":
        time.sleep(0.01)


def test_running_requests_finish(servers, model):
    server = servers(model)
    reader = Reader(server, 40)
    server.process.terminate()
    wait_draining(server)
    status, headers, body = ask(server)
    assert status == 503 and int(headers["retry-after"]) > 0
    assert "shutting down" in error_of(body)["message"]
    assert request(server, "GET", "/ready")[0] == 503
    assert request(server, "GET", "/health")[0] == 200
    reader.join(120)
    assert reader.frames[-1] == "data: [DONE]"
    last = json.loads(reader.frames[-2][len("data: "):])
    assert last["choices"][0]["finish_reason"] == "length"
    assert server.process.wait(10) == 0


def test_the_deadline_ends_it(servers, model):
    server = servers(model, "--drain-timeout", 1)
    reader = Reader(server, 8000)
    start = time.monotonic()
    server.process.terminate()
    assert server.process.wait(20) == 0
    assert 0.9 < time.monotonic() - start < 15
    reader.join(10)
    error = json.loads(reader.frames[-1][len("data: "):])["error"]
    assert "shutting down" in error["message"]


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(servers, model, second):
    server = servers(model)
    Reader(server, 8000)
    server.process.terminate()
    wait_draining(server)
    start = time.monotonic()
    server.process.send_signal(second)
    assert server.process.wait(10) == 0
    assert time.monotonic() - start < 5


class Ends:
    """Of each stream of a connection: its headers and trailers, and the bytes of its body."""

    def __init__(self, client: Client) -> None:
        self.client, self.ended = client, set()
        self.fields, self.sizes = collections.defaultdict(dict), collections.Counter()

    def read_until(self, *streams: int) -> None:
        """These have ended, or the connection has."""
        while not self.ended.issuperset(streams) and (got := self.client.read()) is not None:
            kind, flags, stream, payload = got
            if kind == HEADERS:
                self.fields[stream] |= dict(self.client.decoder.decode(payload))
            if kind == DATA:
                self.sizes[stream] += len(payload)
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                self.ended.add(stream)


def test_texts_on_their_way_are_answered(servers, tiny):
    """What has come whole and waits for a text worker, to be tokenized or inflated first."""
    server = servers(tiny, "--grpc-port", 0)
    letters = random.Random(1).choices(string.ascii_letters + " ", k=1 << 20)
    text = bytes([0x0a]) + varint(len(letters)) + "".join(letters).encode()  # field 1: text
    packed = gzip.compress(bytes([0x0a]) + varint(200_000) + b"a " * 100_000)
    with Client(grpc_address(server), timeout=60) as client:
        client.send(frame(SETTINGS, ACK))  # the server's windows count from here on
        client.open_windows()
        streams = [client.ask(TOKENIZE, message(text)) for _ in range(3)]
        for path in (TOKENIZE, GENERATE):
            streams.append(client.ask(path, message(packed, 1), ("grpc-encoding", "gzip")))
        health, ends = client.open("/health", end=True, method="GET"), Ends(client)
        ends.read_until(health)
        assert ends.fields[health][":status"] == "200"  # so all before it has arrived
        server.process.terminate()
        ends.read_until(*streams)
    assert ends.ended == {health, *streams}
    for stream in streams[:4]:
        assert ends.fields[stream]["grpc-status"] == "0" and ends.sizes[stream] > 100_000
    assert ends.fields[streams[4]]["grpc-status"] in ("0", "14")  # "the server is shutting down"
    assert server.process.wait(20) == 0


def test_idle_connections_do_not_hold_it_up(servers, tiny):
    server = servers(tiny)
    with connect(server) as idle:
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read_response(idle)
        assert server.stop() == 0


def test_sigint_is_the_same(servers, tiny):
    server = servers(tiny)
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(10) == 0
