"""`bench report`: a page that stands alone, SVG that is XML, errors for what is no result."""

import html.parser
import json
import os
import random
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from conftest import GOLDEN

SAMPLE = GOLDEN / "bench/streaming.json"
PAGE = Path(__file__).parents[2] / "src/web/page"
VOID = {"meta", "br"}
SVG = "{http://www.w3.org/2000/svg}"


class Page(html.parser.HTMLParser):
    """Checks that every element is closed in order, and collects texts, tags and attributes."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def report(run, *arguments) -> str:
    result = run("bench", "report", *arguments, "--html", "-")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def changed(tmp_path: Path, name: str, **fields) -> Path:
    """The sample with some of its fields replaced."""
    path = tmp_path / name
    path.write_text(json.dumps(json.loads(SAMPLE.read_text()) | fields))
    return path


def test_a_page_stands_alone(run):
    text = report(run, SAMPLE)
    page = Page(text)
    assert not page.tags & {"script", "link", "img", "iframe", "object", "embed", "use", "image"}
    assert not {name for name, _ in page.attributes} & {"src", "href", "xlink:href", "onload"}
    assert "url(" not in text and "@import" not in text
    assert set(re.findall(r"https?://[^\"' <]*", text)) == {"http://www.w3.org/2000/svg"}
    assert "prefers-color-scheme:dark" in text
    assert ("name", "viewport") in page.attributes
    for title in ("TTFT, histogram", "TTFT, cumulative", "Parts of TTFT", "ITL, histogram",
                  "The run, request by request", "TTFT by prompt length"):
        assert title in page.texts, title
    assert report(run, SAMPLE) == text


@pytest.mark.parametrize("path", sorted((GOLDEN / "bench").glob("*.json")), ids=lambda p: p.stem)
def test_every_kind_has_a_page(run, path):
    sample = json.loads(path.read_text())
    page = Page(report(run, path))
    assert sample["kind"] in page.texts
    for chart in sample["charts"]:
        assert chart["title"] in page.texts


def test_its_tables_show_the_metrics(run):
    metrics = json.loads(SAMPLE.read_text())["metrics"]
    page = Page(report(run, SAMPLE))
    for name in ("ttft_p50", "ttft_p99", "itl_p50", "tokens_per_s"):
        value = metrics[name]["median"]
        assert any(re.fullmatch(r"[0-9.]+", text.strip()) and
                   float(text) == pytest.approx(value, rel=1e-3) for text in page.texts), name


def test_a_thing_has_one_name(run):
    """On the tiles, the titles, the axes and the tables of a page of any kind."""
    tiles = {"TTFT, p50", "TTFT, p99", "ITL, p99", "Throughput"}
    assert tiles <= set(Page(report(run, SAMPLE)).texts)
    for path in (GOLDEN / "bench").glob("*.json"):
        text = Page(report(run, path)).text
        for other in ("stream off", "One at a time", "first visible token", "Gaps between tokens",
                      "Output", ", median"):
            assert other not in text, (path, other)


def medians_of(sample: dict) -> dict[str, float]:
    return {name: metric["median"] for name, metric in sample["metrics"].items()}


@pytest.mark.parametrize("name", ["streaming", "streaming-background", "scheduler-online",
                                  "token-speed", "replay", "blocking"])
def test_the_histogram_marks_what_the_tiles_say(run, tmp_path, name):
    path = GOLDEN / f"bench/{name}.json"
    sample = json.loads(path.read_text())
    medians = medians_of(sample)
    assert run("bench", "report", path, "--svg", tmp_path / "svg").returncode == 0
    modes = list({entry["mode"]: None for entry in sample["runs"] if "mode" in entry})
    found = 0
    for mode in modes or [""]:
        for quantity in ("ttft", "itl"):
            prefix = f"{mode}_" if mode else ""
            svg = tmp_path / "svg" / f"{prefix}{quantity}-histogram.svg".replace("_", "-")
            if not svg.exists():
                continue
            marks = dict(re.findall(r">(p\d+) ([0-9.]+) ms</text>", svg.read_text()))
            assert set(marks) == {"p50", "p90", "p99"}
            for percentile, value in marks.items():
                metric = medians.get(f"{prefix}{quantity}_{percentile}")
                if metric is not None:
                    assert float(value) == pytest.approx(metric, rel=1e-3), (svg, percentile)
                    found += 1
    assert found >= 3


# ---- the page's colours --------------------------------------------------------------------------

def looks(css: str, colour: str) -> list[dict[str, str]]:
    """Light and dark; what the second does not name is as in the first."""
    light, dark = re.split(r"@media \(prefers-color-scheme: ?dark\)", css)
    first = dict(re.findall(colour, light))
    return [first, {**first, **dict(re.findall(colour, dark))}]


def test_parts_have_the_pages_colours(run, tmp_path):
    """The same part of TTFT looks the same in a report and in the server's page."""
    page = looks((PAGE / "style.css").read_text(), r"--part-(\w+): (#\w+);")
    result = json.loads(SAMPLE.read_text())
    for request in result["runs"][0]["requests"]:
        request["ttft"]["decode_ms"] = 5  # of answers that come whole
    path = tmp_path / "whole.json"
    path.write_text(json.dumps(result))
    assert run("bench", "report", path, "--svg", tmp_path).returncode == 0
    style, drawing = (tmp_path / "ttft-parts.svg").read_text().split("</style>")
    report_looks = looks(style, r"\.c(\d)\{color:(#\w+)\}")
    legend = re.findall(r'<g class="c(\d)"><rect [^>]*/><text [^>]*>([^<]*)<', drawing)
    keys = [name.split(" and ")[0].replace(" ", "_") for _, name in legend]
    assert set(keys) == set(page[0])
    for (number, _), key in zip(legend, keys):
        assert [one[number] for one in report_looks] == [one[key] for one in page], key


