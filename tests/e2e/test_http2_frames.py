"""HTTP/2 as no client library would speak it: the right refusal, and nobody else is disturbed."""

import errno
import socket
import struct
import time

import pytest
from grpc_client import address, channel, generate, text_of
from h2wire import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING,
                    PREFACE, PRIORITY, PUSH, RST, SETTINGS, WINDOW, Client, frame, message)

GENERATE = "/firstlight.v1.Inference/Generate"
CHECK = "/grpc.health.v1.Health/Check"
TYPE = ("content-type", "application/grpc")
PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR = 1, 2, 3, 6
COMPRESSION_ERROR, CALM = 9, 11


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("stubs"))


@pytest.fixture(scope="module")
def host(servers, tiny):
    return servers(tiny, "--grpc-port", 0)


@pytest.fixture
def client(host):
    with Client(address(host)) as one:
        yield one


@pytest.fixture(autouse=True)
def nobody_else_is_disturbed(host, stubs):
    """A stream on another connection, begun before and read after, is whole."""
    pb, rpc = stubs
    ask = pb.GenerateRequest(prompt="Hello", sampling=pb.Sampling(
        max_tokens=100, ignore_eos=True, seed=1, n=4))
    with channel(host) as other:
        stub = rpc.InferenceStub(other)
        expected = [choice.text for choice in stub.GenerateBlocking(ask).choices]
        running = stub.Generate(ask)
        yield
        got = list(running)
    assert [text_of(got, i) for i in range(4)] == expected
    health = host.get("/health")[1]
    deadline = time.monotonic() + 20
    while health["running"] or health["waiting"]:
        assert time.monotonic() < deadline
        health = host.get("/health")[1]


def test_a_call(client):
    fields, body = client.answer(client.ask(CHECK, message(b"")))
    assert fields["grpc-status"] == "0" and fields[":status"] == "200"
    assert body == message(b"\x08\x01")


# --- frames that break the protocol: the connection ends, with the reason ------------------------


@pytest.mark.parametrize(("data", "code"), [
    (frame(DATA, 0, 0, b"x"), PROTOCOL_ERROR),
    (frame(DATA, 0, 5, b"x"), PROTOCOL_ERROR),
    (frame(HEADERS, END_HEADERS, 2, b""), PROTOCOL_ERROR),
    (frame(HEADERS, END_HEADERS, 0, b"\x82"), PROTOCOL_ERROR),
    (frame(HEADERS, END_HEADERS, 1, b"\xff" * 40), COMPRESSION_ERROR),
    (frame(HEADERS, END_HEADERS, 1, b"\xbf"), COMPRESSION_ERROR),
    (frame(CONTINUATION, END_HEADERS, 1, b"\x82"), PROTOCOL_ERROR),
    (frame(HEADERS, 0, 1, b"\x82") + frame(PING, payload=b"12345678"), PROTOCOL_ERROR),
    (frame(PING, payload=b"1"), FRAME_SIZE_ERROR),
    (frame(SETTINGS, payload=b"12345"), FRAME_SIZE_ERROR),
    (frame(SETTINGS, ACK, payload=b"123456"), FRAME_SIZE_ERROR),
    (frame(SETTINGS, payload=struct.pack(">HI", 4, 1 << 31)), FLOW_CONTROL_ERROR),
    (frame(WINDOW, payload=struct.pack(">I", 0)), PROTOCOL_ERROR),
    (frame(WINDOW, payload=struct.pack(">I", (1 << 31) - 1)), FLOW_CONTROL_ERROR),
    (frame(RST, stream=7, payload=b"\0\0\0\0"), PROTOCOL_ERROR),
    (frame(PUSH, END_HEADERS, 1, b"\0\0\0\2\x82"), PROTOCOL_ERROR),
    (frame(DATA, 0, 1, length=1 << 20), FRAME_SIZE_ERROR),
], ids=str)
def test_broken_frames(client, data, code):
    client.send(data)
    assert client.end() == code


@pytest.mark.parametrize("data", [
    b"", b"PRI", PREFACE[:20], b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"\0" * 64,
    bytes(range(256)) * 64, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
], ids=lambda data: repr(data[:24]))
def test_another_protocol(host, data):
    name, port = address(host).split(":")
    with socket.create_connection((name, int(port)), timeout=20) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
        except ConnectionError:
            pass
        except OSError as error:
            assert error.errno == errno.ENOTCONN


