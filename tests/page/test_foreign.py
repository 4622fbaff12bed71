"""Pages of others, in a real browser: what they can do with a server on its user's machine."""

import http.server
import threading
from urllib.parse import urlsplit

import pytest
from chromium import PATIENCE, make_driver

# What a page asks, and what it comes to know.
ASK = """
const [url, options, done] = arguments;
fetch(url, options).then(async (r) => done(`${r.type} ${r.status} ${(await r.text()).length}`),
                         () => done("blocked"));
"""


class Empty(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another page</title>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def elsewhere():
    """The port of a web server with an empty page."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield web.server_port
        web.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One in which evil.example is this machine."""
    made = make_driver(tmp_path_factory.mktemp("chromium"),
                       "--host-resolver-rules=MAP evil.example 127.0.0.1")
    made.set_script_timeout(PATIENCE)
    made.set_page_load_timeout(PATIENCE)
    yield made
    made.quit()


def completions(server) -> int:
    return len(server.get("/v1/debug/requests")[1]["data"])


def test_a_foreign_page_gets_nothing(browser, elsewhere, small):
    before = completions(small)
    body = '{"prompt":"a","max_tokens":1}'
    browser.get(f"http://evil.example:{elsewhere}/")
    assert browser.title == "another page"
    ask = browser.execute_async_script
    assert ask(ASK, small.url + "/v1/debug/requests", {}) == "blocked"
    assert ask(ASK, small.url + "/v1/completions", {"method": "POST", "body": body}) == "blocked"
    assert ask(ASK, small.url + "/v1/completions",
               {"method": "POST", "body": body, "headers": {"Authorization": "x"}}) == "blocked"
    # sent without asking first, and not to be read: it must not be computed either
    ask(ASK, small.url + "/v1/completions", {"method": "POST", "body": body, "mode": "no-cors"})
    assert completions(small) == before


def test_a_name_that_was_pointed_here_gets_nothing(browser, small):
    browser.get(f"http://evil.example:{urlsplit(small.url).port}/v1/debug/requests")
    assert "--allowed-host" in browser.page_source
    assert browser.execute_async_script(ASK, "/v1/debug/requests", {}).startswith("basic 403 ")


def test_a_page_of_this_machine_may_ask(browser, elsewhere, small):
    browser.get(f"http://127.0.0.1:{elsewhere}/")
    ask = browser.execute_async_script
    assert ask(ASK, small.url + "/v1/models", {}).startswith("cors 200 ")
    options = {"method": "POST", "body": '{"prompt":"a","max_tokens":1}',
               "headers": {"Content-Type": "application/json"}}
    assert ask(ASK, small.url + "/v1/completions", options).startswith("cors 200 ")
