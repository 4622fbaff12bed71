"""`bench streaming --url grpc://...` against a real server, and beside the same over HTTP."""

import json

import pytest

import grpc_client
from test_bench_http import assert_printed, assert_table, row
from test_cancel import wait_until


@pytest.fixture(scope="module")
def server(servers, tiny):
    return servers(tiny, "--grpc-port", 0)


@pytest.fixture(scope="module")
def url(server) -> str:
    return "grpc://" + grpc_client.address(server)


def bench(run, tmp_path, command, url, *flags):
    """The finished process and its result file (None: it wrote none)."""
    path = tmp_path / "result.json"
    path.unlink(missing_ok=True)
    done = run("bench", command, "--url", url, "--warmup-runs", 0, "--output", path, *flags)
    return done, json.loads(path.read_text()) if path.exists() else None


def measured(run, tmp_path, url, *flags):
    """(result, table) of a run in which nothing fails."""
    done, result = bench(run, tmp_path, "streaming", url, *flags)
    assert done.returncode == 0, done.stderr
    return result, done.stdout


def assert_traffic(result: dict, table: str) -> None:
    """Each figure of what was received follows from the requests' own."""
    (one,) = result["runs"]
    requests = one["requests"]
    assert one["messages"] == sum(r["messages"] for r in requests)
    assert one["payload_bytes"] == sum(r["payload_bytes"] for r in requests)
    assert one["received_bytes"] > one["payload_bytes"]
    tokens = sum(r["completion_tokens"] for r in requests)
    words = row(table, "messages")  # N: X a token, Y bytes in them, Z received
    assert words[0] == f"{one['messages']}:"
    for text, name, total in ((words[1], "messages_per_token", one["messages"]),
                              (words[4], "payload_per_token", one["payload_bytes"]),
                              (words[8], "received_per_token", one["received_bytes"])):
        assert result["metrics"][name]["median"] == pytest.approx(total / tokens)
        assert_printed(text, total / tokens)


@pytest.mark.parametrize("n", [20, 250])
def test_figures(run, tmp_path, url, n):
    """250 at once are three connections. Every token is accounted for."""
    result, table = measured(run, tmp_path, url, "--num-requests", n, "--max-new-tokens", 12,
                             "--no-stop-on-eos", "--unique-prompts")
    assert row(table, "device and engine") == [url] and row(table, "model") == ["base"]
    assert row(table, "requests") == [f"{n}:", str(n), "completed,", "0", "failed"]
    assert result["environment"]["target"] == url and result["backend"] == "grpc"
    if any(len(r["chunks_ms"]) > 1 for r in result["runs"][0]["requests"]):  # else no gap, no TPOT
        assert_table(result, table)
    assert_traffic(result, table)
    for r in result["runs"][0]["requests"]:
        assert r["state"] == "ok" and r["http_status"] == 200 and r["error"] is None
        assert r["completion_tokens"] == 12 and r["finish"] == "length"
        assert 1 <= len(r["chunks_ms"]) <= r["messages"] <= len(r["chunks_ms"]) + 2
        assert len(r["chunks_ms"]) <= 12
        assert r["due_ms"] <= r["sent_ms"] <= r["accepted_ms"] <= r["first_ms"] <= r["end_ms"]
        assert r["chunks_ms"] == sorted(r["chunks_ms"]) and r["first_ms"] == r["chunks_ms"][0]
        parts = dict(r["ttft"])
        assert r["server_ttft_ms"] == pytest.approx(parts.pop("total_ms"), abs=0.001)
        assert sum(parts.values()) == pytest.approx(r["server_ttft_ms"], abs=0.01)
        assert r["server_ttft_ms"] <= r["first_ms"] - r["sent_ms"] + 0.001


def test_the_same_over_http(run, tmp_path, server, url):
    """The same prompts make the same tokens; the messages are smaller."""
    results = {}
    for name, where in (("grpc", url), ("http", server.url)):
        results[name], table = measured(run, tmp_path, where, "--num-requests", 8,
                                        "--max-concurrency", 1, "--max-new-tokens", 10)
        assert_traffic(results[name], table)
    asked = [[(r["prompt_tokens"], r["completion_tokens"], r["finish"])
              for r in result["runs"][0]["requests"]] for result in results.values()]
    assert asked[0] == asked[1]
    assert results["grpc"]["workload"] == results["http"]["workload"]
    one, other = (r["runs"][0] for r in results.values())
    assert one["payload_bytes"] < other["payload_bytes"]
    assert one["received_bytes"] < other["received_bytes"]