# --- requests that are wrong: the stream ends ----------------------------------------------------


@pytest.mark.parametrize("fields", [
    [(":method", "POST"), (":path", CHECK)],
    [(":method", "POST"), (":scheme", "http"), (":path", "")],
    [(":method", "POST"), (":scheme", "http"), (":path", CHECK), ("Upper", "x")],
    [(":method", "POST"), (":scheme", "http"), (":path", CHECK), ("connection", "close")],
    [(":method", "POST"), (":scheme", "http"), ("a", "b"), (":path", CHECK)],
    [(":method", "POST"), (":scheme", "http"), (":path", CHECK), ("a", "b\r\nc: d")],
], ids=str)
def test_malformed_requests(client, fields):
    stream, client.next_stream = client.next_stream, client.next_stream + 2
    client.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, client.encoder.encode(fields)))
    try:
        got, _ = client.answer(stream)
        assert got.get("rst") == PROTOCOL_ERROR or got[":status"] == "400"
    except AssertionError as error:
        assert "the connection ended" in str(error)


@pytest.mark.parametrize(("body", "status", "words"), [
    (b"", 12, "one message, and none came"),
    (b"\0\0\0", 13, "before its message was whole"),
    (message(b"", length=10), 13, "before its message was whole"),
    (message(b"\x0a\x01a") * 2, 12, "one message, and more came"),
    (message(b"\x0a\x05a"), 13, "is no firstlight.v1.GenerateRequest"),
    (message(b"\x0a\x02\xff\xfe"), 3, "UTF-8"),
    (message(b"a", flag=1), 13, "grpc-encoding does not say how"),
    (message(b"a", flag=7), 13, "begins with 0 or 1"),
    (message(b"", length=0xffffffff), 8, "at most"),
], ids=lambda value: value[:12] if isinstance(value, bytes) else None)
def test_bad_messages(client, body, status, words):
    got = client.grpc(GENERATE, body)
    assert got["grpc-status"] == str(status) and words in got["grpc-message"], got


@pytest.mark.parametrize("body", [b"no gzip", b"\x1f\x8b\x08", b""])
def test_bad_gzip(client, body):
    got = client.grpc(GENERATE, message(body, flag=1), ("grpc-encoding", "gzip"))
    assert got["grpc-status"] == "13" and "gzip" in got["grpc-message"]


def test_an_encoding_that_is_not_there(client):
    got = client.grpc(GENERATE, message(b"a", flag=1), ("grpc-encoding", "br"))
    assert got["grpc-status"] == "12" and got["grpc-accept-encoding"] == "identity,gzip"


@pytest.mark.parametrize("more", [
    [("x", "y" * 9000), ("z", "y" * 9000)], [(f"x-{i}", "y") for i in range(80)],
], ids=["long", "many"])
def test_headers_past_the_limit(client, more):
    got, _ = client.answer(client.open(GENERATE, TYPE, *more, end=True))
    assert got["grpc-status"] == "8" and "headers" in got["grpc-message"]
    got, _ = client.answer(client.open("/health", *more, end=True, method="GET"))
    assert got[":status"] == "413"
    assert client.grpc(CHECK, message(b""))["grpc-status"] == "0"


def test_other_types_are_rest(client):
    for kind in ("application/grpc-web", "application/grpcx", "application/json"):
        got, body = client.answer(client.open(GENERATE, ("content-type", kind), end=True))
        assert got[":status"] == "404" and b"no such path" in body


# --- silence --------------------------------------------------------------------------------------


def test_half_a_message_and_silence(client):
    """Refused after LIMIT_IDLE_SECONDS; the connection is as good as before."""
    stream = client.open(GENERATE, TYPE)
    client.send(frame(DATA, 0, stream, message(b"", length=10)))
    got, _ = client.answer(stream)
    assert got["grpc-status"] == "4" and "did not arrive in time" in got["grpc-message"]
    assert client.grpc(CHECK, message(b""))["grpc-status"] == "0"


