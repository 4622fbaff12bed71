"""What of answers waits elsewhere than in a connection is held of a budget, too."""

import json
import re
import time

from h2wire import HEADERS, Client
from wire import error_of, request

TEXT = "/v1/completions"


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
