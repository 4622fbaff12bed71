"""What requests may hold before they are answered: nothing without a key, and a budget for all."""

import gzip
import http.client
import re
import select
import socket
import time
from urllib.parse import urlsplit

import pytest
from h2wire import ACK, DATA, HEADERS, RST, SETTINGS, Client, frame, message
from limits_header import limit
from wire import connect, error_of, post_bytes, raw, read_response, request

TEXT = "/v1/completions"
GENERATE = "/firstlight.v1.Inference/Generate"
BODY = 8 << 20
REFUSED_STREAM = 7
MIB = 1 << 20
WRONG = ["", "Authorization: Bearer sk-wrong\r\n", "Authorization: Bearer " + "x" * 5000 + "\r\n",
         "Authorization: Bearer" + " " * 600 + "sk-one\r\n",
         "Authorization: Basic x\r\nAuthorization: Bearer sk-one\r\n"]
RIGHT = "Authorization: Bearer sk-one\r\n"


def grpc_address(server) -> str:
    return server.logged("gRPC and HTTP/2 on ").split("//")[1]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text("sk-one\nsk-two\n")
    return path


@pytest.fixture(scope="module")
def locked(servers, tiny, keys):
    return servers(tiny, "--api-key-file", keys, "--grpc-port", 0)


def metric(server, name: str, labels: str = "") -> float:
    """Asked from another address than all else here: each has a share of its own."""
    url = urlsplit(server.url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60,
                                            source_address=("127.0.0.2", 0))
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    page = response.read().decode()
    connection.close()
    assert response.status == 200, page
    found = re.search(rf"^{name}{{[^}}]*{re.escape(labels)}[^}}]*}} (\S+)$", page, re.M)
    return float(found[1]) if found else 0


def peak_bytes(server) -> int:
    status = open(f"/proc/{server.process.pid}/status", encoding="ascii").read()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def head(fields: str = "", size: int = BODY, path: str = TEXT, method: str = "POST") -> bytes:
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}"
            f"Content-Length: {size}\r\n\r\n").encode()


def padded(size: int) -> bytes:
    start = b'{"prompt":"a","max_tokens":1,"metadata":"'
    return start + b"x" * (size - len(start) - 2) + b'"}'


# --- the key, at the end of the head ------------------------------------------------------------

@pytest.mark.parametrize("fields", WRONG)
@pytest.mark.parametrize("more", ["", "Expect: 100-continue\r\n"])
def test_a_wrong_key_is_told_before_the_body(locked, fields, more):
    before = metric(locked, "firstlight_requests_refused_total", 'reason="invalid_api_key"')
    with connect(locked, timeout=4) as sock:
        sock.sendall(head(fields + more))
        status, headers, body = read_response(sock)
    assert status == 401 and error_of(body)["code"] == "invalid_api_key"
    assert headers["www-authenticate"] == "Bearer" and headers["connection"] == "close"
    after = metric(locked, "firstlight_requests_refused_total", 'reason="invalid_api_key"')
    assert after == before + 1


def test_a_wrong_key_is_told_before_a_chunk(locked):
    with connect(locked, timeout=4) as sock:
        sock.sendall(f"POST {TEXT} HTTP/1.1\r\nHost: localhost\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n".encode())
        assert read_response(sock)[0] == 401


def test_a_wrong_key_is_told_for_an_absolute_target(locked):
    with connect(locked, timeout=4) as sock:
        sock.sendall(head(path="http://somewhere.example" + TEXT + "?a=b"))
        assert read_response(sock)[0] == 401


def pour(socks: list[socket.socket], seconds: float) -> int:
    """Sends on all of them for so long, but on those that were closed; the bytes that went."""
    end, sent, piece = time.monotonic() + seconds, 0, b"x" * (256 << 10)
    while socks and time.monotonic() < end:
        for sock in select.select([], socks, [], seconds)[1]:
            try:
                sent += sock.send(piece)
            except BlockingIOError:
                pass
            except ConnectionError:
                socks.remove(sock)
                sock.close()
    return sent