def test_a_client_that_never_reads(host):
    """Its answer waits; its request has long ended and its slot is free."""
    body = bytes([0x0a, 1, 97, 0x1a]) + bytes([7, 8, 200, 1, 0x68, 16, 0x70, 1])
    # prompt "a"; sampling: 7 bytes: max_tokens 200, n 16, ignore_eos
    with Client(address(host), window=0) as client:
        stream = client.ask(GENERATE, message(body))
        fields = None
        while fields is None:
            kind, _, number, payload = client.read()
            if kind == HEADERS and number == stream:
                fields = dict(client.decoder.decode(payload))
        assert fields[":status"] == "200"
        deadline = time.monotonic() + 20
        while host.get("/health")[1]["running"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        # a window of 5 bytes, then all
        client.send(frame(WINDOW, stream=stream, payload=struct.pack(">I", 5)))
        got = client.read()
        while got[0] != DATA:
            got = client.read()
        assert len(got[3]) == 5
        client.send(frame(WINDOW, stream=stream, payload=struct.pack(">I", 1 << 20)))
        client.send(frame(WINDOW, payload=struct.pack(">I", 1 << 20)))
        ended, data = client.answer(stream)
        assert ended["grpc-status"] == "0"
        assert len(data) > 16 * 200  # a byte a token at the least


# --- floods ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", [
    frame(PING, payload=b"12345678"),
    frame(SETTINGS),
    frame(PRIORITY, stream=1, payload=b"\0\0\0\0\x10"),
], ids=["ping", "settings", "priority"])
def test_floods(client, one):
    try:
        for _ in range(100):
            client.send(one * 1000)
    except OSError:
        pass  # it was closed meanwhile
    assert client.end() in (CALM, INTERNAL_ERROR, None)


def test_a_flood_of_empty_data(client):
    stream = client.open(GENERATE, TYPE)
    try:
        for _ in range(20):
            client.send(frame(DATA, 0, stream) * 1000)
    except OSError:
        pass
    assert client.end() in (CALM, None)


def test_rapid_reset(client):
    """CVE-2023-44487: streams opened and reset as fast as frames go."""
    try:
        for _ in range(100):
            parts = []
            for _ in range(100):
                stream, client.next_stream = client.next_stream, client.next_stream + 2
                parts.append(frame(HEADERS, END_HEADERS, stream, client.fields(GENERATE, TYPE)))
                parts.append(frame(RST, stream=stream, payload=b"\0\0\0\x08"))
            client.send(b"".join(parts))
    except OSError:
        pass
    assert client.end() in (CALM, INTERNAL_ERROR, None)


def test_a_flood_of_continuations(client):
    """CVE-2024-28182: one header block without end."""
    client.send(frame(HEADERS, 0, 1, client.fields(GENERATE, TYPE)))
    try:
        for _ in range(200):
            client.send(frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b" * 100) * 10)
    except OSError:
        pass
    code = client.end()
    assert code is None or code != 0


def test_more_streams_than_allowed(client):
    """Those beyond are refused, the others stay."""
    for _ in range(1100):
        client.open(GENERATE, TYPE)
    refused = 0
    client.sock.settimeout(1)
    try:
        while (got := client.read()) is not None:
            refused += got[0] == RST and got[3] == b"\0\0\0\x07"
            if got[0] == GOAWAY:
                break
    except TimeoutError:
        pass
    assert refused == 1100 - 1024


# --- what is allowed ------------------------------------------------------------------------------


def test_a_body_in_small_pieces(client):
    stream = client.open(CHECK, TYPE)
    for byte in message(b""):
        client.send(frame(DATA, 0, stream, bytes([byte])))
    client.send(frame(DATA, END_STREAM, stream))
    assert client.answer(stream)[0]["grpc-status"] == "0"


def test_trailers_of_a_request(client):
    stream = client.open(CHECK, TYPE)
    client.send(frame(DATA, 0, stream, message(b"")))
    client.send(frame(HEADERS, END_HEADERS | END_STREAM, stream,
                      client.encoder.encode([("grpc-timeout", "nonsense")])))
    assert client.answer(stream)[0]["grpc-status"] == "0"


def test_pings_are_answered(client):
    client.send(frame(PING, payload=b"12345678"))
    got = client.read()
    while got[0] != PING:
        got = client.read()
    assert got[1] & ACK and got[3] == b"12345678"
