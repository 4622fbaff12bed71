"""/metrics, the ring of recent requests, Server-Timing: the same times everywhere, and sums that
agree with what was asked."""

import json
import re
import socket
import subprocess
import threading

import pytest
from conftest import Server
from test_server_life import wait_loading
from wire import chunks, error_of, raw, request, stream

COMPLETION = "/v1/completions"
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
PARTS = ["receive", "tokenize", "submit", "queue", "cache", "prefill", "first_write"]


class Metrics:
    """A strict reader: every sample belongs to the family before it, none comes twice."""

    def __init__(self, text: str):
        self.types: dict[str, str] = {}
        self.samples: dict[tuple[str, frozenset], float] = {}
        assert text.endswith("\n")
        family, helped = None, None
        for line in text[:-1].split("\n"):
            if line.startswith("# HELP "):
                _, _, helped, about = line.split(" ", 3)
                assert re.fullmatch(NAME, helped) and about
            elif line.startswith("# TYPE "):
                _, _, family, kind = line.split(" ")
                assert family == helped and family not in self.types
                assert kind in SUFFIXES
                assert kind != "counter" or family.endswith("_total")
                self.types[family] = kind
            else:
                self._sample(line, family)

    def _sample(self, line: str, family: str) -> None:
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, labels, value = match.groups()
        assert name in [family + suffix for suffix in SUFFIXES[self.types[family]]], line
        pairs = frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))
        assert (name, pairs) not in self.samples
        self.samples[name, pairs] = float(value)

    def get(self, name: str, **labels: str) -> float:
        found = [value for (other, pairs), value in self.samples.items()
                 if other == name and set(labels.items()) <= pairs]
        assert len(found) == 1, (name, labels, found)
        return found[0]

    def buckets(self, name: str, **labels: str) -> list[tuple[float, float]]:
        found = []
        for (other, pairs), value in self.samples.items():
            if other == name + "_bucket" and set(labels.items()) <= pairs:
                found.append((float(dict(pairs)["le"]), value))
        return found

    def histograms(self) -> list[tuple[str, dict]]:
        """Each series of each histogram: its name and labels."""
        return [(name.removesuffix("_count"), dict(pairs)) for name, pairs in self.samples
                if self.types.get(name.removesuffix("_count")) == "histogram"]


def scrape(server) -> Metrics:
    status, headers, body = request(server, "GET", "/metrics")
    assert status == 200
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Metrics(body.decode())


def recent(server, query: str = "", **headers: str) -> list[dict]:
    status, _, body = request(server, "GET", "/v1/debug/requests" + query, **headers)
    assert status == 200
    answer = json.loads(body)
    assert answer["object"] == "list"
    return answer["data"]


def ask(server, **parameters) -> tuple[dict, dict]:
    """The answer and its headers."""
    body = json.dumps({"max_tokens": 4, "temperature": 0, "ignore_eos": True} | parameters)
    status, headers, answer = request(server, "POST", COMPLETION, body.encode(), Origin=server.url)
    assert status == 200, answer
    return json.loads(answer), headers


@pytest.fixture
def fresh(servers, tiny):
    server = servers(tiny)
    yield server
    assert server.stop() == 0


def test_a_server_that_did_nothing(fresh):
    metrics = scrape(fresh)
    assert metrics.get("firstlight_ready") == 1
    assert metrics.get("firstlight_kv_blocks") == metrics.get("firstlight_kv_blocks_free") > 0
    for (name, pairs), value in metrics.samples.items():
        if metrics.types.get(name) == "counter" and name != "firstlight_engine_busy_seconds_total":
            assert value == 0, name
    for name, labels in metrics.histograms():
        assert metrics.get(name + "_count", **labels) == 0, name


