"""What of answers waits elsewhere than in a connection is held of a budget, too."""

import json
import re
import time

from h2wire import HEADERS, Client
from test_signals import make_certificate
from wire import error_of, request

TEXT = "/v1/completions"
MOST_OF_ONE = (1 << 20) * 3 // 8  # --max-unsent-memory 1M: half of what is not for the page


def ask(server, **body: object) -> tuple[int, dict, bytes]:
    return request(server, "POST", TEXT, json.dumps(body).encode())


def metric(server, name: str) -> float:
    page = request(server, "GET", "/metrics")[2].decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", page, re.M))


def wait_until(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_finished_choices_have_a_budget(servers, tiny):
    """One choice after the other becomes JSON and waits for the last: when they do not fit, the
    answer ends there, and what still runs of it is cancelled."""
    server = servers(tiny, "--max-unsent-memory", "1M", "--max-active-requests", 1)
    prompts = {"prompt": "a", "max_tokens": 200, "logprobs": 5, "ignore_eos": True}
    assert ask(server, **prompts, n=2)[0] == 200
    status, _, body = ask(server, **prompts, n=48)
    assert status == 503 and error_of(body)["code"] == "unsent_memory"
    assert "--max-unsent-memory" in error_of(body)["message"]
    done = server.logged("status=503")
    assert int(re.search(r"completion_tokens=(\d+)", done)[1]) < 48 * 200 // 2
    wait_until(lambda: server.get("/health")[1]["running"] == 0)
    assert metric(server, "firstlight_unsent_memory_bytes") <= 65536  # this page itself
    assert ask(server, **prompts, n=2)[0] == 200


def resident(server) -> int:
    status = open(f"/proc/{server.process.pid}/status", encoding="ascii").read()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10


def test_refused_calls_keep_no_question(servers, tiny):
    """The client does not take the error; the ids that it sent, 60 KiB as tokens, are gone."""
    server = servers(tiny, "--max-requests", 16, "--max-request-memory", "64M", "--grpc-port", 0)
    address = server.logged("gRPC and HTTP/2 on ").split("//")[1]
    n_ctx = int(re.search(r"n_ctx=(\d+)", server.logged("server.ready"))[1])
    n = 60 * 255 // (n_ctx - 1)
    body = json.dumps({"prompt": [[5] * (n_ctx - 1)] * n, "max_tokens": 1}).encode()
    with Client(address, window=0) as client:
        grown = []
        for wrong in (b'{"model":"none",', b"{"):  # refused before, and after the ids are made
            before, refused = resident(server), metric(server, "firstlight_requests_refused_total")
            for _ in range(400):
                client.post(TEXT, "application/json", wrong + body[1:])
            wait_until(lambda: metric(server, "firstlight_requests_refused_total")
                       >= refused + 400)
            grown.append(resident(server) - before)
        assert grown[1] < 400 * (40 << 10)


def test_ids_that_spell_too_much(servers, tiny):
    """Two bytes of a body are a token of 12: what echo spells is bounded before it is made."""
    server = servers(tiny)
    status, _, body = ask(server, prompt=[0] * 800_000, echo=True)
    assert status == 413 and "more than 8388608 bytes" in error_of(body)["message"]
    status, _, body = ask(server, prompt=[0] * 800_000)
    assert status == 400 and error_of(body)["code"] == "context_length_exceeded"
    answer = json.loads(ask(server, prompt=[0] * 100, echo=True, max_tokens=1)[2])
    assert len(answer["choices"][0]["text"]) >= 1200


def test_the_start_of_a_live_stream_needs_room(servers, tiny):
    """Readers who do not read, each with a start of several KiB."""
    server = servers(tiny, "--max-unsent-memory", "1M", "--grpc-port", 0)
    for _ in range(64):
        assert ask(server, prompt="a", max_tokens=1)[0] == 200
    address = server.logged("gRPC and HTTP/2 on ").split("//")[1]
    with Client(address, window=0) as client:
        for _ in range(100):
            stream = client.open("/v1/debug/stream", end=True, method="GET")
        status = ""
        while not status:
            kind, _, number, payload = client.read()
            if kind == HEADERS:
                fields = dict(client.decoder.decode(payload))
                status = fields[":status"] if number == stream else ""
        assert status == "503"
        # one address has half of its part; then the errors, each with less than 1 KiB
        assert metric(server, "firstlight_unsent_memory_bytes") <= (512 + 100) * 1024
    wait_until(lambda: metric(server, "firstlight_unsent_memory_bytes") <= 65536)


def trace_of(server, path) -> list[dict]:
    assert server.stop() == 0
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_long_lines_of_a_trace_need_room(servers, model, tmp_path):
    """What --record knows of a prompt stays until its client has taken the answer. Beside answers
    that nobody takes a long line is dropped, and the trace says so."""
    wrong = b'{"prompt":"a","model":"' + b"m" * 200 + b'"}'
    for unread, dropped in ((0, 0), (700, 1)):
        path = tmp_path / f"trace-{unread}"
        server = servers(model, "--record", path, "--max-unsent-memory", "1M", "--grpc-port", 0,
                         "--max-request-memory", "256M")
        address = server.logged("gRPC and HTTP/2 on ").split("//")[1]
        clients = [Client(address, window=0) for _ in range(3)]
        for client in clients:
            for _ in range(unread):
                client.post(TEXT, "application/json", wrong)
        least = MOST_OF_ONE if unread else 0
        wait_until(lambda: metric(server, "firstlight_unsent_memory_bytes") >= least)
        assert ask(server, prompt="a b " * 10_000)[0] == 400  # too long for the context
        for client in clients:
            client.sock.close()
        lines = trace_of(server, path)
        assert sum(line.get("dropped", 0) for line in lines) == dropped


def connections_part(server) -> int:
    return int(re.search(r" connections=(\d+)", server.logged("server.memory_bound"))[1])


def test_the_sum_counts_sessions(servers, tiny, tmp_path):
    """Each connection over HTTP/2 adds its session, and with TLS what OpenSSL takes."""
    make_certificate(tmp_path, "localhost")
    flags = ["--max-connections", 10]
    tls = ["--tls-cert", tmp_path / "localhost.pem", "--tls-key", tmp_path / "localhost.key"]
    one = connections_part(servers(tiny, *flags))
    both = connections_part(servers(tiny, *flags, "--grpc-port", 0))
    secret = connections_part(servers(tiny, *flags, "--grpc-port", 0, *tls))
    assert both == 2 * one + 10 * (128 << 10)
    assert secret == both + 10 * (256 << 10)
