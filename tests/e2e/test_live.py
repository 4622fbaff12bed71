"""GET /v1/debug/stream: what it tells, whom it delays (nobody), what is left when readers go."""

import http.client
import json
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import Server
from grpc_client import address
from h2wire import DATA, HEADERS, WINDOW, Client, frame
from limits_header import limit
from test_server_life import wait_loading
from wire import request, stream

STREAM = "/v1/debug/stream"
COMPLETION = "/v1/completions"
PARTS = ["receive", "tokenize", "submit", "queue", "cache", "prefill", "first_write"]


class Events:
    """Server-sent events out of bytes as they come."""

    def __init__(self) -> None:
        self.text = b""
        self.all: list[tuple[str, dict]] = []

    def feed(self, data: bytes) -> None:
        self.text += data
        *whole, self.text = self.text.split(b"\n\n")
        for event in whole:
            if not event.startswith(b":"):
                first, second = event.decode().split("\n")
                assert first.startswith("event: ") and second.startswith("data: ")
                self.all.append((first[len("event: "):], json.loads(second[len("data: "):])))

    def of(self, name: str) -> list[dict]:
        return [data for kind, data in self.all if kind == name]


class Listener:
    """A reader of the stream over HTTP/1.1."""

    def __init__(self, server, **headers: str) -> None:
        url = urlsplit(server.url)
        self.sock = socket.create_connection((url.hostname, url.port), timeout=30)
        lines = [f"GET {STREAM} HTTP/1.1", "Host: localhost",
                 *(f"{k}: {v}" for k, v in headers.items())]
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        self.response = http.client.HTTPResponse(self.sock)
        self.response.begin()
        self.events = Events()
        self.ended = False

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.response.close()
        self.sock.close()

    def read(self) -> None:
        data = self.response.read1(65536)
        self.ended = not data
        self.events.feed(data)

    def until(self, done, name: str) -> dict:
        """The first event of that name for which `done` holds."""
        seen, deadline = 0, time.monotonic() + 150
        while True:
            for event in self.events.of(name)[seen:]:
                seen += 1
                if done(event):
                    return event
            assert not self.ended and time.monotonic() < deadline, self.events.all
            self.read()


def entries(server) -> list[dict]:
    return json.loads(request(server, "GET", "/v1/debug/requests")[2])["data"]


def ask(server, name: str, **body: object) -> int:
    body = {"prompt": "some words", "max_tokens": 3, "ignore_eos": True} | body
    return request(server, "POST", COMPLETION, json.dumps(body).encode(), X_Request_Id=name)[0]


def health(server) -> dict:
    return server.get("/health")[1]


# --- what it tells --------------------------------------------------------------------------------

def test_the_start(servers, tiny):
    server = servers(tiny, "--policy", "fifo", "--max-decode-gap-ms", 40, "--max-requests", 77,
                     "--served-model-name", 'a "name"')
    start = time.time() * 1000
    most = limit("LIMIT_LIVE_REQUESTS")
    names = [f"old-{i}" for i in range(most + 6)]
    assert all(ask(server, name) == 200 for name in names)
    with Listener(server) as listener:
        assert listener.response.getheader("Content-Type").startswith("text/event-stream")
        assert listener.response.getheader("Cache-Control") == "no-cache"
        listener.until(bool, "stats")
        events = listener.events
        assert [name for name, _ in events.all] == ["server", *["request"] * most, "stats"]
        assert [entry["request_id"] for entry in events.of("request")] == names[-most:]
        assert events.of("request") == entries(server)[:most][::-1]
        told = events.of("server")[0]
        assert told["model"] == 'a "name"' and told["state"] == "ok" and told["engine"] == "cpu"
        assert told["policy"] == "fifo" and told["profile"] == "online" and told["slots"] == 77
        assert told["max_decode_gap_ms"] == 40 and told["prefix_cache"] is True
        assert told["kv_blocks"] == health(server)["kv_blocks_total"]
        assert told["sampling"] == {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05,
                                    "repetition_penalty": 1, "presence_penalty": 0,
                                    "frequency_penalty": 0, "max_tokens": 512}
        assert abs(told["now_ms"] / 1000 - time.time()) < 60
        for entry in events.of("request"):
            assert 0 <= entry["received_unix_ms"] - start < told["now_ms"] - start + 1


