"""Debian's Prometheus over a real server: contrib/prometheus and contrib/grafana as they are, but
for their windows, which are minutes there and seconds here."""

import json
import random
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "contrib/prometheus/firstlight.rules.yml"
CONFIG = ROOT / "contrib/prometheus/prometheus.yml"
DASHBOARD = ROOT / "contrib/grafana/firstlight.json"
PATIENCE = 120  # seconds for what takes a few on a machine that is not busy
WINDOW = "10s"
PANELS = {"Time to first token", "Where the first token's time goes", "Requests", "Queue",
          "Throughput", "Decode gap against its promise", "KV blocks", "Prefix cache", "Rejections"}


def promtool(*arguments: object) -> None:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def dashboard_queries() -> list[str]:
    """Of every panel, with Grafana's variables filled in."""
    found = []
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", WINDOW)
            found.append(re.sub(r"\$\w+", ".*", query))
    return found


def metrics_of(text: str) -> set[str]:
    return set(re.findall(r"(?:vllm:|firstlight_|process_)\w+", text))


# --- the files ---

def test_promtool_takes_them() -> None:
    promtool("check", "config", CONFIG)
    promtool("check", "rules", RULES)


def test_alerts_fire_when_they_should() -> None:
    promtool("test", "rules", Path(__file__).with_name("rules.test.yml"))


def test_every_alert_is_tested() -> None:
    tests = Path(__file__).with_name("rules.test.yml").read_text()
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    assert len(alerts) >= 6 and all(alert in tests for alert in alerts)


def test_the_dashboard_is_whole() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert PANELS <= {panel["title"] for panel in panels}
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["description"] and panel["datasource"]["uid"] == "${datasource}"
               for panel in panels)
    places = [(p["gridPos"]["x"], p["gridPos"]["y"], p["gridPos"]["w"], p["gridPos"]["h"])
              for p in panels]
    for i, (x, y, w, h) in enumerate(places):
        assert x + w <= 24
        assert not any(x < x2 + w2 and x2 < x + w and y < y2 + h2 and y2 < y + h
                       for x2, y2, w2, h2 in places[i + 1:])


# --- a server, its load, and a Prometheus that watches it ---

