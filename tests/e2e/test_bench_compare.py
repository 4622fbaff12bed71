"""`bench compare` and `bench history` on result files made here: the arithmetic is known, and
nothing is measured."""

import copy
import json
import statistics
from pathlib import Path

import pytest

from test_cli import fails


def metric(*repeats: float, unit: str = "ms", better: str = "lower") -> dict:
    return {"unit": unit, "better": better, "median": statistics.median(repeats),
            "min": min(repeats), "max": max(repeats), "repeats": list(repeats)}


def result(**changes) -> dict:
    whole = {"schema": "firstlight-bench/1", "kind": "streaming", "date": "2026-11-21T17:00:00Z",
             "note": None, "workload": {"num_requests": 256, "prompt": "Hello"},
             "environment": {"engine": "cpu", "model": "tiny", "commit": "aaa", "threads": 2},
             "metrics": {"ttft_p50": metric(180, 190, 200, 210, 230),
                         "tokens_per_s": metric(40, 40.5, 41, 41.5, 42, unit="tokens/s",
                                                better="higher")},
             "runs": [], "charts": []}
    return copy.deepcopy(whole | changes)


@pytest.fixture
def write(tmp_path: Path):
    def write_file(name: str, content: object) -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path
    return write_file


def compare(run, before: Path, after: Path, *more: object):
    return run("bench", "compare", "--before", before, "--after", after, *more)


# --- compare


def test_better_worse_and_noise(run, write):
    before = write("a.json", result())
    after = write("b.json", result(metrics={
        "ttft_p50": metric(90, 95, 100, 105, 110),
        "tokens_per_s": metric(41, 45, 46, 40, 41.2, unit="tokens/s", better="higher"),
        "itl_p50": metric(1)}))
    answer = compare(run, before, after, "--all")
    assert answer.returncode == 0, answer.stderr
    rows = {line.split()[0]: line for line in answer.stdout.splitlines() if line}
    assert rows["ttft_p50"].endswith("better") and "-50.0 %" in rows["ttft_p50"]
    assert "200.0 [180.0, 230.0]" in rows["ttft_p50"]
    assert rows["tokens_per_s"].endswith("noise") and "+0.5 %" in rows["tokens_per_s"]
    assert f"only in {after}: itl_p50" in answer.stdout
    back = compare(run, after, before)
    assert "worse" in back.stdout and back.returncode == 0


@pytest.mark.parametrize("n, says", [(1, "is a single run, which proves nothing"),
                                     (4, "has 4 repeats, which are too few: give at least 5")])
def test_few_repeats_get_no_verdict(run, write, n, says):
    before = write("a.json", result())
    after = write("b.json", result(metrics={"ttft_p50": metric(*[100.0 + i for i in range(n)])}))
    answer = compare(run, before, after)
    assert answer.returncode == 0
    assert f"no verdict: {after} {says}" in answer.stdout and "better" not in answer.stdout


def runs(n: int, start=lambda i: i, **more) -> list:
    machine = {"arithmetic": 100, "reading": 20, "stolen_percent": 0}
    return [{"requests": [], "start": start(i), "prompt_tokens": 384, "cached_tokens": 0,
             "machine": machine} | more for i in range(n)]


def test_one_start_is_one_measurement(run, write):
    fast = {"ttft_p50": metric(90, 95, 100, 105, 110)}
    before = write("a.json", result(runs=runs(5)))
    after = write("b.json", result(metrics=fast, runs=runs(5, start=lambda i: 0)))
    answer = compare(run, before, after)
    assert f"no verdict: {after} has 5 repeats of 1 start of the server" in answer.stdout
    several = [write(f"b{i}.json", result(metrics=fast, runs=runs(5, start=lambda i: 0)))
               for i in range(5)]
    answer = compare(run, before, several[0], *[x for path in several[1:]
                                                for x in ("--after", path)])
    assert "no verdict" not in answer.stdout and "1 better, 1 noise" not in answer.stdout
    assert "1 better" in answer.stdout


