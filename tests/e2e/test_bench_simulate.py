"""`firstlight bench simulate`: policies in virtual time. What is asserted is the order of policies,
wide enough for any scheduler that does its work; the same seed gives the same virtual figures."""

import json

import pytest

from conftest import GOLDEN

POLICIES = {"srpf", "fifo", "pack", "lookahead", "priority"}


@pytest.fixture()
def simulate(run, tmp_path):
    def run_it(*arguments) -> dict:
        path = tmp_path / "result.json"
        answer = run("bench", "simulate", *arguments, "--output", path)
        assert answer.returncode == 0, answer.stderr
        result = json.loads(path.read_text())
        result["table"] = answer.stdout
        return result
    return run_it


def median(result: dict, name: str) -> float:
    return result["metrics"][name]["median"]


def virtual(result: dict) -> dict:
    """The figures that do not depend on how fast this machine is."""
    return {name: metric["repeats"] for name, metric in result["metrics"].items()
            if not name.startswith("scheduler_")}


@pytest.mark.parametrize("arrivals", ["bursts", "long-among-short", "shared-prefix"])
def test_every_policy_answers_everybody(simulate, arrivals):
    result = simulate("--arrivals", arrivals, "--num-requests", 150, "--repeat-runs", 2)
    assert result["kind"] == "simulate"
    assert {run["policy"] for run in result["runs"]} == POLICIES
    for run in result["runs"]:
        assert (run["n"], run["refused"]) == (150, 0)
        assert run["distributions"]["ttft"]["n"] == 150
        assert run["distributions"]["ttft"]["min"] > 0
        assert run["distributions"]["queue"]["min"] >= 0
    for policy in POLICIES:
        assert policy in result["table"]
        assert median(result, f"ttft_p50_{policy}") <= median(result, f"ttft_p99_{policy}")
    first, second = (run for run in result["runs"] if run["policy"] == "fifo")
    assert first["distributions"]["ttft"] != second["distributions"]["ttft"]  # other arrivals


def test_the_same_seed_gives_the_same_figures(simulate):
    asked = ["--num-requests", 200, "--arrivals", "long-among-short", "--seed"]
    first, again, other = (simulate(*asked, seed) for seed in (7, 7, 8))
    assert virtual(first) == virtual(again) != virtual(other)


def test_short_prompts_do_not_wait_for_long_ones_under_srpf(simulate):
    """One in fifty is long, and holds up fifo's p95; the short ones pass it under srpf."""
    result = simulate("--arrivals", "long-among-short", "--num-requests", 1000, "--request-rate",
                      10, "--load", 0.5, "--policies", "srpf,fifo")
    assert median(result, "ttft_p95_srpf") < 0.7 * median(result, "ttft_p95_fifo")
    assert sum(run["parked"] for run in result["runs"] if run["policy"] == "srpf") > 0
    assert sum(run["parked"] for run in result["runs"] if run["policy"] == "fifo") == 0


def test_a_shared_prefix_is_computed_once(simulate):
    asked = ["--arrivals", "shared-prefix", "--num-requests", 200, "--policies", "srpf"]
    cached, none = simulate(*asked), simulate(*asked, "--no-prefix-cache")
    assert cached["runs"][0]["prompt_tokens"] <= 8 * 1056 + 192 * 32
    assert none["runs"][0]["prompt_tokens"] == 200 * 1056
    assert median(none, "ttft_p50_srpf") > 2 * median(cached, "ttft_p50_srpf")


def test_too_many_are_refused(simulate):
    result = simulate("--load", 10, "--max-requests", 16, "--num-requests", 300, "--policies",
                      "fifo")
    run = result["runs"][0]
    assert run["refused"] > 0 and run["n"] == run["refused"] + run["distributions"]["ttft"]["n"]


def test_too_few_blocks_put_requests_back(simulate):
    result = simulate("--kv-blocks", 20, "--num-requests", 200, "--max-new-tokens", 200,
                      "--policies", "srpf")
    assert result["runs"][0]["preempted"] > 0
    assert result["runs"][0]["distributions"]["ttft"]["n"] == 200


def test_a_trace(simulate):
    result = simulate("--arrivals", "trace", "--trace", GOLDEN / "trace.jsonl", "--policies",
                      "fifo,srpf")
    assert result["workload"]["request_rate"] is None
    assert len(result["workload"]["trace_sha256"]) == 64
    assert result["runs"][0]["n"] == result["workload"]["num_requests"] > 0


def test_rates_from_ten_to_ten_thousand(simulate):
    """The machine is as fast as the load says: virtual time shrinks with the rate."""
    asked = ["--num-requests", 300, "--policies", "srpf", "--request-rate"]
    slow, fast = simulate(*asked, 10), simulate(*asked, 10000)
    ratio = slow["runs"][0]["duration_s"] / fast["runs"][0]["duration_s"]
    assert 300 < ratio < 3000


@pytest.mark.parametrize("arguments, said", [
    (["--policies", "luck"], "unknown policy"),
    (["--policies", ""], "unknown policy"),
    (["--machine", "1,2,3"], "STEP,TOKEN,PAIR,DECODE,READ"),
    (["--machine", "0,1,1,1,1"], "above 0"),
    (["--machine", "1,1,1,1,1x"], "STEP,TOKEN,PAIR,DECODE,READ"),
    (["--request-rate", "5"], "--request-rate"),
    (["--arrivals", "trace"], "--trace FILE"),
    (["--trace", "x"], "--arrivals trace"),
    (["--profile", "luck"], "profile"),
    (["--kv-blocks", "2"], "KV"),
])
def test_what_is_wrong_is_named(run, arguments, said):
    answer = run("bench", "simulate", "--num-requests", 5, *arguments)
    assert answer.returncode != 0
    assert said in answer.stderr