def test_svg_files_are_xml(run, tmp_path):
    folder = tmp_path / "charts"
    result = run("bench", "report", SAMPLE, SAMPLE, "--svg", folder)
    assert result.returncode == 0, result.stderr
    names = {path.name for path in folder.iterdir()}
    assert {"a-ttft-histogram.svg", "b-ttft-histogram.svg", "ttft-cumulative.svg",
            "a-timeline.svg", "ttft-by-prompt.svg"} <= names
    for path in folder.iterdir():
        root = ElementTree.parse(path).getroot()
        assert root.tag == SVG + "svg"
        assert root.find(SVG + "style") is not None
        assert root.attrib["aria-label"]


def test_two_files_side_by_side(run, tmp_path):
    other = changed(tmp_path, "other.json", note="the other")
    page = Page(report(run, SAMPLE, other))
    for title in ("A: TTFT, histogram", "B: TTFT, histogram", "TTFT, cumulative",
                  "A: Parts of TTFT", "B: Parts of TTFT"):
        assert title in page.texts, title
    assert "the other" in page.text
    assert "do not compare" not in page.text
    other = changed(tmp_path, "other.json", workload={"num_requests": 3})
    assert "do not compare" in Page(report(run, SAMPLE, other)).text


def test_texts_of_a_file_are_text(run, tmp_path):
    attack = "</style></svg><script>alert(1)</script>\"' onload=\"x\"&\u202e\x1b" + "W" * 3000
    sample = json.loads(SAMPLE.read_text())
    chart = sample["charts"][0] | {"id": "../../up", "title": attack, "note": attack}
    chart["lines"][0]["name"] = attack
    request = sample["runs"][0]["requests"][0] | {"state": "failed", "error": attack}
    sample["runs"][0]["requests"][0] = request
    path = changed(tmp_path, "x.json", kind=attack, note=attack, charts=[chart],
                   runs=sample["runs"], environment={"model": attack, attack: [attack]},
                   metrics={attack: sample["metrics"]["ttft_p50"] | {"unit": attack}})
    text = report(run, path)
    assert "script" not in Page(text).tags
    assert re.sub("[\u202e\x1b]", "\ufffd", attack) in Page(text).text  # it turns nothing around
    assert "\u202e" not in text and "\x1b" not in text and text.count("</style>") == 1
    assert not {name for name, _ in Page(text).attributes if name.startswith("on")}
    folder = tmp_path / "a/b"
    folder.parent.mkdir()
    assert run("bench", "report", path, "--svg", folder).returncode == 0
    for svg in folder.iterdir():
        assert SVG + "script" not in {e.tag for e in ElementTree.parse(svg).iter()}
    assert {path.name for path in tmp_path.iterdir()} == {"x.json", "a"}


def mutations(rng: random.Random, value):
    """One place of the document replaced by something else."""
    if rng.random() < 0.3 or not isinstance(value, (dict, list)) or not value:
        return rng.choice([None, True, "", "x", -1, 0, 1e308, -1e15, 2**62, [], {}, [[]], [{}]])
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    copy = value.copy()
    copy[key] = mutations(rng, value[key])
    return copy


@pytest.mark.parametrize("seed", range(4))
def test_any_file_gives_a_page_or_an_error(run, tmp_path, seed):
    rng = random.Random(seed)
    sample = json.loads(SAMPLE.read_text())
    path, page = tmp_path / "m.json", tmp_path / "m.html"
    for _ in range(40):
        path.write_text(json.dumps(mutations(rng, sample)))
        result = run("bench", "report", path, SAMPLE, "--html", page)
        assert result.returncode in (0, 1), result.stderr
        if result.returncode == 0:
            Page(page.read_text())
        else:
            assert str(path) in result.stderr


def test_a_file_cut_short_is_an_error(run, tmp_path):
    text = SAMPLE.read_text()
    path = tmp_path / "cut.json"
    for part in (0, 1, len(text) // 2, len(text) - 3):
        path.write_text(text[:part])
        result = run("bench", "report", path, "--html", tmp_path / "out.html")
        assert result.returncode == 1
        assert str(path) in result.stderr
        assert not (tmp_path / "out.html").exists()


@pytest.mark.parametrize("arguments, message", [
    (["--html", "x.html"], "no file"),
    ([SAMPLE], "--html"),
    ([SAMPLE] * 5 + ["--html", "x.html"], "at most 4"),
    (["/nonexistent.json", "--html", "x.html"], "/nonexistent.json"),
    ([SAMPLE, "--html", "/nonexistent/x.html"], "/nonexistent/x.html"),
    ([SAMPLE, "--svg", "/nonexistent/x"], "--svg"),
])
def test_errors_name_what_is_wrong(run, tmp_path, arguments, message):
    result = run("bench", "report", *arguments, cwd=tmp_path)
    assert result.returncode == 1
    assert message in result.stderr
    assert os.listdir(tmp_path) == []