def test_a_machine_that_drifted(run, write):
    slow = {"arithmetic": 90, "reading": 20, "stolen_percent": 0}
    before = write("a.json", result(runs=runs(5)))
    after = write("b.json", result(metrics={"ttft_p50": metric(290, 295, 300, 305, 310)},
                                   runs=runs(5, machine=slow)))
    answer = compare(run, before, after)
    assert "no verdict: the machine drifted" in answer.stdout
    assert "was 100.0 GFLOP/s before and 90.0 after" in answer.stdout
    assert "worse" not in answer.stdout


def test_a_warm_cache(run, write):
    before = write("a.json", result(runs=runs(5)))
    after = write("b.json", result(metrics={"ttft_p50": metric(9, 9.5, 10, 10.5, 11)},
                                   runs=runs(5, cached_tokens=380)))
    answer = compare(run, before, after)
    assert "cached prompt tokens: 0 of 1920 before, 1900 of 1920 after" in answer.stdout
    assert "no verdict: the prefix cache had 0.0 %" in answer.stdout
    assert "better" not in answer.stdout


def test_six_headline_rows(run, write):
    names = ["ttft_p50", "ttft_p95", "ttft_p99", "itl_p99", "failures", "latency_p50", "tpot_p99"]
    same = {name: metric(1, 2, 3, 4, 5) for name in names}
    same["tokens_per_s"] = metric(1, 2, 3, 4, 5, unit="tokens/s", better="higher")
    path = write("a.json", result(metrics=same))
    shown = [line.split()[0] for line in compare(run, path, path).stdout.splitlines()
             if line.endswith("noise")]
    assert shown == ["ttft_p50", "ttft_p95", "ttft_p99", "itl_p99", "failures", "tokens_per_s"]
    answer = compare(run, path, path)
    assert "2 more metrics with --all" in answer.stdout
    assert "latency_p50" in compare(run, path, path, "--all").stdout


def test_names_what_differs_in_the_environment(run, write):
    before = write("a.json", result())
    after = write("b.json", result(environment={"engine": "cpu", "model": "tiny", "commit": "bbb",
                                                "threads": 4}))
    lines = compare(run, before, after).stdout.splitlines()
    assert '  commit         "aaa" -> "bbb"' in lines and "  threads        2 -> 4" in lines
    assert not any(line.startswith("  engine") for line in lines)


def test_json(run, write, tmp_path):
    before = write("a.json", result())
    after = write("b.json", result(metrics={"ttft_p50": metric(90, 95, 100, 105, 110)}))
    answer = compare(run, before, after, "--require", "ttft_p50<=100", "--output", "-")
    whole = json.loads(answer.stdout)
    assert answer.returncode == 0 and "better" in answer.stderr  # the table goes there
    assert whole["schema"] == "firstlight-compare/2"
    assert whole["metrics"]["ttft_p50"] == {
        "unit": "ms", "before": {"median": 200, "min": 180, "max": 230, "n": 5},
        "after": {"median": 100, "min": 90, "max": 110, "n": 5},
        "change": -100, "percent": -50, "headline": True, "p": pytest.approx(2 / 252),
        "verdict": "better"}
    assert whole["doubts"] == [] and whole["after"]["files"][0]["file"] == str(after)
    assert whole["only_before"] == ["tokens_per_s"] and whole["only_after"] == []
    assert whole["requirements"] == [{"metric": "ttft_p50", "operator": "<=", "bound": 100,
                                      "value": 100, "holds": True}]
    out = tmp_path / "out.json"
    assert compare(run, before, after, "--output", out).returncode == 0
    assert json.loads(out.read_text())["kind"] == "streaming"


