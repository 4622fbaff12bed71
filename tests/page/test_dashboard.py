"""The dashboard: live under load, silent when nobody looks, honest when the stream is lost."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from selenium.webdriver.common.keys import Keys
from stub import FACTS

PARTS = ["receive", "tokenize", "submit", "queue", "cache", "prefill", "first_write"]


def stats(n: int, **changes: object) -> dict:
    """The nth second of a server that does something."""
    part = {key: {"p50_ms": 1, "p95_ms": 2, "mean_ms": 1 + i} for i, key in enumerate(PARTS)}
    return {
        "now_ms": 1_800_000_000_000 + 1000 * n,
        "state": "ok",
        "running": 3,
        "waiting": n,
        "connections": 4,
        "backlog_tokens": 100,
        "kv": {"total": 100, "free": 75, "cached": 50},
        "prefix": {"queries": 100 * n, "hits": 40 * n, "evictions": 2},
        "rates": {"prompt": 800, "generated": 120, "requests": 4},
        "utilisation": {"engine": 0.9, "workers": 0.8},
        "window_s": 60,
        "ttft": {"count": 9, "p50_ms": 64, "p95_ms": 250, "p99_ms": 1240},
        "parts": part,
        "itl": {"count": 50, "p50_ms": 8, "p99_ms": 90, "max_ms": 120},
        "gap": {"promised_ms": 100, "missed": 1, "p95_ms": 130, "p99_ms": 160},
        "step": {"p50_ms": 7, "p99_ms": 30},
        "finished": {"stop": 1, "length": 2, "abort": 0, "timeout": 0, "error": 0},
        "refused": {"429": n, "503": 0, "other": 0},
        "preemptions": 0,
        **changes,
    }


def entry(n: int, finish: str = "stop", **changes: object) -> dict:
    stamps = dict(
        zip(
            [
                "received",
                "parsed",
                "tokenized",
                "queued",
                "admitted",
                "prefill_started",
                "first_token",
                "first_content",
                "finished",
            ],
            [0, 1, 2, 3, 3 + 10 * n, 4 + 10 * n, 54 + 10 * n, 55 + 10 * n, 200 + 10 * n],
        )
    )
    ttft = dict(zip([f"{p}_ms" for p in PARTS], [1, 1, 1, 10 * n, 1, 50, 1]))
    return {
        "id": f"chatcmpl-{n}",
        "request_id": f"r{n}",
        "route": "chat",
        "stream": True,
        "created": 1_800_000_000 + n,
        "received_unix_ms": 1_800_000_000_000 + 100 * n,
        "status": 200,
        "gone": False,
        "finish": finish,
        "choices": 1,
        "prompt_tokens": 40,
        "completion_tokens": 12,
        "timeline": {f"{k}_ms": v for k, v in stamps.items()},
        "cached_tokens": 8,
        "cache": "part",
        "waited": {"for": "turn", "words": f"waited {10 * n} ms behind {n} prompts"},
        "ttft": {**ttft, "total_ms": 55 + 10 * n},
        **changes,
    }


class Feed:
    """A debug stream that the test speaks on."""

    def __init__(self, stub) -> None:
        self.opened, self.closed = [], []
        self.streams: list = []
        stub.debug = self._serve

    def _serve(self, x) -> None:
        done = threading.Event()
        x.stream()
        self.streams.append((x, done))
        self.opened.append(time.monotonic())
        try:
            while not done.wait(0.05):
                x.write(":\n\n")
        except OSError:
            self.closed.append(time.monotonic())

    def send(self, *events: tuple[str, dict]) -> None:
        for name, data in events:
            self.streams[-1][0].event(name, data)

    def start(self, page, n: int = 3) -> None:
        page.wait(lambda: self.streams)
        self.send(
            ("server", FACTS),
            *(("stats", stats(i)) for i in range(n)),
            *(("request", entry(i)) for i in range(1, n + 1)),
        )

    def end(self) -> None:
        self.streams[-1][1].set()


def tile(page, name: str) -> str:
    return page.js(
        """return [...document.querySelectorAll('.tile')].find((t) =>
                      t.querySelector('h3').textContent === arguments[0])?.innerText ?? ''""",
        name,
    )


def test_it_moves_under_load(visit, server) -> None:
    """Real requests: tiles, every chart, the list and its timelines follow."""
    page = visit(server.url, "/#/dashboard")
    page.one(".live[data-kind=live]")
    ink = """return [...document.querySelectorAll('canvas')].map((c) => c.toDataURL())"""
    page.wait(lambda: tile(page, "Running"))
    before = page.js(ink)
    body = {"messages": [{"role": "user", "content": "word " * 200}], "max_tokens": 24}
    with ThreadPoolExecutor(6) as pool:
        asked = [
            pool.submit(
                server.post,
                "/v1/chat/completions",
                {**body, "messages": [{"role": "user", "content": f"{i} " + "word " * 150}]},
            )
            for i in range(24)
        ]
        page.wait(lambda: "\n0\n" not in tile(page, "Running"))
        assert all(a.result()[0] == 200 for a in asked)
    page.wait(lambda: "24 requests" in tile(page, "First token, p50"))
    page.wait(lambda: len(page.all(".requests tbody tr[data-id]")) >= 24)
    page.wait(lambda: all(a != b for a, b in zip(before[:4], page.js(ink)[:4], strict=True)))
    about = page.one(".about").text
    for words in ("SmolLM2", "cpu", "srpf", "online"):
        assert words in about
    row = page.js("""const row = document.querySelector('.requests tbody tr[data-id]');
                     return [row.querySelector('.first-token').textContent,
                             row.querySelectorAll('.bars .part').length]""")
    # Of an answer that comes whole: up to the end of prefill, without decode and the first write.
    assert row[0].endswith("s") and row[1] == 6


def test_every_value_has_its_place(visit, stub) -> None:
    feed = Feed(stub)
    page = visit(stub.url, "/#/dashboard")
    feed.start(page)
    page.wait(lambda: "64 ms" in tile(page, "First token, p50"))
    assert "250 ms" in tile(page, "First token, p95") and "p99 1.24 s" in tile(
        page, "First token, p95"
    )
    assert "2 waiting, engine 90 % busy" in tile(page, "Running")
    assert "120/s" in tile(page, "Generated") and "prompts 800/s, requests 4/s" in tile(
        page, "Generated"
    )
    assert "130 ms" in tile(page, "Gap, p95") and "promised 100 ms, p99 160 ms" in tile(
        page, "Gap, p95"
    )
    assert "25 %" in tile(page, "Memory in use") and "50 % prefix cache" in tile(
        page, "Memory in use"
    )
    assert "40 %" in tile(page, "Prefix cache hits")
    assert "429: 2, 503: 0" in tile(page, "Refused")
    assert len(page.all(".tile.bad")) == 2, "the gap that is not kept, and refusals"
    page.wait(
        lambda: (
            page.one("canvas").get_attribute("aria-label")
            == "Time to the first token, now: p50 64, p95 250, p99 1,240"
        )
    )
    feed.send(
        (
            "waiting",
            {
                "requests": [
                    {
                        "id": "w",
                        "request_id": "w",
                        "waited_ms": 1500,
                        "prompt_tokens": 1024,
                        "ahead": 0,
                    }
                ]
            },
        )
    )
    page.one("#waiting-now", "1 request waiting, 1,024 prompt tokens; the first for 1.50 s")


def bars(page) -> dict:
    """By request: where its bars lie, in percent of the axis."""
    return dict(
        page.js("""return [...document.querySelectorAll('tr[data-id]')].map((r) =>
        [r.dataset.id, [...r.querySelectorAll('.bars .part')].map((p) =>
            [p.className.replace('part part-', ''), parseFloat(p.style.left),
             parseFloat(p.style.width)])])""")
    )


def test_timelines_share_an_axis(visit, stub) -> None:
    feed = Feed(stub)
    page = visit(stub.url, "/#/dashboard")
    feed.start(page, 3)
    page.wait(lambda: len(bars(page)) == 3)
    shown = bars(page)
    assert list(shown) == ["chatcmpl-3", "chatcmpl-2", "chatcmpl-1"], "the newest first"
    longest = 85  # ms to the first content of the third
    for n in (1, 2, 3):
        parts = shown[f"chatcmpl-{n}"]
        assert [p[0] for p in parts] == PARTS
        queue = parts[3]
        assert (
            abs(queue[1] - 100 * 3 / longest) < 0.01
            and abs(queue[2] - 100 * 10 * n / longest) < 0.01
        )
        assert abs(sum(p[2] for p in parts) - 100 * (55 + 10 * n) / longest) < 0.01
    page.click(".choice label", "Whole answer")
    page.wait(lambda: [p[0] for p in bars(page)["chatcmpl-1"]][-1] == "decode")
    page.click(".choice label", "By the clock")
    page.wait(lambda: bars(page)["chatcmpl-3"][0][1] > 0)
    clock = bars(page)
    assert clock["chatcmpl-1"][0][1] == 0
    length = 200 + 230  # the third came 200 ms after the first and took 230 ms
    assert abs(clock["chatcmpl-2"][0][1] - 100 * 100 / length) < 0.01


def test_details_of_a_request(visit, stub) -> None:
    feed = Feed(stub)
    page = visit(stub.url, "/#/dashboard")
    feed.start(page, 1)
    page.wait(lambda: page.all("tr[data-id] button"))
    page.click("tr[data-id] button")
    text = page.one("dialog").text
    for words in ("waited 10 ms behind 1 prompts", "part, 8 of 40 tokens", "chatcmpl-1", "queue"):
        assert words in text
    page.keys(Keys.ESCAPE)
    page.gone("dialog")


def test_refused_and_left_requests(visit, stub) -> None:
    feed = Feed(stub)
    page = visit(stub.url, "/#/dashboard")
    feed.start(page, 1)
    nothing = dict.fromkeys(entry(9)["timeline"])
    feed.send(
        (
            "request",
            entry(
                7,
                "refused",
                status=429,
                ttft=None,
                timeline={**nothing, "received_ms": 0, "parsed_ms": 1},
            ),
        ),
        (
            "request",
            entry(
                8,
                "cancelled",
                ttft=None,
                timeline={
                    **nothing,
                    "received_ms": 0,
                    "parsed_ms": 1,
                    "tokenized_ms": 2,
                    "queued_ms": 3,
                    "finished_ms": 80,
                },
            ),
        ),
    )
    page.one("tr[data-id=chatcmpl-7].failed .answer", "refused, 429")
    assert [p[0] for p in bars(page)["chatcmpl-8"]] == ["receive", "tokenize", "submit", "queue"]
    page.click(".check", "Refused ones too")
    page.wait(lambda: "chatcmpl-7" not in bars(page))


def test_pause_holds_the_list(visit, stub) -> None:
    feed = Feed(stub)
    page = visit(stub.url, "/#/dashboard")
    feed.start(page, 1)
    page.wait(lambda: len(bars(page)) == 1)
    page.click(".section-head button", "Pause")
    feed.send(("request", entry(5)), ("stats", stats(9, running=77)))
    page.wait(lambda: "77" in tile(page, "Running"))
    assert len(bars(page)) == 1
    page.click(".section-head button", "Go on")
    page.wait(lambda: len(bars(page)) == 2)


def test_it_costs_nothing_unless_looked_at(visit, stub) -> None:
    feed = Feed(stub)
    page = visit(stub.url)
    page.one(".welcome")
    assert not feed.opened, "the chat opens none"
    page.click("#tab-dashboard")
    page.wait(lambda: len(feed.opened) == 1)
    page.click("#tab-chat")
    page.wait(lambda: len(feed.closed) == 1)
    page.click("#tab-dashboard")
    page.wait(lambda: len(feed.opened) == 2)
    # Another window in front: the browser says that the page is hidden.
    hide = """Object.defineProperty(document, 'hidden',
                                     {get: () => arguments_hidden, configurable: true});
              document.dispatchEvent(new Event('visibilitychange'));"""
    page.js(hide.replace("arguments_hidden", "true"))
    page.wait(lambda: len(feed.closed) == 2)
    page.js(hide.replace("arguments_hidden", "false"))
    page.wait(lambda: len(feed.opened) == 3)


def test_a_lost_stream_is_told_and_found_again(visit, stub) -> None:
    feed = Feed(stub)
    page = visit(stub.url, "/#/dashboard", refused=True)
    feed.start(page)
    page.one(".live[data-kind=live]", "Live")
    working, stub.debug = stub.debug, lambda x: x.error(503, "not now")
    feed.end()
    page.one(".live[data-kind=old]", "Not connected; tries again in")
    page.one(".live", "old")
    assert "64 ms" in tile(page, "First token, p50"), "what was known stays"
    stub.debug = working
    page.wait(lambda: len(feed.opened) == 2)
    feed.start(page)
    page.one(".live[data-kind=live]", "Live")


def test_a_server_that_shuts_down_says_so(visit, stub) -> None:
    feed = Feed(stub)
    page = visit(stub.url, "/#/dashboard")
    feed.start(page)
    page.one(".live", "Live")
    feed.send(("server", {**FACTS, "state": "draining"}))
    page.one(".live", "the server is shutting down")


def test_a_key_is_asked_for(visit, stub) -> None:
    feed = Feed(stub)
    stub.key = "geheim"
    page = visit(stub.url, "/#/dashboard", refused=True)
    page.one("#api-key").send_keys("geheim")
    page.click("dialog .primary")
    page.gone("dialog")
    feed.start(page)
    page.one(".live[data-kind=live]")


def test_an_old_server_is_told(visit, stub) -> None:
    stub.debug = lambda x: x.error(404, "no such path")
    page = visit(stub.url, "/#/dashboard", refused=True)
    page.one(".live", "This server has no live data.")