class Prometheus:
    def __init__(self, process: subprocess.Popen, url: str, log: Path) -> None:
        self.process, self.url, self.log = process, url, log

    def get(self, path: str, **parameters: str) -> dict:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is still starting
                raise
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expression: str) -> list[dict]:
        return self.get("query", query=expression)["result"]

    def until(self, done: Callable[[], object]) -> object:
        """Asks until it is true; Prometheus may be slow to start, and the machine busy."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()
            try:
                if value := done():
                    return value
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.1)
        raise AssertionError(f"not within {PATIENCE} s:\n{self.log.read_text()[-2000:]}")


def hurried(text: str) -> str:
    """The rules as they are, with short windows, and firing at once."""
    text = text.replace("[5m]", f"[{WINDOW}]")
    return re.sub(r"^( +for: ).*$", r"\g<1>0s", text, flags=re.M)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


@pytest.fixture(scope="module")
def watched(servers, model):
    return servers(model)


@pytest.fixture(scope="module")
def prometheus(watched, tmp_path_factory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    address = watched.url.removeprefix("http://")
    config = CONFIG.read_text().replace("127.0.0.1:8080", address)
    config = re.sub(r"_interval: 5s", "_interval: 250ms", config)
    assert address in config and config.count("250ms") == 2
    (folder / "prometheus.yml").write_text(config)
    (folder / RULES.name).write_text(hurried(RULES.read_text()))
    port, log = free_port(), folder / "log"
    command = ["prometheus", f"--config.file={folder}/prometheus.yml",
               f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
    with log.open("w") as out, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                                stderr=subprocess.STDOUT, cwd=folder) as process:
        try:
            found = Prometheus(process, f"http://127.0.0.1:{port}", log)
            found.until(lambda: found.query("firstlight_ready == 1"))
            yield found
        finally:
            process.terminate()


class Load:
    """Clients that ask for long prompts, each another one, as long as it is entered. Every few
    seconds in which it is not enough there are more of them, whatever the machine can do."""

    MOST, EVERY_S, TOKENS = 96, 4, 1200

    def __init__(self, server) -> None:
        self.server = server
        self.over = threading.Event()
        self.threads: list[threading.Thread] = []
        self.grown = 0.0

    def grow(self) -> None:
        if time.monotonic() - self.grown < self.EVERY_S or len(self.threads) >= self.MOST:
            return
        self.grown = time.monotonic()
        for _ in range(12):
            thread = threading.Thread(target=self.ask, args=(len(self.threads),))
            self.threads.append(thread)
            thread.start()

    def ask(self, seed: int) -> None:
        draw = random.Random(seed)
        while not self.over.is_set():
            prompt = [draw.randrange(100, 40000) for _ in range(self.TOKENS)]
            self.server.post("/v1/completions", {"prompt": prompt, "max_tokens": 4,
                                                 "ignore_eos": True, "timeout": 15})

    def __enter__(self) -> "Load":
        self.grow()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()


def alert(prometheus: Prometheus, name: str) -> list[dict]:
    return [a for a in prometheus.get("alerts")["alerts"] if a["labels"]["alertname"] == name]


def test_ttft_p99_fires_under_load(prometheus, watched) -> None:
    """More prompts at once than are computed in half a second: the rule's own threshold."""
    assert alert(prometheus, "FirstlightTtftHigh") == []
    with Load(watched) as load:
        def firing() -> list[dict]:
            load.grow()
            alerts = alert(prometheus, "FirstlightTtftHigh")
            return [a for a in alerts if a["state"] == "firing"]
        fired = prometheus.until(firing)
        (p99,) = prometheus.until(lambda: prometheus.query("firstlight:ttft_seconds:p99"))
        # while there is something to see, every panel shows it
        for query in dashboard_queries():
            if not query.endswith("> 0"):  # nobody is refused
                prometheus.until(lambda query=query: prometheus.query(query))
    assert float(fired[0]["value"]) > 0.5 and float(p99["value"][1]) > 0.5
    assert fired[0]["labels"]["severity"] == "warning"
    assert "for the first token" in fired[0]["annotations"]["summary"]


def test_the_parts_add_up(prometheus) -> None:
    """In Prometheus too: since the start, so that nothing depends on when it scraped."""
    def close() -> bool:
        parts = prometheus.query("sum(firstlight_ttft_part_seconds_sum)")
        whole = prometheus.query("sum(vllm:time_to_first_token_seconds_sum)")
        a, b = float(parts[0]["value"][1]), float(whole[0]["value"][1])
        return b > 0 and abs(a - b) < 1e-3 * b
    prometheus.until(close)


def test_rules_are_healthy(prometheus) -> None:
    groups = prometheus.until(lambda: [
        g for g in [prometheus.get("rules")["groups"]]
        if all(rule["health"] != "unknown" for group in g for rule in group["rules"])])[0]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == len(re.findall(r"- (?:record|alert): ", RULES.read_text()))
    assert [rule for rule in rules if rule["health"] != "ok" or rule.get("lastError")] == []


def test_every_query_is_understood(prometheus) -> None:
    queries = dashboard_queries()
    assert len(queries) > 30
    for query in queries:
        prometheus.query(query)  # fails with what Prometheus says


def test_every_metric_exists(prometheus, watched) -> None:
    """Named by the dashboard and the rules, found in a real scrape."""
    with urllib.request.urlopen(watched.url + "/metrics", timeout=30) as response:
        page = response.read().decode()
    there = set(re.findall(r"^([\w:]+)[{ ]", page, re.M))
    used = metrics_of(RULES.read_text()) | metrics_of(" ".join(dashboard_queries()))
    assert len(used) > 20 and used <= there, used - there
    known = {name for name in prometheus.get("label/__name__/values")}
    assert used <= known, used - known
    recorded = set(re.findall(r"- record: (\S+)", RULES.read_text()))
    named = set(re.findall(r"firstlight:[\w:]+", RULES.read_text()))
    assert named == recorded