@pytest.mark.parametrize("change, says", [
    ({"kind": "blocking"}, ['kind is "streaming"', '"blocking"']),
    ({"workload": {"num_requests": 64, "prompt": "Hello"}},
     ["workload.num_requests is 256", "64"]),
    ({"workload": {"num_requests": 256}}, ['workload.prompt is "Hello"', "absent"]),
    ({"workload": {"num_requests": 256, "prompt": "Hello", "seed": 1}},
     ["workload.seed is absent"]),
])
def test_refuses_another_measurement(run, write, change, says):
    before, after = write("a.json", result()), write("b.json", result(**change))
    fails(compare(run, before, after), str(before), str(after), *says)


def test_integers_and_reals_are_one(run, write):
    before = write("a.json", result(workload={"rate": 4}))
    after = write("b.json", result(workload={"rate": 4.0}))
    assert compare(run, before, after).returncode == 0


# --- requirements


@pytest.mark.parametrize("expression, holds", [
    ("ttft_p50<=200", True), ("ttft_p50<200", False), ("ttft_p50 > 199.5", True),
    ("tokens_per_s>=41", True), ("tokens_per_s>=41.01", False), ("tokens_per_s==41", True),
])
def test_requirement_decides_the_status(run, write, expression, holds):
    answer = run("bench", "compare", "--after", write("a.json", result()), "--require", expression)
    assert answer.returncode == (0 if holds else 1)
    assert answer.stdout.split()[0] == ("holds" if holds else "FAILS")
    assert ("200 ms" if "ttft" in expression else "41 tokens/s") in answer.stdout


@pytest.mark.parametrize("tokens, ttft, met",
                         [(34, 100, 0), (36, 599, 1), (41, 450, 2), (50, 200, 3)])
def test_milestones(run, write, tokens, ttft, met):
    """The examples of --help."""
    figures = {"ttft_p50": metric(ttft), "tokens_per_s": metric(tokens)}
    after = write("a.json", result(metrics=figures))
    lines = run("bench", "compare", "--help").stdout.splitlines()
    milestones = [line.split("'")[1::2] for line in lines if line.startswith("  M")]
    assert len(milestones) == 3
    for number, (first, second) in enumerate(milestones, 1):
        answer = run("bench", "compare", "--after", after, "--require", first, "--require", second)
        assert answer.returncode == (0 if number <= met else 1)


def test_all_requirements_are_shown(run, write):
    answer = run("bench", "compare", "--after", write("a.json", result()), "--require",
                 "ttft_p50<1", "--require", "ttft_p50<1000", "--require", "ttft_p50>999")
    assert answer.returncode == 1
    assert [line.split()[0] for line in answer.stdout.splitlines()] == ["FAILS", "holds", "FAILS"]
    assert "2 of 3" in answer.stderr


def test_requirements_of_a_run_that_failed_in_part(run, write):
    """The percentiles are of what was answered: a table that says "holds" says that too."""
    path = write("a.json", result(runs=[{"n": 8, "failed": 3, "completed": 5}]))
    answer = run("bench", "compare", "--after", path, "--require", "ttft_p50<=200")
    assert answer.returncode == 0
    assert f"{path}: 3 of 8 requests failed" in answer.stdout
    assert "holds  ttft_p50<=200" in answer.stdout


def test_unknown_metric(run, write):
    after = write("a.json", result())
    fails(run("bench", "compare", "--after", after, "--require", "ttft_p5<=200"),
          "ttft_p5", "near it: ttft_p50")


@pytest.mark.parametrize("expression", ["", "ttft_p50", "ttft_p50=200", "ttft_p50<=", "<=200",
                                        "ttft_p50<=200ms"])
def test_bad_requirement(run, expression):
    answer = run("bench", "compare", "--after", "x.json", "--require", expression)
    fails(answer, "--require")
    assert answer.returncode == 2


def test_too_many_requirements(run, write):
    after = write("a.json", result())
    many = ["--require", "ttft_p50>0"] * 64
    assert run("bench", "compare", "--after", after, *many).returncode == 0
    fails(run("bench", "compare", "--after", after, *many, *many[:2]), "--require", "64")