def test_what_refused_clients_send_on_is_not_all_read(locked):
    """One that sends its whole body still reads its answer; many that pour are read slowly, and
    closed when they have had time to read theirs. The server says how many it still has: a client
    whose window was zero for long hears of the end only when its kernel tries again."""
    with connect(locked) as sock:
        sock.sendall(head(size=2 * MIB) + b"x" * 2 * MIB)
        assert read_response(sock)[0] == 401
    begin, sent = time.monotonic(), 0
    socks = [connect(locked) for _ in range(8)]
    for sock in socks:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        sock.sendall(head())
        sock.setblocking(False)
    left = len(socks)
    while left > 0 and time.monotonic() - begin < 60:
        sent += pour(socks, 0.5)
        left = metric(locked, "firstlight_connections") - 1  # but the one that asks
    past = time.monotonic() - begin
    for sock in socks:
        sock.close()
    read = (past + 1) * limit("LIMIT_DISCARD_PER_SECOND")
    assert left <= 0 and sent < read + 8 * 7 * MIB  # and what the kernel takes
    assert locked.get("/health")[0] == 200


def test_what_a_head_alone_decides(locked):
    """No such path, no such method, a body for a path that takes none: no byte of it is awaited."""
    for line, expected in ((("/nothing", "POST"), 404), (("/v1/models", "POST"), 405),
                           (("/health", "GET"), 413), (("/health", "OPTIONS"), 413)):
        with connect(locked, timeout=4) as sock:
            sock.sendall(head(RIGHT, BODY, *line))
            status, headers, _ = read_response(sock)
            assert status == expected, line
            assert ("allow" in headers) == (status == 405)


def test_a_right_key_is_asked_for_the_body(locked):
    with connect(locked) as sock:
        sock.sendall(head("Expect: 100-continue\r\n" + RIGHT, 60_000))
        assert sock.recv(100).startswith(b"HTTP/1.1 100")
        sock.sendall(padded(60_000))
        assert read_response(sock)[0] == 200


def test_a_wrong_key_is_told_before_the_body_over_http2(locked):
    with Client(grpc_address(locked), timeout=4) as client:
        for fields, status in (((), "401"), ((("authorization", "Bearer sk-wrong"),), "401")):
            stream = client.open(TEXT, ("content-type", "application/json"), *fields)
            answer, body = client.answer(stream)
            assert answer[":status"] == status and answer["www-authenticate"] == "Bearer"
            assert error_of(body)["code"] == "invalid_api_key"
        stream = client.open("/nothing", ("authorization", "Bearer sk-one"))
        assert client.answer(stream)[0][":status"] == "404"
        stream = client.open(GENERATE, ("content-type", "application/grpc"))
        assert client.answer(stream)[0]["grpc-status"] == "16"


def send_some(peer, data: bytes) -> None:
    """As much as is taken until the server shuts the door."""
    try:
        (peer.send if isinstance(peer, Client) else peer.sendall)(data)
    except ConnectionError:
        pass


def test_bytes_without_a_key_are_not_kept(locked):
    """Forty bodies of 8 MiB without a key at once, as far as they are taken, by both protocols."""
    start, socks, clients = peak_bytes(locked), [], []
    for _ in range(40):
        socks.append(connect(locked))
        socks[-1].sendall(head())
        send_some(socks[-1], b"x" * (7 * MIB))
    for _ in range(3):
        clients.append(Client(grpc_address(locked)))
        for path in (TEXT, GENERATE):
            kind = "application/grpc" if path == GENERATE else "application/json"
            stream = clients[-1].open(path, ("content-type", kind))
            send_some(clients[-1], b"".join(frame(DATA, 0, stream, b"x" * 16384)
                                            for _ in range(400)))
    assert peak_bytes(locked) - start < 16 * MIB
    assert metric(locked, "firstlight_request_memory_bytes") < MIB  # the streams themselves
    for sock in socks + [client.sock for client in clients]:
        sock.close()
    assert locked.get("/health")[0] == 200


# --- the budget -----------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def tight(servers, tiny, keys):
    return servers(tiny, "--api-key-file", keys, "--grpc-port", 0, "--max-request-memory", "32M")


def held(server) -> float:
    return metric(server, "firstlight_request_memory_bytes")


def streams_held(server) -> float:
    return metric(server, "firstlight_stream_memory_bytes")