def test_sums_under_load(servers, tiny):
    """Every request once, as the ring has it; totals and percentiles count the same ones."""
    server = servers(tiny)
    with Listener(server) as listener:
        first = listener.until(bool, "stats")
        assert first["ttft"]["count"] == first["finished"]["length"] == first["step"]["count"] == 0
        threads = [threading.Thread(target=lambda k=k: [ask(server, f"r-{k}-{i}", n=1 + i % 2)
                                                        for i in range(10)]) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ask(server, "refused", model="another") == 404
        assert ask(server, "late", timeout=1e-6) == 408
        asked = {f"r-{k}-{i}" for k in range(4) for i in range(10)} | {"refused", "late"}
        listener.until(lambda _: {e["request_id"] for e in listener.events.of("request")} == asked,
                       "request")
        told = {entry["request_id"]: entry for entry in listener.events.of("request")}
        assert len(listener.events.of("request")) == len(asked)
        assert told == {entry["request_id"]: entry for entry in entries(server)}
        assert told["refused"]["finish"] == "refused" and told["late"]["finish"] == "timeout"
        stats = listener.until(lambda s: s["finished"]["length"] == 60,
                               "stats")
    with Listener(server) as again:  # who comes later finds the last minute
        found = again.until(bool, "stats")
        assert found["ttft"] == stats["ttft"] and found["window_s"] == 60
        assert found["parts"] == stats["parts"]
    assert stats["refused"] == {"429": 0, "503": 0, "other": 1}
    assert stats["finished"] == {"stop": 0, "length": 60, "abort": 0, "timeout": 1, "error": 0}
    ttft, parts = stats["ttft"], stats["parts"]
    assert ttft["count"] == 40 and 0 < ttft["p50_ms"] <= ttft["p95_ms"] <= ttft["p99_ms"]
    assert list(parts) == PARTS and {part["count"] for part in parts.values()} == {40}
    assert abs(sum(part["mean_ms"] for part in parts.values()) - ttft["mean_ms"]) < 0.01
    assert stats["itl"]["count"] >= 120 and stats["itl"]["max_ms"] >= stats["itl"]["p99_ms"]
    assert stats["step"]["count"] > 0 and 0 < stats["window_s"] <= 60
    assert stats["gap"]["promised_ms"] == 100
    assert 0 < stats["gap"]["p95_ms"] <= stats["gap"]["p99_ms"] == stats["itl"]["p99_ms"]
    assert stats["rates"]["generated"] > 0 and stats["rates"]["requests"] > 0
    assert stats["kv"]["total"] == stats["kv"]["free"] and stats["running"] == 0


def test_who_waits(servers, model):
    """One place, which the first has: the others wait, and are told of until nobody does."""
    server = servers(model, "--max-active-requests", 1, "--max-requests-per-client", 3)
    body = {"prompt": "first", "max_tokens": 1500, "ignore_eos": True}
    with Listener(server) as listener:
        frames = stream(server, COMPLETION, body)
        assert next(frames).startswith(":") and next(frames).startswith("data:")
        others = [threading.Thread(target=ask, args=(server, name)) for name in ("second", "third")]
        for n, thread in enumerate(others, 1):
            thread.start()
            while health(server)["waiting"] < n:
                time.sleep(0.01)
        assert ask(server, "fourth") == 429
        refused = listener.until(lambda e: e["request_id"] == "fourth", "request")
        assert refused["status"] == 429 and refused["finish"] == "refused"
        waiting = listener.until(lambda w: len(w["requests"]) == 2, "waiting")
        assert [(r["request_id"], r["ahead"]) for r in waiting["requests"]] == [("second", 0),
                                                                               ("third", 1)]
        assert all(r["waited_ms"] > 0 and r["prompt_tokens"] > 0 for r in waiting["requests"])
        frames.close()
        for thread in others:
            thread.join()
        listener.until(lambda w: w == {"requests": [], "count": 0}, "waiting")
        stats = listener.until(lambda s: s["finished"]["length"] == 2, "stats")
        assert stats["refused"]["429"] == 1
        done = {entry["request_id"]: entry for entry in listener.events.of("request")}
        assert done["third"]["waited"]["words"].startswith("waited ")
        assert [entry["gone"] for entry in done.values()].count(True) == 1


def test_while_loading(binary, tiny, tmp_path):
    """It says so, and once more when it is ready: hundreds of prompts are warmed meanwhile."""
    warm = tmp_path / "warm"
    prompts = [[3 + (i + j * j) % 90 for j in range(250)] for i in range(150)]
    warm.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [binary, "serve", "--model", tiny, "--port", str(port), "--warm-prompts", warm,
               "--cpu-mask", "c", "--activations", "f32"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_loading(url)
            with Listener(Server(process, url, [])) as listener:
                assert listener.until(bool, "server")["state"] == "loading"
                assert listener.until(bool, "stats")["kv"]["total"] == 0
                told = listener.until(lambda s: s["state"] == "ok", "server")
                assert told["model"] == "base" and told["n_ctx"] == 256
        finally:
            process.kill()


def test_the_key(servers, tiny, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    keys.chmod(0o600)
    server = servers(tiny, "--api-key-file", keys)
    assert request(server, "GET", STREAM)[0] == 401
    assert request(server, "HEAD", STREAM, Authorization="Bearer secret")[0] == 200
    assert request(server, "POST", STREAM, b"")[0] == 405
    with Listener(server, Authorization="Bearer secret") as listener:
        assert listener.until(bool, "server")["state"] == "ok"


# --- readers --------------------------------------------------------------------------------------

def until(client: Client, number: int, events: Events, done) -> None:
    """Reads the stream's events over HTTP/2."""
    deadline = time.monotonic() + 60
    while not done():
        kind, _, stream_number, payload = client.read()
        assert time.monotonic() < deadline
        if kind == DATA and stream_number == number:
            events.feed(payload)


def test_a_client_that_does_not_read(servers, tiny):
    """HTTP/2, whose window is exact: 65535 bytes are sent, as many as LIMIT_LIVE_BUFFER wait, whole
    events are dropped. Nobody is delayed, and what comes later says how many there were."""
    server = servers(tiny, "--grpc-port", 0)
    events, n = Events(), 600
    with Client(address(server)) as client:
        number = client.open(STREAM, end=True, method="GET")
        while (got := client.read())[0] != HEADERS:
            pass
        assert all(ask(server, f"r-{i}") == 200 for i in range(n))
        more = (1 << 24).to_bytes(4)
        client.send(frame(WINDOW, 0, 0, more) + frame(WINDOW, 0, number, more))
        until(client, number, events, lambda: events.of("missed"))
        assert ask(server, "late") == 200
        until(client, number, events, lambda: events.of("request")[-1]["request_id"] == "late")
    told = [r["request_id"] for r in events.of("request")]
    kept = len(told) - 1
    missed = sum(m["events"] for m in events.of("missed"))
    assert told[:kept] == [f"r-{i}" for i in range(kept)]
    assert 100 < kept < 400  # 192 KiB of them
    assert missed >= n - kept  # and some of stats
    assert events.text == b""


def test_connections_of_all_ports(servers, tiny):
    """Stream, health and metrics count the same ones: two of HTTP/2 beside the reader's own."""
    server = servers(tiny, "--grpc-port", 0)
    with Listener(server) as listener, Client(address(server)), Client(address(server)):
        assert listener.until(lambda s: s["connections"] == 3, "stats")
        assert health(server)["connections"] == 4  # it has one of its own
        metrics = request(server, "GET", "/metrics")[2].decode()
        assert re.search(r'^firstlight_connections\{[^}]*\} 4$', metrics, re.M)


def test_refused_ones_of_all_ports(servers, tiny):
    """Both ports refuse a request that is not of their protocol: one figure counts them."""
    server = servers(tiny, "--grpc-port", 0)
    for port in (urlsplit(server.url).port, int(address(server).split(":")[1])):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")  # no Host
            assert sock.recv(4096).startswith(b"HTTP/1.1 400 ")
    metrics = request(server, "GET", "/metrics")[2].decode()
    name = "firstlight_connections_refused_total"
    assert re.search(name + r'\{[^}]*status="400"\} 2$', metrics, re.M)


def flood(server, name: str, n: int) -> None:
    """n requests on one connection, their names as long as is echoed."""
    url = urlsplit(server.url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    for i in range(n):
        connection.request("POST", COMPLETION, b'{"prompt":[3],"max_tokens":1}',
                           {"X-Request-Id": f"{name}-{i}-".ljust(128, "x")})
        assert connection.getresponse().read()
    connection.close()


def test_a_browser_that_does_not_read(servers, tiny):
    """HTTP/1.1, where the kernel takes some megabytes as well; the server keeps none of it."""
    server, each = servers(tiny), 1000
    with Listener(server) as listener:
        names = "abcd"
        clients = [threading.Thread(target=flood, args=(server, name, each)) for name in names]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        listener.until(bool, "missed")
        listener.until(lambda _: listener.events.all[-1][0] == "stats", "stats")
    told = [entry["request_id"].split("-") for entry in listener.events.of("request")]
    for name in names:
        order = [int(i) for client, i, _ in told if client == name]
        assert order == sorted(set(order))
    missed = sum(m["events"] for m in listener.events.of("missed"))
    assert missed > 0 and len(told) + missed >= len(names) * each


def test_a_hundred_readers(servers, tiny):
    server = servers(tiny, "--grpc-port", 0)
    readers = [Listener(server) for _ in range(99)]
    events = Events()
    with Client(address(server), window=1 << 20) as client:
        number = client.open(STREAM, end=True, method="GET")
        until(client, number, events, lambda: events.of("stats"))
        assert ask(server, "to-all") == 200
        for reader in readers:
            reader.until(lambda e: e["request_id"] == "to-all", "request")
        until(client, number, events, lambda: events.of("request"))
        assert events.of("request")[0]["request_id"] == "to-all"
    for reader in readers:
        reader.close()
    while health(server)["connections"] > 1 or len(ends(server)) < 100:
        time.sleep(0.01)


def ends(server) -> list[str]:
    return [line for line in server.lines if " live.end " in line]


@pytest.mark.parametrize("reads", [True, False])
def test_draining_ends_it(servers, tiny, reads):
    server = servers(tiny, "--grpc-port", 0)
    if reads:
        with Listener(server) as listener:
            listener.until(bool, "stats")
            server.process.send_signal(signal.SIGTERM)
            assert listener.until(lambda s: s["state"] != "ok", "server")["state"] == "draining"
            while not listener.ended:  # which checks that the last chunk came
                listener.read()
            assert server.process.wait(20) == 0
    else:
        with Client(address(server), window=100) as client:
            client.open(STREAM, end=True, method="GET")
            while client.read()[0] != DATA:
                pass
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(20) == 0


# --- what it costs --------------------------------------------------------------------------------

def wakes(server) -> dict[str, tuple[str, int, int]]:
    """Of each thread its name, how often it slept, and the processor time it took."""
    found = {}
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        status, stat = (task / "status").read_text(), (task / "stat").read_text()
        name = re.search(r"Name:\t(.*)", status)[1]
        sleeps = int(re.search(r"\nvoluntary_ctxt_switches:\t(\d+)", status)[1])
        ticks = sum(map(int, stat.rsplit(")", 1)[1].split()[11:13]))
        found[task.name] = (name, sleeps, ticks)
    return found


def still(server, but: str = "") -> dict:
    """Waits until no thread (but one) has woken for a while: what came before is over."""
    before = wakes(server)
    while True:
        time.sleep(0.2)
        after = wakes(server)
        if all(after[task] == before[task] for task in after if task != but):
            return after
        before = after


def steps(server) -> str:
    page = request(server, "GET", "/metrics")[2].decode()
    return re.search(r"^firstlight_steps_total\S* (\d+)$", page, re.M)[1]


def test_an_open_stream_wakes_nobody_else(servers, tiny):
    """A thread that was never woken has slept as often as before, however loaded the machine is."""
    server = servers(tiny)
    io = str(server.process.pid)
    if "libtsan" in Path(f"/proc/{io}/maps").read_text():
        pytest.skip("a thread of the sanitizer's own wakes all the time")
    assert ask(server, "warm") == 200
    with Listener(server) as listener:
        listener.until(bool, "stats")
        n_steps, before = steps(server), still(server, but=io)
        n = len(listener.events.of("stats"))
        listener.until(lambda _: len(listener.events.of("stats")) > n, "stats")
        after = wakes(server)
        assert steps(server) == n_steps
        assert {t: v for t, v in after.items() if t != io} == {
            t: v for t, v in before.items() if t != io}
        assert len(after) >= 2 and any(name == "engine" for name, _, _ in after.values())
        assert after[io][1] >= before[io][1] + 1  # the counters do count
    while not ends(server):
        time.sleep(0.01)
    before = still(server)
    time.sleep(1.3)  # a tick, if there were any
    assert wakes(server) == before