def test_what_is_needed(run, write):
    path = write("a.json", result())
    fails(run("bench", "compare", "--after", path, "--after", path, "--require", "ttft_p50<1"),
          "--require")
    fails(compare(run, path, path, *["--after", path] * 64), "--after", "64")
    fails(run("bench", "compare", "--before", path), "--after")
    fails(run("bench", "compare", "--after", path), "--before", "--require")


# --- files that are none


BAD_FILES = [("", "is empty"), ("{", "line 1"), ('{\n"a": 1,\n\n', "line 4"), ("[]", "an object"),
             ("{}", "schema"), ('{"schema": "firstlight-bench/2"}', "firstlight-bench/2"),
             (json.dumps(result(kind=5)), "kind"), (json.dumps(result(metrics=[])), "metrics"),
             (json.dumps(result(metrics={"x": {"unit": "ms"}})), "metrics.x.better"),
             (json.dumps(result())[:200], "line 1"), ("\x00\x01", "line 1")]


@pytest.mark.parametrize("text, says", BAD_FILES)
def test_bad_files(run, write, text, says):
    good, bad = write("good.json", result()), write("bad.json", text)
    fails(compare(run, good, bad), "bad.json", says)
    fails(compare(run, bad, good), "bad.json", says)


def test_no_files(run, write, tmp_path):
    good = write("good.json", result())
    fails(compare(run, good, tmp_path), str(tmp_path), "directory")
    fails(compare(run, good, tmp_path / "none.json"), "none.json", "no such file")
    large = tmp_path / "large.json"
    with large.open("w") as file:
        file.truncate(100 << 20)
    fails(compare(run, good, large), "large.json", "64 MiB")


def test_output_that_cannot_be(run, write, tmp_path):
    good = write("good.json", result())
    path = tmp_path / "absent" / "x.json"
    fails(compare(run, good, good, "--output", path), "--output", "absent")


# --- history


def test_history(run, write):
    old = write("z.json", result(date="2026-11-20T00:00:00Z", note="the first"))
    new = write("a.json", result(date="2026-11-21T00:00:00Z", kind="model", metrics={}))
    answer = run("bench", "history", new, old)
    assert answer.returncode == 0
    title, first, second = answer.stdout.splitlines()
    assert title.split() == ["date", "engine", "model", "kind", "tokens/s", "TTFT", "p50", "note"]
    assert first.split() == ["2026-11-20T00:00:00Z", "cpu", "tiny", "streaming", "41.0", "200.0",
                             "ms", "the", "first"]
    assert second.split() == ["2026-11-21T00:00:00Z", "cpu", "tiny", "model", "-", "-", "-"]


def test_history_json(run, write):
    path = write("a.json", result())
    answer = run("bench", "history", path, "--output", "-")
    assert answer.returncode == 0 and "streaming" in answer.stderr  # the table goes there
    assert json.loads(answer.stdout) == {"schema": "firstlight-history/1", "results": [
        {"file": str(path), "date": "2026-11-21T17:00:00Z", "kind": "streaming", "engine": "cpu",
         "model": "tiny", "tokens_per_s": 41, "ttft_p50": 200, "note": None}]}


def test_history_shows_what_it_can(run, write, tmp_path):
    good, bad = write("good.json", result()), write("bad.json", "{")
    answer = run("bench", "history", bad, good, tmp_path / "none.json")
    assert answer.returncode == 1
    assert len(answer.stdout.splitlines()) == 2
    assert "bad.json, line 1" in answer.stderr and "none.json" in answer.stderr


def test_history_of_nothing(run):
    fails(run("bench", "history"), "FILE")


def test_history_takes_so_many_files(run, write):
    path = write("a.json", result())
    answer = run("bench", "history", *[path] * 256)
    assert answer.returncode == 0 and len(answer.stdout.splitlines()) == 257
    fails(run("bench", "history", *[path] * 257), "unexpected argument")