def wait_until(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def fill(server, key: str, n: int, size: int = 7 * MIB) -> list:
    """n bodies of 8 MiB of which so much came."""
    socks = [connect(server) for _ in range(n)]
    for sock in socks:
        sock.sendall(head(f"Authorization: Bearer {key}\r\n"))
        send_some(sock, padded(BODY)[:size])
    return socks


def close(socks: list) -> None:
    for sock in socks:
        sock.close()


def test_bodies_stay_within_the_budget(tight):
    """One client fills its half and no more, another is served meanwhile, then it is given back."""
    start = peak_bytes(tight)
    socks = fill(tight, "sk-one", 12)
    wait_until(lambda: held(tight) > 8 * MIB)
    assert held(tight) <= 16 * MIB
    status, headers, body = read_response(socks[-1])
    assert status == 503 and error_of(body)["code"] == "request_memory" and headers["retry-after"]
    assert raw(tight, post_bytes(TEXT, padded(4 * MIB), "Authorization: Bearer sk-two"))[0] == 200
    assert metric(tight, "firstlight_requests_refused_total", 'reason="request_memory"') > 0
    close(socks)
    wait_until(lambda: held(tight) == 0)
    assert raw(tight, post_bytes(TEXT, padded(BODY), RIGHT.strip()))[0] == 200
    # what is held, the body that was parsed, its copies while it was, and the answer
    assert peak_bytes(tight) - start < 16 * MIB + 4 * BODY + 16 * MIB


def test_chunks_stay_within_the_budget(tight):
    socks = [connect(tight) for _ in range(8)]
    for sock in socks:
        sock.sendall(f"POST {TEXT} HTTP/1.1\r\nHost: localhost\r\n{RIGHT}"
                     "Transfer-Encoding: chunked\r\n\r\n".encode())
        send_some(sock, (b"10000\r\n" + b" " * 65536 + b"\r\n") * 64)
    wait_until(lambda: held(tight) > 8 * MIB)
    assert held(tight) <= 16 * MIB
    assert read_response(socks[-1])[0] == 503
    close(socks)
    wait_until(lambda: held(tight) == 0)


@pytest.mark.parametrize("path, kind", [(TEXT, "application/json"), (GENERATE, "application/grpc")])
def test_streams_stay_within_the_budget(tight, path, kind):
    key = ("authorization", "Bearer sk-one")
    before = metric(tight, "firstlight_requests_refused_total", 'reason="request_memory"')
    with Client(grpc_address(tight)) as client:
        client.send(frame(SETTINGS, ACK))  # the server's windows count from here on
        streams = [client.open(path, ("content-type", kind), key) for _ in range(8)]
        for stream in streams:
            start = message(b"", length=BODY - 100) if path == GENERATE else b""
            payload = start + b" " * (3 * MIB - len(start))
            for at in range(0, len(payload), 16384):
                client.send(frame(DATA, 0, stream, payload[at:at + 16384]))
        answer, body = client.answer(streams[-1])
        if path == GENERATE:
            assert answer["grpc-status"] == "14" and answer["error-code"] == "request_memory"
        else:
            assert answer[":status"] == "503" and error_of(body)["code"] == "request_memory"
        assert 8 * MIB < held(tight) <= 16 * MIB
        large = post_bytes(TEXT, padded(4 * MIB), "Authorization: Bearer sk-two")
        assert raw(tight, large)[0] == 200
    wait_until(lambda: held(tight) == 0)
    after = metric(tight, "firstlight_requests_refused_total", 'reason="request_memory"')
    assert after > before


def test_a_packed_message_is_held_with_what_it_becomes(tight):
    packed = message(gzip.compress(b"\0" * (BODY - 1000)), flag=1)
    fields = (("grpc-encoding", "gzip"), ("authorization", "Bearer sk-one"))
    socks = fill(tight, "sk-one", 1, 15 * MIB // 2)
    wait_until(lambda: held(tight) >= 7 * MIB)
    with Client(grpc_address(tight)) as client:
        socks += fill(tight, "sk-one", 1, 4 * MIB)
        wait_until(lambda: held(tight) >= 11 * MIB)
        answer = client.grpc(GENERATE, packed, *fields)
        assert answer["grpc-status"] == "14" and answer["error-code"] == "request_memory"
        close(socks)
        wait_until(lambda: held(tight) == 0)
        assert client.grpc(GENERATE, packed, *fields)["grpc-status"] == "13"  # no question
        lie = packed[:-4] + b"\0\0\2\0"
        assert client.grpc(GENERATE, lie, *fields)["grpc-status"] == "13"
    wait_until(lambda: held(tight) == 0)


# --- what a body becomes --------------------------------------------------------------------------

@pytest.mark.parametrize("value", [b"{}", b"[]", b'""', b"1", b'{"a":1}'])
def test_values_are_counted_before_they_are_made(tight, value):
    """8 MiB of small values would be hundreds of megabytes as JSON."""
    start = peak_bytes(tight)
    filler = (value + b",") * ((BODY - 50) // (len(value) + 1))
    body = b'{"prompt":"a","max_tokens":1,"x":[' + filler
    status, _, answer = raw(tight, post_bytes(TEXT, body + b"1]}", RIGHT.strip()))
    assert status == 413 and "at most" in error_of(answer)["message"]
    assert peak_bytes(tight) - start < 4 * BODY


def test_streams_have_a_budget(tight):
    """Each takes room from its head on, also if nothing follows: half of 32 MiB is less than what
    two connections may open. Those beyond are refused so that a client may ask again."""
    clients = [Client(grpc_address(tight), timeout=20) for _ in range(2)]
    for client in clients:
        for _ in range(1000):
            client.open(GENERATE, ("content-type", "application/grpc"),
                        ("authorization", "Bearer sk-one"))
    while (frame_read := clients[1].read())[0] != RST:
        pass
    assert int.from_bytes(frame_read[3]) == REFUSED_STREAM
    wait_until(lambda: metric(tight, "firstlight_connections") >= 2)
    # the first stream of a connection is always taken
    assert 8 * MIB < streams_held(tight) <= 16 * MIB + 65536 and held(tight) < MIB
    assert request(tight, "GET", "/health")[0] == 200
    with Client(grpc_address(tight)) as client:
        assert client.answer(client.open("/ready", end=True, method="GET"))[0][":status"] == "200"
    for client in clients:
        client.sock.close()
    wait_until(lambda: streams_held(tight) == 0)
    with Client(grpc_address(tight)) as client:
        assert client.grpc("/grpc.health.v1.Health/Check", message(b""))["grpc-status"] == "0"


def test_a_budget_that_holds_no_body_is_refused(run, tiny):
    result = run("serve", "--model", tiny, "--port", 0, "--max-request-memory", "8M")
    assert result.returncode == 1 and "--max-request-memory" in result.stderr


# --- answers that nobody takes --------------------------------------------------------------------

def test_unsent_answers_have_a_budget(servers, tiny):
    """Clients that ask for the page's largest part and read nothing: the sum stays below one
    client's half, and who comes then is told."""
    server = servers(tiny, "--max-unsent-memory", "1M")
    ask = b"GET /page/chart.js HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n"
    socks = []
    for _ in range(60):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(20)
        sock.connect(tuple(server.url.removeprefix("http://").split(":")[0:1])
                     + (int(server.url.rsplit(":", 1)[1]),))
        sock.sendall(100 * ask)
        socks.append(sock)
    wait_until(lambda: metric(server, "firstlight_connections") >= 60)
    assert metric(server, "firstlight_unsent_memory_bytes") <= 512 * 1024 + 60 * 4096
    assert metric(server, "firstlight_unsent_memory_most_bytes") == MIB
    wait_until(lambda: metric(server, "firstlight_requests_refused_total",
                              'status="503",reason="unsent_memory"') > 0)
    close(socks)
    wait_until(lambda: metric(server, "firstlight_unsent_memory_bytes") == 0)


SLOW = ("127.0.0.2", "127.0.0.3")


def until_refused(client: Client, path: str) -> None:
    """Asks for this and reads no body, until there is no room for more; 100 times at most."""
    for _ in range(100):
        stream = client.open(path, end=True, method="GET")
        kind, _, number, payload = client.read()
        while kind != HEADERS or number != stream:
            if kind == HEADERS:
                client.decoder.decode(payload)
            kind, _, number, payload = client.read()
        if dict(client.decoder.decode(payload))[":status"] == "503":
            return


def test_slow_readers_cut_nobody(servers, tiny, keys):
    """Two addresses without a key leave unread what they can get. Who has a key and reads is
    served by both protocols, and proxies hear that the server is ready."""
    server = servers(tiny, "--api-key-file", keys, "--grpc-port", 0, "--max-unsent-memory", "1M")
    slow = [Client(grpc_address(server), window=0, source=address) for address in SLOW]
    for client in slow:
        for path in ("/metrics", "/page/inline.js", "/health"):
            until_refused(client, path)
    body = padded(100).replace(b'"max_tokens":1', b'"stream":true,"max_tokens":20')
    status, _, text = raw(server, post_bytes(TEXT, body, RIGHT.strip()))
    assert status == 200 and text.endswith(b"data: [DONE]\n\n"), text
    with Client(grpc_address(server)) as client:
        fields, text = client.answer(client.post(TEXT, "application/json", body,
                                                 ("authorization", "Bearer sk-one")))
        assert fields[":status"] == "200" and text.endswith(b"data: [DONE]\n\n"), text
        # who has a key has room for what needs none
        client.open_windows()
        stream = client.open("/metrics", ("authorization", "Bearer sk-one"), end=True, method="GET")
        fields, page = client.answer(stream)
        found = re.search(rb"firstlight_unsent_memory_bytes{\S+ (\S+)", page)
        assert fields[":status"] == "200" and MIB // 8 < float(found[1]) < MIB // 2
    for address in ("127.0.0.1", *SLOW):
        with Client(grpc_address(server), source=address) as client:
            stream = client.open("/ready", end=True, method="GET")
            assert client.answer(stream)[0][":status"] == "200"
    # also on the connection that does not read
    for client in slow:
        client.headers([client.open("/ready", end=True, method="GET")])
        client.sock.close()
    assert request(server, "GET", "/ready")[0] == 200
    wait_until(lambda: metric(server, "firstlight_unsent_memory_bytes") == 0)


def test_streams_without_a_key_take_no_room_from_bodies(tight):
    """Two addresses hold all the streams they can, each with a 401 that it does not take."""
    clients = []
    for address in SLOW:
        pair = [Client(grpc_address(tight), window=0, source=address) for _ in range(2)]
        clients += pair
        for client in pair:
            for _ in range(1000):
                client.open(TEXT, ("content-type", "application/json"))
        while pair[1].read()[0] != RST:
            pass
    try:
        body = post_bytes(TEXT, padded(4 * MIB), RIGHT.strip())
        assert raw(tight, body)[0] == 200
        with Client(grpc_address(tight)) as client:
            answer = client.answer(client.post(TEXT, "application/json", padded(60_000),
                                               ("authorization", "Bearer sk-one")))
            assert answer[0][":status"] == "200"
            stream = client.open("/ready", end=True, method="GET")
            assert client.answer(stream)[0][":status"] == "200"
    finally:
        for client in clients:
            client.sock.close()
    wait_until(lambda: streams_held(tight) == 0)


def test_messages_without_a_key_take_no_room_from_bodies(tight):
    clients = [Client(grpc_address(tight), source=address) for address in SLOW]
    for client in clients:
        client.send(frame(SETTINGS, ACK))
        for _ in range(6):
            stream = client.open("/grpc.health.v1.Health/Check",
                                 ("content-type", "application/grpc"))
            payload = message(b"", length=BODY - 100) + b" " * (5 * MIB // 2)
            for at in range(0, len(payload), 16384):
                client.send(frame(DATA, 0, stream, payload[at:at + 16384]))
    wait_until(lambda: streams_held(tight) > 24 * MIB)
    assert held(tight) == 0
    body = post_bytes(TEXT, padded(4 * MIB), RIGHT.strip())
    assert raw(tight, body)[0] == 200
    for client in clients:
        client.sock.close()
    wait_until(lambda: streams_held(tight) == 0)


def test_the_least_room_for_answers(run, servers, tiny):
    """Less is refused; the least holds each part of the page, and the metrics."""
    result = run("serve", "--model", tiny, "--port", 0, "--max-unsent-memory", "1023K")
    assert result.returncode == 1 and "--max-unsent-memory: must be at least 1M" in result.stderr
    server = servers(tiny, "--max-unsent-memory", "1M")
    page = request(server, "GET", "/")[2].decode()
    paths = re.findall(r'(?:src|href)="(/page/[^"]+)"', page)
    assert paths
    for path in ("/metrics", *paths):
        assert request(server, "GET", path)[0] == 200, path


def printed_bound(server) -> dict[str, int]:
    line = server.logged("server.memory_bound")
    return {name: int(n) for name, n in re.findall(r"(\w+)=(\d+)", line.split("bound")[1])}


def test_budgets_that_are_not_given(small):
    """Between their bounds, whatever memory the machine has."""
    parts = printed_bound(small)
    for name, least, most in (
            ("request", "LIMIT_REQUEST_MEMORY_LEAST", "LIMIT_REQUEST_MEMORY"),
            ("unsent", "LIMIT_UNSENT_MEMORY_LEAST", "LIMIT_UNSENT_MEMORY")):
        assert limit(least) <= parts[name] <= limit(most)


def test_the_sum_is_printed(tight):
    parts = printed_bound(tight)
    total = parts.pop("total")
    assert parts["request"] == parts["streams"] == 32 * MIB and sum(parts.values()) == total
    assert peak_bytes(tight) < total
