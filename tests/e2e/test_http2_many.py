"""Many streams over few connections, by gRPC and by SSE over HTTP/2; clients that take nothing."""

import contextlib
import json
import struct
import time

import pytest
from grpc_client import address, generate, text_of
from h2wire import (ACK, DATA, END_HEADERS, END_STREAM, HEADERS, RST, SETTINGS, Client, frame,
                    message)
from limits_header import limit

GENERATE = "/firstlight.v1.Inference/Generate"
TOKENIZE = "/firstlight.v1.Inference/Tokenize"
FLOW_CONTROL_ERROR = 3
CONNECTIONS, STREAMS = 4, 250
SAMPLING = {"max_tokens": 24, "temperature": 0.8, "seed": 7, "ignore_eos": True}


@pytest.fixture(scope="module")
def pb(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("stubs"))[0]


@pytest.fixture(scope="module")
def host(servers, tiny):
    """Takes a thousand at once, however slow the machine is."""
    return servers(tiny, "--grpc-port", 0, "--max-queue-ms", 0)


@pytest.fixture(scope="module")
def expected(host) -> str:
    return host.post("/v1/completions", {"prompt": "Hello", **SAMPLING})[1]["choices"][0]["text"]


def until_idle(host):
    deadline = time.monotonic() + 60
    while (health := host.get("/health")[1])["running"] or health["waiting"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert health["kv_blocks_free"] == health["kv_blocks_total"]


def sse_text(body: bytes) -> str:
    assert body.endswith(b"data: [DONE]\n\n")
    chunks = [json.loads(line[6:]) for line in body.decode().splitlines()
              if line.startswith("data: {")]
    return "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])


def grpc_text(pb, body: bytes) -> str:
    responses = []
    while body:
        flag, size = struct.unpack(">BI", body[:5])
        assert flag == 0
        responses.append(pb.GenerateResponse.FromString(body[5:5 + size]))
        body = body[5 + size:]
    assert responses[-1].usage.completion_tokens == SAMPLING["max_tokens"]
    return text_of(responses)


def ask(client, pb, protocol: str) -> int:
    if protocol == "SSE":
        body = json.dumps({"prompt": "Hello", "stream": True, **SAMPLING}).encode()
        return client.post("/v1/completions", "application/json", body)
    question = pb.GenerateRequest(prompt="Hello", sampling=pb.Sampling(**SAMPLING))
    return client.ask(GENERATE, message(question.SerializeToString()))


@pytest.mark.parametrize("protocol", ["gRPC", "SSE"])
def test_a_thousand_streams(host, pb, expected, protocol):
    """All are open before any may end: no window lets a byte of an answer through until then."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(address(host), window=0, timeout=60))
                   for _ in range(CONNECTIONS)]
        streams = [[ask(client, pb, protocol) for _ in range(STREAMS)] for client in clients]
        for client, its in zip(clients, streams, strict=True):
            client.headers(its)
        assert host.get("/health")[1]["connections"] >= CONNECTIONS
        for client in clients:
            client.open_windows()
        for client, its in zip(clients, streams, strict=True):
            for fields, body in client.answers(its).values():
                if protocol == "SSE":
                    assert sse_text(body) == expected
                else:
                    assert fields["grpc-status"] == "0" and grpc_text(pb, body) == expected
    until_idle(host)


def test_half_of_them_cancel(host, pb, expected):
    """All at once, which is no attack: the others go on."""
    with Client(address(host), window=0, timeout=60) as client:
        streams = [ask(client, pb, "gRPC") for _ in range(1000)]
        client.headers(streams)
        client.send(b"".join(frame(RST, stream=stream, payload=b"\0\0\0\x08")
                             for stream in streams[::2]))
        client.open_windows()
        for fields, body in client.answers(streams[1::2]).values():
            assert fields["grpc-status"] == "0" and grpc_text(pb, body) == expected
    until_idle(host)


def headers_of(client, stream) -> tuple[int, dict]:
    """The flags and the fields of the next headers on this stream."""
    kind, flags, number, payload = client.read()
    while kind != HEADERS or number != stream:
        kind, flags, number, payload = client.read()
    return flags, dict(client.decoder.decode(payload))


def test_answers_that_nobody_takes(host, pb):
    """Their bytes are bounded: a connection with too many is refused more, until it reads. A
    probe is answered all the same."""
    text = message(pb.TokenizeRequest(text="a b c d " * 8000).SerializeToString())
    with Client(address(host), window=0, timeout=60) as client:
        streams, refused = [], None
        while refused is None:
            assert len(streams) < 1000
            stream = client.ask(TOKENIZE, text)
            flags, fields = headers_of(client, stream)
            if flags & END_STREAM:
                refused = fields
            else:
                streams.append(stream)
        assert refused["grpc-status"] == "8" and "have not been read" in refused["grpc-message"]
        probe = client.ask("/grpc.health.v1.Health/Check", message(b""))
        flags, fields = headers_of(client, probe)
        assert not flags & END_STREAM, fields  # an answer, not only trailers
        client.open_windows(1 << 28)
        answers = client.answers([*streams, probe])
        sizes = {len(answers[stream][1]) for stream in streams}
        assert len(sizes) == 1 and len(streams) * sizes.pop() >= limit("LIMIT_H2_UNSENT")
        assert client.grpc("/grpc.health.v1.Health/Check", message(b""))["grpc-status"] == "0"


def test_frames_that_nobody_takes(host):
    """Answers of headers alone, and resets, have no window: too many of them end the connection."""
    with Client(address(host), timeout=60, receive=4096) as client:
        block = client.fields("/x", ("content-type", "application/grpc"))
        with pytest.raises(ConnectionError):
            for first in range(1, 1 << 23, 2000):
                client.send(b"".join(frame(HEADERS, END_HEADERS | END_STREAM, stream, block)
                                     for stream in range(first, first + 2000, 2)))
    until_idle(host)
    assert host.logged("it takes no answers")


def test_bodies_that_are_never_whole(host):
    """They fill the window of the connection (LIMIT_H2_UNREAD); more breaks the protocol."""
    part = bytes(16384)
    sent = 0
    with Client(address(host), timeout=60) as client:
        client.send(frame(SETTINGS, ACK))
        with contextlib.suppress(ConnectionError):
            for _ in range(8):
                stream = client.open(GENERATE, ("content-type", "application/grpc"))
                for _ in range(500):
                    client.send(frame(DATA, 0, stream, part))
                    sent += len(part)
        assert client.end() in (FLOW_CONTROL_ERROR, None)  # None: its reset came first
    assert sent < 8 * 500 * len(part)
    until_idle(host)