def test_counts_add_up(fresh):
    answers = [ask(fresh, prompt=f"number {i}", max_tokens=3 + i)[0] for i in range(3)]
    last = [chunks(fresh, COMPLETION, {"prompt": f"stream {i}", "max_tokens": 5, "ignore_eos": True,
                                       "stream_options": {"include_usage": True}})[-1]
            for i in range(2)]
    usages = [answer["usage"] for answer in answers + last]
    generated = sum(usage["completion_tokens"] for usage in usages)
    for _ in range(2):
        assert request(fresh, "POST", COMPLETION, b'{"prompt": 5}')[0] == 400
    assert request(fresh, "POST", COMPLETION, b'{"prompt": "a", "model": "b"}')[0] == 404
    metrics = scrape(fresh)
    assert metrics.get("vllm:prompt_tokens_total") == sum(u["prompt_tokens"] for u in usages)
    assert metrics.get("vllm:generation_tokens_total") == generated
    cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)
    assert metrics.get("vllm:prefix_cache_hits_total") == cached
    assert metrics.get("firstlight_prompt_tokens_cached_total") == cached
    assert metrics.get("vllm:prefix_cache_queries_total") == sum(u["prompt_tokens"] for u in usages)
    success = "vllm:request_success_total"
    assert metrics.get(success, finished_reason="length") == 5
    for reason in ("stop", "abort", "error"):
        assert metrics.get(success, finished_reason=reason) == 0
    refused = "firstlight_requests_refused_total"
    assert metrics.get(refused, status="400", reason="invalid_request_error") == 2
    assert metrics.get(refused, status="404", reason="model_not_found") == 1
    for name in ("time_to_first_token", "request_queue_time", "request_prefill_time",
                 "request_time_per_output_token", "request_decode_time", "e2e_request_latency"):
        assert metrics.get(f"vllm:{name}_seconds_count") == 5, name
    assert metrics.get("vllm:inter_token_latency_seconds_count") == generated - 5
    assert metrics.get("firstlight_step_seconds_count") == metrics.get("firstlight_steps_total")
    assert metrics.get("vllm:num_requests_running") == metrics.get("vllm:num_requests_waiting") == 0


def test_histograms_are_cumulative(fresh):
    for i in range(4):
        ask(fresh, prompt="a" * (i + 1))
    metrics = scrape(fresh)
    assert len(metrics.histograms()) == 7 + len(PARTS) + 2
    for name, labels in metrics.histograms():
        bounds, counts = zip(*metrics.buckets(name, **labels))
        assert bounds[0] == 0.0001 and bounds[-1] == float("inf") and bounds[-2] >= 600
        assert list(bounds) == sorted(bounds)
        assert list(counts) == sorted(counts)
        assert counts[-1] == metrics.get(name + "_count", **labels) > 0
        total = metrics.get(name + "_sum", **labels)
        most = sum((after - before) * bound for before, after, bound
                   in zip((0, *counts), counts, bounds) if bound != float("inf") and after > before)
        least = sum((after - before) * bound for before, after, bound
                    in zip(counts, counts[1:], bounds))
        assert least <= total <= most + 1e-9


def test_ttft_is_the_sum_of_what_responses_say(fresh):
    ends = [chunks(fresh, COMPLETION, {"prompt": f"stream {i}", "max_tokens": 3})[-1]
            for i in range(4)]
    metrics = scrape(fresh)
    name = "firstlight_ttft_part_seconds_sum"
    for part in PARTS:
        said = sum(end["ttft"][part + "_ms"] for end in ends) / 1000
        assert metrics.get(name, part=part) == pytest.approx(said, abs=1e-9)
    total = sum(end["ttft"]["total_ms"] for end in ends) / 1000
    assert metrics.get("vllm:time_to_first_token_seconds_sum") == pytest.approx(total, abs=1e-9)
    queue = metrics.get("vllm:request_queue_time_seconds_sum")
    assert queue == metrics.get(name, part="queue")


