"""Result files have the fields that docs/bench-results.md documents, all of them and no others;
files of tests/golden/bench, which older programs wrote, stay readable."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from conftest import GOLDEN, ROOT

PAGE = ROOT / "docs/bench-results.md"
OLD_FILES = sorted((GOLDEN / "bench").glob("*.json"))
FIVE = ["mean", "p50", "p90", "p95", "p99"]

SMALL = "the server `small`"

# One or more commands a kind, which together write each of its fields. Nothing here is about speed.
COMMANDS = {
    "model": [["model", "-p", 8, "--prompts", 2, "-n", 2, "--batch", 2, "--repeat-runs", 2]],
    "roofline": [["roofline", "--run-ms", 1, "--repeat-runs", 2, "--footprint", "1M"]],
    "streaming": [["streaming", "--num-requests", 4, "--max-new-tokens", 40, "--background", 1,
                   "--no-stop-on-eos", "--goodput", "ttft:10000,tpot:10000"],
                  ["streaming", "--num-requests", 2, "--max-new-tokens", 2, "--same-prompts"],
                  ["streaming", "--num-requests", 2, "--max-new-tokens", 2, "--url", SMALL]],
    "blocking": [["streaming", "--compare-blocking", "--num-requests", 4, "--max-new-tokens", 4,
                  "--same-prompts"]],
    "ab": [["ab", "--a", SMALL, "--b", SMALL, "--pairs", 1, "--time-limit", 1, "--max-new-tokens",
            8, "--prompt-tokens", 4, "--no-stop-on-eos"]],
    "curves": [["curves", "--max-prompt-tokens", 64, "--max-context", 256, "--max-batch", 2,
                "--prompt-tokens", 8, "--max-new-tokens", 4, "--samples", 1, "--num-requests", 4,
                "--machine-cost-per-hour", 1, "--same-prompts"]],
    "scheduler online": [["scheduler", "--mode", "online", "--num-requests", 4, "--prompt-tokens",
                          8, "--max-new-tokens", 4, "--request-rate", 1000]],
    "scheduler offline": [["scheduler", "--mode", "offline", "--num-requests", 4,
                           "--prompt-tokens", 8, "--max-new-tokens", 4]],
    "replay": [["replay", GOLDEN / "trace.jsonl", "--speed", 10, "--goodput", "ttft:10000",
                "--same-prompts"],
               ["replay", GOLDEN / "trace.jsonl", "--max-length", 200, "--speed", 10, "--url",
                SMALL, "--tokenizer", GOLDEN / "tiny/base.gguf"]],
    "simulate": [["simulate", "--num-requests", 40, "--max-new-tokens", 4]],
    "token-speed": [["token-speed", "--runs", 2, "--max-new-tokens", 4, "--raw", "--same-prompts"],
                    ["token-speed", "--runs", 1, "--max-new-tokens", 4, "--raw", "--url", SMALL]],
}


# What a run of so few tokens has or not as it happens: gaps and a pace when each token came by
# itself, decode when it took longer than the noise of two passes, a knee when a rate held; and bf16
# where the machine has it. An old file of the kind must have it.
CHANCE = re.compile(r"metric (itl_|tpot_|background_gap_|decode_|knee_|bf16_)|charts\[\]\.marks")


# --- the page


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def list_of(check):
    return lambda value: isinstance(value, list) and all(map(check, value))


TYPES = {
    "text": lambda v: isinstance(v, str),
    "number": is_number,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "object": lambda v: isinstance(v, dict),
    "list": list_of(lambda v: isinstance(v, dict)),
    "list of numbers": list_of(is_number),
    "list of texts": list_of(lambda v: isinstance(v, str)),
    "list of lists of numbers": list_of(list_of(is_number)),
    "null": lambda v: v is None,
}


@dataclasses.dataclass
class Field:
    types: list[str]
    optional: bool


@dataclasses.dataclass
class Page:
    fields: dict[str, Field]
    metrics: dict[str, tuple[str, str]]  # name: unit, better


def names_in(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def read_page(kind: str) -> Page:
    """What the page says of files of one kind."""
    page, applies = Page({}, {}), False
    for line in PAGE.read_text().splitlines():
        if line.startswith("Kinds: "):
            applies = line == "Kinds: all" or kind in names_in(line)
        elif line.startswith("## "):
            applies = False
        row = line.strip("|").split("|") if line.startswith("| `") else []
        cells = [cell.strip() for cell in row]
        if len(cells) == 3 and applies:
            types, _, optional = cells[1].partition(", ")
            page.fields[names_in(cells[0])[0]] = Field(types.split(" or "), optional == "optional")
        if len(cells) == 5 and kind in names_in(cells[3]):
            name = names_in(cells[0])[0]
            for full in [name[:-1] + part for part in FIVE] if name.endswith("*") else [name]:
                page.metrics[full] = (cells[1], cells[2])
    return page


def kind_of(result: dict) -> str:
    mode = f" {result['workload']['mode']}" if result["kind"] == "scheduler" else ""
    return result["kind"] + mode


# --- a file against the page


def find(names, name: str) -> str | None:
    """`name`, or the documented pattern that it fits: ID and NAME stand for any."""
    if name in names:
        return name
    for pattern in sorted(names, key=len, reverse=True):  # the one that says most
        if re.fullmatch(re.sub("NAME|ID", ".+", re.escape(pattern)), name):
            return pattern
    return None


class Walk:
    def __init__(self, page: Page, complete: bool):
        self.page, self.complete = page, complete
        self.seen: set[str] = set()
        self.faults: list[str] = []

    def children(self, path: str) -> dict[str, str]:
        start = path + "." if path else ""
        paths = {p.removeprefix(start): p for p in self.page.fields if p.startswith(start)}
        return {name: p for name, p in paths.items() if not re.search(r"[.\[]", name)}

    def object(self, value: dict, path: str) -> None:
        children = self.children(path)
        for key, inner in value.items():
            name = find(children, key)
            if name is None:
                self.faults.append(f"{path}.{key} is not documented")
            else:
                self.value(inner, children[name])
        for name, full in children.items():
            optional = self.page.fields[full].optional or name == "NAME"
            if self.complete and not optional and name not in value:
                self.faults.append(f"{full} is not there")

    def value(self, value: object, path: str) -> None:
        self.seen.add(path)
        types = self.page.fields[path].types
        if not any(TYPES[name](value) for name in types):
            self.faults.append(f"{path}: {json.dumps(value)[:80]} is not {' or '.join(types)}")
        elif isinstance(value, dict):
            self.object(value, path)
        elif "list" in types:
            for item in value:
                self.object(item, path + "[]")

    def metrics(self, metrics: dict) -> None:
        for name, metric in metrics.items():
            known = find(self.page.metrics, name)
            if known is None:
                self.faults.append(f"metric {name} is not documented")
            elif self.page.metrics[known] != (metric["unit"], metric["better"]):
                self.faults.append(f"metric {name}: {metric['unit']}, {metric['better']}")
            self.seen.add(f"metric {known}")


def walk(result: dict, complete: bool = True) -> Walk:
    whole = Walk(read_page(kind_of(result)), complete)
    whole.object(result, "")
    whole.metrics(result["metrics"])
    return whole


def documented(kind: str) -> set[str]:
    page = read_page(kind)
    return set(page.fields) | {f"metric {name}" for name in page.metrics}


# --- tests


@pytest.mark.parametrize("kind", COMMANDS)
def test_files_are_as_documented(run, tiny, small, tmp_path, kind):
    seen: set[str] = set()
    for number, arguments in enumerate(COMMANDS[kind]):
        path = tmp_path / f"{number}.json"
        own = kind in ("simulate", "roofline") or SMALL in arguments  # its own model, or none
        model = [] if own else ["--model", tiny]
        arguments = [small.url if a == SMALL else a for a in arguments]
        answer = run("bench", *arguments, *model, "--output", path, "--note", "a note")
        assert answer.returncode == 0, answer.stderr
        result = json.loads(path.read_text())
        assert kind_of(result) == kind and result["note"] == "a note"
        found = walk(result)
        assert not found.faults
        seen |= found.seen
    old = [json.loads(path.read_text()) for path in OLD_FILES]
    seen |= {name for result in old if kind_of(result) == kind
             for name in walk(result, complete=False).seen if CHANCE.match(name)}
    charts = {name for name in documented(kind) if name.startswith("charts[")}
    missing = documented(kind) - seen - (set() if kind == "curves" else charts)
    assert not missing, "documented, but in none of these files"


def test_page_names_each_kind():
    lines = PAGE.read_text().splitlines()
    rows = [line for line in lines if re.match(r"\| `[^|]*\| `bench", line)]
    named = {name for row in rows for name in names_in(row.split("|")[1])}
    used = {name for line in lines if line.startswith("Kinds: ") for name in names_in(line)}
    assert used == named


def test_the_walk_finds_faults(tmp_path, run, tiny):
    """The check above can fail: on a field too many, one missing, and one of another type."""
    path = tmp_path / "x.json"
    assert run("bench", *COMMANDS["model"][0], "--model", tiny, "--output", path).returncode == 0
    good = json.loads(path.read_text())
    assert walk(good | {"more": 1}).faults == [".more is not documented"]
    assert walk({k: v for k, v in good.items() if k != "note"}).faults == ["note is not there"]
    assert walk(good | {"runs": [1]}).faults == ["runs: [1] is not list"]
    environment = good["environment"] | {"threads": 1.5, "x": 1}
    assert len(walk(good | {"environment": environment}).faults) == 2
    other = good["metrics"] | {"speed": good["metrics"]["decode_tokens_per_s"]}
    assert walk(good | {"metrics": other}).faults == ["metric speed is not documented"]


def test_there_are_old_files():
    assert {kind_of(json.loads(path.read_text())) for path in OLD_FILES} >= set(COMMANDS)


@pytest.mark.parametrize("path", OLD_FILES, ids=lambda path: path.stem)
def test_old_files_stay_readable(run, path: Path):
    """By every reader; and their fields still mean what the page says."""
    result = json.loads(path.read_text())
    assert result["schema"] == "firstlight-bench/1"
    assert not walk(result, complete=False).faults
    answer = run("bench", "compare", "--before", path, "--after", path)
    assert answer.returncode == 0, answer.stderr
    answer = run("bench", "compare", "--before", path, "--after", path, "--all")
    assert all(name in answer.stdout for name in result["metrics"])
    answer = run("bench", "history", path)
    assert answer.returncode == 0, answer.stderr
    assert result["date"] in answer.stdout and result["kind"] in answer.stdout


@pytest.mark.parametrize("path", OLD_FILES, ids=lambda path: path.stem)
def test_old_files_make_a_report(run, tmp_path: Path, path: Path):
    page = tmp_path / "page.html"
    answer = run("bench", "report", path, "--html", page)
    assert answer.returncode == 0, answer.stderr
    assert (json.loads(path.read_text())["environment"]["model"] or "roofline") in page.read_text()