def test_whole_answers(run, tmp_path, url):
    """--compare-blocking goes through GenerateBlocking and Generate."""
    done, result = bench(run, tmp_path, "streaming", url, "--compare-blocking", "--num-requests", 4,
                         "--max-new-tokens", 8, "--no-stop-on-eos")
    assert done.returncode == 0, done.stderr
    by_mode = {one["mode"]: one for one in result["runs"]}
    assert [r["messages"] for r in by_mode["blocking"]["requests"]] == [1] * 4
    assert all(r["messages"] >= 1 for r in by_mode["streaming"]["requests"])
    assert all(r["completion_tokens"] == 8 for one in by_mode.values() for r in one["requests"])


def test_other_commands(run, tmp_path, url):
    """token-speed and replay go through the same target."""
    done, result = bench(run, tmp_path, "token-speed", url, "--runs", 1, "--max-new-tokens", 4,
                         "--raw")
    assert done.returncode == 0, done.stderr
    assert f"engine   {url}" in done.stdout and result["runs"][0]["messages"] > 0
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps({"timestamp": 5 * i, "input_length": 20,
                                         "output_length": 4, "hash_ids": [i]}) + "\n"
                             for i in range(4)))
    path = tmp_path / "replay.json"
    done = run("bench", "replay", trace, "--url", url, "--output", path)
    assert done.returncode == 0, done.stderr
    assert json.loads(path.read_text())["runs"][0]["completed"] == 4


def test_background_and_cancel(run, tmp_path, server, url):
    """Streams that run meanwhile are cancelled at the end: the server is idle again."""
    result, table = measured(run, tmp_path, url, "--num-requests", 4, "--max-new-tokens", 4,
                             "--background", 2)
    assert "received_per_token" not in result["metrics"]
    assert "received" not in row(table, "messages")
    assert result["runs"][0]["background"]["failed"] == 0
    wait_until(server, lambda h: h["running"] == h["waiting"] == 0)


def test_refusals(run, tmp_path, server, servers, tiny, url):
    """A request that is refused is named with its status; so is a server that cannot be used."""
    few = servers(tiny, "--grpc-port", 0, "--max-requests", 1)
    done, result = bench(run, tmp_path, "streaming", "grpc://" + grpc_client.address(few),
                         "--num-requests", 20, "--max-new-tokens", 200, "--no-stop-on-eos")
    assert done.returncode == 1
    failed = [r for r in result["runs"][0]["requests"] if r["state"] == "failed"]
    assert failed and "of 20 requests failed; the first: gRPC 8 RESOURCE_EXHAUSTED" in done.stderr
    for r in failed:
        assert r["error"].startswith("gRPC 8 RESOURCE_EXHAUSTED: ")
        assert "(retry after" in r["error"] and r["http_status"] == 200
    for where, says in ((url.replace("grpc:", "grpcs:"), "gRPC without TLS only"),
                        (url + "/v1", "expected grpc://HOST:PORT"),
                        (server.url.replace("http:", "grpc:"), "no answer from grpc://")):
        done, result = bench(run, tmp_path, "streaming", where)
        assert done.returncode == 1 and result is None and says in done.stderr, done.stderr


def test_keys(run, tmp_path, servers, tiny):
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text("sk-good\n")
    bad.write_text("sk-bad\n")
    closed = "grpc://" + grpc_client.address(servers(tiny, "--grpc-port", 0, "--api-key-file",
                                                     good))
    done, _ = bench(run, tmp_path, "streaming", closed)
    assert "wants a key: give one with --api-key-file" in done.stderr
    done, _ = bench(run, tmp_path, "streaming", closed, "--api-key-file", bad)
    assert "refuses the key of --api-key-file" in done.stderr and "sk-bad" not in done.stderr
    done, _ = bench(run, tmp_path, "streaming", closed, "--api-key-file", good, "--num-requests", 2,
                    "--max-new-tokens", 2, "--endpoint", "completions")
    assert done.returncode == 0, done.stderr