def test_server_timing(fresh):
    answer, headers = ask(fresh, prompt="some words", max_tokens=6)
    assert "Server-Timing" in headers["access-control-expose-headers"]
    entries = [re.fullmatch(r"(\w+);dur=(\d+\.\d{3})", entry)
               for entry in headers["server-timing"].split(", ")]
    us = {entry[1]: round(float(entry[2]) * 1000) for entry in entries}
    parts = ["receive", "tokenize", "submit", "queue", "cache", "prefill"]
    assert list(us) == [*parts, "ttft", "decode", "write", "total"]
    for part in [*parts, "total"]:
        assert us[part] == round(answer["ttft"][part + "_ms"] * 1000)
    assert us["ttft"] == sum(us[part] for part in parts)
    assert us["total"] == us["ttft"] + us["decode"] + us["write"]
    for entry, part in {"decode": "decode_ms", "write": "first_write_ms"}.items():
        assert us[entry] == round(answer["ttft"][part] * 1000)


def test_the_ring_says_what_the_response_said(fresh):
    answer, headers = ask(fresh, prompt="exactly these words")
    entry = recent(fresh)[0]
    assert entry["id"] == answer["id"] and entry["request_id"] == headers["x-request-id"]
    assert entry["ttft"] == answer["ttft"]
    assert entry["route"] == "completions" and entry["status"] == 200
    assert entry["finish"] == "length" and not entry["stream"] and not entry["gone"]
    for count in ("prompt_tokens", "completion_tokens"):
        assert entry[count] == answer["usage"][count]
    assert entry["cache"] == "miss" and entry["cached_tokens"] == 0
    words = entry["waited"]["words"]
    assert words == "" or re.fullmatch(r"waited \d+ ms before the engine took it", words)
    assert entry["waited"] == {"for": "nothing", "waiting": 0, "running": 0, "tokens": 0,
                               "in_step": False, "leader": False, "steps": 0,
                               "steps_no_blocks": 0, "steps_no_place": 0,
                               "prompts": 0, "prompt_tokens": 0, "words": words}
    assert answer["waited"] == entry["waited"] and answer["cache"] == entry["cache"]
    times = list(entry["timeline"].values())
    assert entry["timeline"]["received_ms"] == 0
    assert None not in times
    assert entry["timeline"]["first_content_ms"] == answer["ttft"]["total_ms"]
    assert entry["timeline"]["decoded_ms"] == entry["timeline"]["finished_ms"]

    last = chunks(fresh, COMPLETION, {"prompt": "exactly these words", "max_tokens": 3})[-1]
    entry = recent(fresh)[0]
    assert entry["id"] == last["id"] and entry["ttft"] == last["ttft"] and entry["stream"]
    assert entry["waited"] == last["waited"] and entry["cache"] == last["cache"]
    assert entry["timeline"]["decoded_ms"] is None
    assert entry["cache"] == "hit" and entry["cached_tokens"] == entry["prompt_tokens"] - 1


def test_why_the_cache_missed(servers, fresh, tiny):
    prompt = list(range(10, 110))
    asked = [(prompt, "miss"), (prompt, "hit"), (prompt[:50] + [9] * 40, "part"), ([7], "short")]
    for ids, why in asked:
        ask(fresh, prompt=ids)
        assert recent(fresh, "?limit=1")[0]["cache"] == why
    salted = {"prompt": prompt, "cache_salt": "another tenant"}
    ask(fresh, **salted)
    assert recent(fresh)[0]["cache"] == "miss"
    off = servers(tiny, "--no-prefix-cache")
    ask(off, prompt=prompt)
    assert recent(off)[0]["cache"] == "off"
    assert scrape(off).get("vllm:prefix_cache_queries_total") == 0


def test_several_choices(fresh):
    """A prompt counts once, and so does its first token; each answer ends for itself."""
    usage = ask(fresh, prompt=list(range(50, 60)), n=3, max_tokens=4)[0]["usage"]
    assert usage["prompt_tokens"] == 10 and usage["completion_tokens"] == 12
    metrics = scrape(fresh)
    assert metrics.get("vllm:prompt_tokens_total") == 10
    assert metrics.get("vllm:generation_tokens_total") == 12
    assert metrics.get("vllm:time_to_first_token_seconds_count") == 1
    assert metrics.get("vllm:inter_token_latency_seconds_count") == 9
    assert metrics.get("vllm:request_success_total", finished_reason="length") == 3
    assert metrics.get("vllm:e2e_request_latency_seconds_count") == 3
    assert recent(fresh)[0]["choices"] == 3


