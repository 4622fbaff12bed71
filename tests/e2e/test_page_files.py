"""The page's files: over HTTP/1.1 and HTTP/2, gzipped or not, kept or not, without a key."""

import gzip
import html.parser
import re
import subprocess
import urllib.parse

import pytest
from conftest import ROOT
from grpc_client import address
from wire import request

PAGE = ROOT / "src/web/page"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
          "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


@pytest.fixture(scope="module")
def server(servers, tiny, tmp_path_factory):
    """One with a key: the page needs none."""
    keys = tmp_path_factory.mktemp("page") / "keys"
    keys.write_text("secret\n")
    keys.chmod(0o600)
    return servers(tiny, "--api-key-file", keys, "--grpc-port", 0)


def path_of(name: str) -> str:
    return "/" if name == "index.html" else f"/page/{name}"


def test_every_file(server) -> None:
    total = 0
    for file in sorted(PAGE.iterdir()):
        whole = file.read_bytes()
        status, plain, body = request(server, "GET", path_of(file.name))
        assert (status, body) == (200, whole)
        assert plain["content-type"] == TYPES[file.suffix]
        assert "content-encoding" not in plain
        status, headers, body = request(server, "GET", path_of(file.name), Accept_Encoding="gzip")
        assert (status, gzip.decompress(body)) == (200, whole)
        assert headers["content-encoding"] == "gzip"
        assert headers["etag"] == plain["etag"]
        total += len(body)
    assert request(server, "GET", "/page/index.html")[2] == (PAGE / "index.html").read_bytes()
    status, headers, body = request(server, "GET", "/page/chart.js", Accept_Encoding="gzip")
    assert status == 200 and b"Chart.js" in gzip.decompress(body)
    assert total + len(body) < 200_000


def test_rows_of_sampling(server) -> None:
    """The page offers each row of the table, with its range."""
    rows = (ROOT / "src/params/sampling_params.def").read_text()
    names = re.findall(r"^PARAM\((\w+),", rows, re.MULTILINE)
    status, headers, body = request(server, "GET", "/page/sampling_params.js")
    assert status == 200 and headers["content-type"] == TYPES[".js"]
    assert re.findall(r'name: "(\w+)"', body.decode()) == names and "min_p" in names
    assert ('{ name: "top_k", whole: true, above: false, min: -1, max: 1000000, help: "only'
            in body.decode())
    assert "LIMIT" not in body.decode() and "PARAM(" not in body.decode()


def test_headers(server) -> None:
    for path in ("/", "/page/app.js", "/page/chart.js"):
        headers = request(server, "GET", path)[1]
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-cache"
        assert headers["vary"] == "Accept-Encoding, Origin"


def test_kept_by_the_client(server) -> None:
    etag = request(server, "GET", "/page/app.js")[1]["etag"]
    status, headers, body = request(server, "GET", "/page/app.js", If_None_Match=etag,
                                    Accept_Encoding="gzip")
    assert (status, body) == (304, b"")
    assert headers["etag"] == etag and headers["cache-control"] == "no-cache"
    assert headers["content-security-policy"] == POLICY
    assert request(server, "GET", "/", If_None_Match=etag)[0] == 200


def test_head_and_others(server) -> None:
    status, headers, body = request(server, "HEAD", "/", Accept_Encoding="gzip")
    _, got, whole = request(server, "GET", "/", Accept_Encoding="gzip")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) == len(whole)
    assert headers["etag"] == got["etag"]
    assert request(server, "POST", "/", b"x")[0] == 405
    assert request(server, "OPTIONS", "/")[0] == 204


@pytest.mark.parametrize("path", ["/page/none.js", "/page/", "/page/../app.js", "/page/a%2Fb",
                                  "/page/app.js/", "/index.html", "/page", "/page/%00app.js"])
def test_nothing_else(server, path) -> None:
    assert request(server, "GET", path)[0] == 404


def curl(url: str, *flags: str) -> bytes:
    command = ["curl", "-sS", "--max-time", "20", "--http2-prior-knowledge", *flags, url]
    return subprocess.run(command, check=True, capture_output=True, timeout=30).stdout


def test_http2(server) -> None:
    url = f"http://{address(server)}"
    assert curl(f"{url}/page/app.js") == (PAGE / "app.js").read_bytes()
    assert gzip.decompress(curl(f"{url}/", "-H", "Accept-Encoding: gzip")) == (
        PAGE / "index.html").read_bytes()
    etag = request(server, "GET", "/")[1]["etag"]
    head = curl(f"{url}/", "-H", f"If-None-Match: {etag}", "-i").decode()
    assert head.startswith("HTTP/2 304") and POLICY in head


class Markup(html.parser.HTMLParser):
    """What the page's markup loads, and what the policy would refuse in it."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.refused: list[str] = []
        self.in_script = False

    def handle_starttag(self, tag: str, attributes: list) -> None:
        named = dict(attributes)
        self.in_script = tag in ("script", "style")
        self.refused += [f"{tag} {name}" for name in named if name == "style" or name[:2] == "on"]
        self.loads += [named[name] for name in ("src", "href") if named.get(name)
                       and tag in ("script", "link", "img")]

    def handle_data(self, data: str) -> None:
        if self.in_script and data.strip():
            self.refused.append(f"inline: {data.strip()[:40]}")

    def handle_endtag(self, tag: str) -> None:
        self.in_script = False


def test_the_page_loads_only_its_own(server) -> None:
    markup = Markup()
    markup.feed(request(server, "GET", "/")[2].decode())
    assert markup.refused == []
    for url in markup.loads:
        if not url.startswith("data:"):
            assert not urllib.parse.urlsplit(url).netloc
            assert request(server, "GET", urllib.parse.urljoin("/", url))[0] == 200