def test_what_it_waited_for(servers, model):
    """One place, which a stream has until the next request waits for it."""
    server = servers(model, "--max-active-requests", 1)
    body = {"prompt": "first", "max_tokens": 1500, "ignore_eos": True}
    frames = stream(server, COMPLETION, body)
    assert next(frames).startswith(":")
    assert next(frames).startswith("data:")
    second = threading.Thread(target=ask, args=(server,), kwargs={"prompt": "second"})
    second.start()
    while scrape(server).get("vllm:num_requests_waiting") == 0:
        pass
    frames.close()
    second.join()
    by_finish = {entry["finish"]: entry for entry in recent(server)}
    waited = by_finish["length"]["waited"]
    assert waited["for"] == "max_active" and waited["running"] == 1 and waited["waiting"] == 0
    assert waited["steps"] >= waited["steps_no_place"] > 0 == waited["steps_no_blocks"]
    assert by_finish["length"]["ttft"]["queue_ms"] > 0
    assert re.fullmatch(r"waited [0-9.]+ m?s for one of the running requests to end|",
                        waited["words"])
    assert by_finish["cancelled"]["waited"]["for"] == "nothing"


def test_while_loading(binary, model):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    # plain C and exact: warming up takes long enough to be met
    command = [binary, "serve", "--model", model, "--port", str(port), "--cpu-mask", "c",
               "--activations", "f32"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            wait_loading(url)
            server = Server(process, url, [])
            assert request(server, "POST", COMPLETION, b"{}")[0] == 503
            metrics = scrape(server)
            (entry,) = server.get("/v1/debug/requests")[1]["data"]
            assert (entry["status"], entry["finish"]) == (503, "refused")
            assert server.get("/v1/debug/stats")[0] == 200
        finally:
            process.kill()
    assert metrics.get("firstlight_ready") == 0
    assert metrics.get("firstlight_requests_refused_total", status="503", reason="loading") == 1
    assert not any("model_name" in dict(pairs) for _, pairs in metrics.samples)


def test_an_engine_that_answers_at_the_end(servers, tiny):
    server = servers(tiny, "--engine", "cpu-sync")
    ask(server, prompt="all at once", max_tokens=6)
    metrics = scrape(server)
    assert metrics.get("vllm:inter_token_latency_seconds_count") == 5
    gaps = metrics.get("vllm:inter_token_latency_seconds_sum")
    assert gaps >= metrics.get("vllm:request_decode_time_seconds_sum") * 0.999 - 5e-6
    assert recent(server)[0]["cache"] == "off"


def test_refused_ones_are_in_the_ring(fresh):
    assert request(fresh, "POST", COMPLETION, b"no JSON", X_Request_Id="mine")[0] == 400
    entry = recent(fresh)[0]
    assert entry["request_id"] == "mine"
    assert entry["status"] == 400 and entry["finish"] == "refused"
    assert "waited" not in entry and "ttft" not in entry
    assert entry["timeline"]["queued_ms"] is None


def test_the_ring_forgets(fresh):
    for i in range(260):
        assert request(fresh, "POST", COMPLETION, b"[]", X_Request_Id=str(i))[0] == 400
    entries = recent(fresh)
    assert [entry["request_id"] for entry in entries] == [str(i) for i in range(259, 3, -1)]
    assert [entry["request_id"] for entry in recent(fresh, "?limit=2")] == ["259", "258"]
    assert len(recent(fresh, "?limit=100000")) == 256


@pytest.mark.parametrize("limit", ["0", "-1", "x", "", "1.5", "99999999999999999999999"])
def test_bad_limits(small, limit):
    status, _, body = request(small, "GET", f"/v1/debug/requests?limit={limit}")
    assert status == 400
    assert error_of(body)["param"] == "limit"


def test_percentiles(fresh):
    for i in range(10):
        ask(fresh, prompt=f"p {i}")
    status, stats = fresh.get("/v1/debug/stats")
    assert status == 200
    assert set(PARTS) | {"ttft", "itl", "tpot", "e2e", "step"} <= set(stats["latencies"])
    for name, row in stats["latencies"].items():
        assert row["count"] > 0, name
        assert 0 < row["p50_ms"] <= row["p90_ms"] <= row["p95_ms"] <= row["p99_ms"], name
    assert stats["latencies"]["ttft"]["count"] == 10
    error = stats["step_prediction_error"]
    assert 0 <= error["p50"] <= error["p99"]
    metrics = scrape(fresh)
    mean = metrics.get("vllm:time_to_first_token_seconds_sum") / 10
    assert stats["latencies"]["ttft"]["mean_ms"] == pytest.approx(mean * 1000, abs=1e-5)


def test_keys(servers, tiny, monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_API_KEY", "sk-debug")
    locked = servers(tiny)
    for path in ("/v1/debug/requests", "/v1/debug/stats"):
        assert request(locked, "GET", path)[0] == 401
        assert request(locked, "GET", path, Authorization="Bearer sk-debug")[0] == 200
    refused = scrape(locked).get("firstlight_requests_refused_total", reason="invalid_api_key")
    assert refused == 2


def test_names_are_escaped(servers, tiny):
    name = 'a "quoted\\name"\nover two lines'
    server = servers(tiny, "--served-model-name", name)
    metrics = scrape(server)
    labels = {dict(pairs).get("model_name") for _, pairs in metrics.samples}
    assert labels == {'a \\"quoted\\\\name\\"\\nover two lines'}


def test_refused_framing_counts(fresh):
    assert raw(fresh, b"GET / HTTP/1.1\r\n\r\n")[0] == 400  # no Host
    assert raw(fresh, b"GET / HTTP/3.1\r\nHost: localhost\r\n\r\n")[0] == 505
    metrics = scrape(fresh)
    name = "firstlight_connections_refused_total"
    assert metrics.get(name, status="400") == metrics.get(name, status="505") == 1


def test_head(small):
    status, headers, body = request(small, "HEAD", "/metrics")
    assert status == 200 and body == b"" and int(headers["content-length"]) > 1000


def test_scrapes_do_not_wait_for_the_engine(server):
    """Long prompts are computed, one after the other; scrapes come meanwhile."""
    prompts = [[5 + i, *range(100, 900)] for i in range(4)]
    before = scrape(server)
    done = []

    def run(prompt):
        done.append(list(stream(server, COMPLETION, {"prompt": prompt, "max_tokens": 2})))

    threads = [threading.Thread(target=run, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    seen = set()
    backlog = 0
    while any(thread.is_alive() for thread in threads):
        metrics = scrape(server)
        seen.add(metrics.get("vllm:num_requests_running") > 0)
        backlog = max(backlog, metrics.get("firstlight_backlog_tokens"))
    for thread in threads:
        thread.join()
    after = scrape(server)
    assert True in seen and len(done) == 4
    assert backlog > 0 == after.get("firstlight_backlog_tokens")
    name = "vllm:time_to_first_token_seconds_count"
    assert after.get(name) - before.get(name) == 4
    waits = [entry["waited"]["for"] for entry in recent(server, "?limit=4")]
    assert len(waits) == 4 and set(waits) <= {"nothing", "step", "turn", "leader", "max_active"}
    assert after.get("firstlight_engine_utilisation") > 0
    assert 0 < after.get("firstlight_workers_utilisation") <= 1


def test_a_cancelled_one(server):
    """A client that leaves while its answer is generated."""
    before = scrape(server).get("vllm:request_success_total", finished_reason="abort")
    frames = stream(server, COMPLETION, {"prompt": "count", "max_tokens": 400, "ignore_eos": True})
    assert next(frames).startswith(":")
    assert next(frames).startswith("data:")
    frames.close()
    while not recent(server)[0]["gone"]:
        pass
    assert recent(server)[0]["finish"] == "cancelled"
    after = scrape(server)
    assert after.get("vllm:request_success_total", finished_reason="abort") == before + 1
