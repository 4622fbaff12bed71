"""Who may ask through a browser: the origins of pages, and the names that the server answers to."""

import json
import re
import time

import pytest
from h2wire import Client
from wire import error_of, raw, request

BODY = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
FOREIGN = "http://evil.example"
GRPC = re.compile(r"gRPC and HTTP/2 on https?://(\S+)")
# What a page could ask of a server without keys.
ROUTES = [("POST", "/v1/completions"), ("POST", "/v1/chat/completions"), ("GET", "/v1/models"),
          ("GET", "/v1/debug/requests"), ("GET", "/v1/debug/stats"),
          ("GET", "/metrics"), ("GET", "/health"), ("GET", "/"), ("GET", "/nowhere")]


def grpc_address(server) -> str:
    """Its line follows the one that says that the server is ready."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for line in list(server.lines):
            if match := GRPC.search(line):
                return match[1]
        time.sleep(0.01)
    raise AssertionError("no port of gRPC")


@pytest.fixture(scope="module")
def both(servers, tiny):
    """A server of both protocols."""
    return servers(tiny, "--grpc-port", 0)


def over_http2(server, path: str, *fields: tuple[str, str], host: str = "localhost",
               body: bytes = BODY) -> tuple[dict, bytes]:
    with Client(grpc_address(server)) as client:
        client.authority = host
        return client.answer(client.post(path, "application/json", body, *fields))


def has_cors(headers: dict) -> bool:
    return any(name.startswith("access-control-") for name in headers)


@pytest.mark.parametrize("method, path", ROUTES)
@pytest.mark.parametrize("origin", [FOREIGN, "null", "http://localhost.evil.example",
                                    "http://127.0.0.1.evil.example"])
def test_foreign_pages_are_refused(both, method, path, origin):
    status, headers, body = request(both, method, path, BODY if method == "POST" else None,
                                    Origin=origin)
    assert status == 403 and not has_cors(headers) and headers["vary"] == "Origin"
    error = error_of(body)
    assert error["type"] == "permission_error" and error["code"] == "foreign_origin"
    assert "--cors-origin" in error["message"] and origin in error["message"]


def test_foreign_pages_are_refused_over_http2(both):
    fields, body = over_http2(both, "/v1/completions", ("origin", FOREIGN))
    assert fields[":status"] == "403" and not has_cors(fields)
    assert error_of(body)["code"] == "foreign_origin"
    with Client(grpc_address(both)) as client:
        stream = client.ask("/firstlight.v1.Inference/ListModels", b"\0\0\0\0\0",
                            ("origin", FOREIGN))
        fields = client.answer(stream)[0]
        assert fields["grpc-status"] == "7" and "--cors-origin" in fields["grpc-message"]
        assert client.grpc("/firstlight.v1.Inference/ListModels", b"\0\0\0\0\0")[
            "grpc-status"] == "0"


def test_preflights(both):
    ask = {"Access_Control_Request_Method": "POST",
           "Access_Control_Request_Headers": "authorization,x-custom"}
    status, headers, _ = request(both, "OPTIONS", "/v1/completions", Origin=FOREIGN, **ask)
    assert status == 403 and not has_cors(headers)
    status, headers, body = request(both, "OPTIONS", "/v1/completions",
                                    Origin="http://localhost:3000", **ask)
    assert (status, body) == (204, b"")
    assert headers["access-control-allow-origin"] == "http://localhost:3000"
    assert headers["vary"] == "Origin"
    assert "POST" in headers["access-control-allow-methods"]
    assert "x-custom" in headers["access-control-allow-headers"]


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://localhost",
                                    "http://127.0.0.1:1", "http://[::1]:3000", "own"])
def test_pages_of_this_machine_may_ask(both, origin):
    origin = both.url if origin == "own" else origin
    for method, path in (("POST", "/v1/completions"), ("GET", "/v1/debug/stats")):
        status, headers, _ = request(both, method, path, BODY if method == "POST" else None,
                                     Origin=origin)
        assert status == 200 and headers["access-control-allow-origin"] == origin
        assert headers["vary"] == "Origin"
    fields, _ = over_http2(both, "/v1/completions", ("origin", origin))
    assert fields[":status"] == "200" and fields["access-control-allow-origin"] == origin


def test_without_an_origin_nobody_reads(both):
    status, headers, _ = request(both, "GET", "/v1/models")
    assert status == 200 and not has_cors(headers) and headers["vary"] == "Origin"
    status, headers, body = raw(both, b"NONSENSE\r\n\r\n")
    assert status == 400 and not has_cors(headers)
    error_of(body)


def test_listed_pages_may_ask(servers, tiny):
    server = servers(tiny, "--cors-origin", "https://chat.example.com,https://b.example:8443",
                     "--cors-origin", "chrome-extension://abcdef")
    for origin in ("https://chat.example.com", "https://b.example:8443",
                   "chrome-extension://abcdef", "http://localhost:3000"):
        status, headers, _ = request(server, "POST", "/v1/completions", BODY, Origin=origin)
        assert status == 200 and headers["access-control-allow-origin"] == origin
    for origin in (FOREIGN, "http://chat.example.com", "https://b.example", "null"):
        assert request(server, "POST", "/v1/completions", BODY, Origin=origin)[0] == 403
    server.logged(" server.ready ")  # after the warning, if there is one
    assert not any("server.cors" in line for line in server.lines)


def test_all_pages_may_ask_with_a_warning(servers, tiny, tmp_path):
    server = servers(tiny, "--cors-origin", "*")
    for origin in (FOREIGN, "null"):
        status, headers, _ = request(server, "GET", "/v1/models", Origin=origin)
        assert status == 200 and headers["access-control-allow-origin"] == origin
    assert "--api-key-file" in server.logged("server.cors")
    (tmp_path / "keys").write_text("sk-one\n")
    locked = servers(tiny, "--cors-origin", "*", "--api-key-file", tmp_path / "keys")
    assert request(locked, "GET", "/v1/models", Origin=FOREIGN)[0] == 401
    assert request(locked, "GET", "/v1/models", Origin=FOREIGN, Authorization="Bearer sk-one")[
        0] == 200
    locked.logged(" server.ready ")
    assert not any("server.cors" in line for line in locked.lines)


def get(host: bytes | None) -> bytes:
    """HTTP/1.0 may leave the host out."""
    line = b"" if host is None else b"Host: %s\r\n" % host
    return b"GET /v1/models HTTP/1.%d\r\n%s\r\n" % (host is not None, line)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "localhost.", "127.0.0.1:8080",
                                  "127.1.2.3", "[::1]", "[::1]:8080", "10.0.0.5", "", None])
def test_own_names(both, host):
    assert raw(both, get(None if host is None else host.encode()))[0] == 200
    if host:
        assert over_http2(both, "/v1/completions", host=host)[0][":status"] == "200"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "localhost.evil.example",
                                  "127.0.0.1.evil.example:8080"])
def test_other_names_are_refused(both, host):
    """A page whose name was pointed at this machine takes the server for its own."""
    status, headers, body = raw(both, get(host.encode()))
    assert status == 403 and not has_cors(headers)
    error = error_of(body)
    assert error["code"] == "foreign_host" and "--allowed-host" in error["message"]
    fields, body = over_http2(both, "/v1/completions", ("origin", f"http://{host}"), host=host)
    assert fields[":status"] == "403" and "--allowed-host" in error_of(body)["message"]


def test_allowed_names(servers, tiny):
    server = servers(tiny, "--allowed-host", "chat.example.com,b.example",
                     "--allowed-host", "c.example")
    for host in (b"chat.example.com", b"Chat.Example.com:443", b"b.example:1", b"c.example"):
        assert raw(server, get(host))[0] == 200
    assert raw(server, get(b"d.example"))[0] == 403
    # and what a proxy forwards so is the own page
    assert request(server, "POST", "/v1/completions", BODY, Host="b.example",
                   Origin="https://b.example")[0] == 200


def test_keys_and_public_addresses_have_any_name(servers, tiny, tmp_path):
    (tmp_path / "keys").write_text("sk-one\n")
    locked = servers(tiny, "--api-key-file", tmp_path / "keys")
    bearer = {"Authorization": "Bearer sk-one"}
    assert request(locked, "GET", "/v1/models", Host="any.example", **bearer)[0] == 200
    assert request(locked, "GET", "/v1/models", Host="any.example", Origin=FOREIGN, **bearer)[
        0] == 403
    public = servers(tiny, "--host", "0.0.0.0")
    assert request(public, "GET", "/v1/models", Host="any.example")[0] == 200
    assert request(public, "GET", "/v1/models", Host="any.example", Origin=FOREIGN)[0] == 403


@pytest.mark.parametrize("fields, code", [
    ({"Host": "localhost", "Origin": FOREIGN}, "foreign_origin"),
    ({"Host": "localhost", "Origin": "http://" + "a" * 600}, "foreign_origin"),
    ({"Host": "evil.example"}, "foreign_host"), ({"Host": "a" * 600}, "foreign_host")])
def test_refusals_do_not_wait_for_the_body(both, fields, code):
    """Over HTTP/2 too, where nobody announces a length."""
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    status, headers, body = raw(
        both, f"POST /v1/completions HTTP/1.1\r\n{head}Content-Length: 1000\r\n\r\n".encode())
    assert status == 403 and error_of(body)["code"] == code
    assert not has_cors(headers) and headers["vary"] == "Origin"
    with Client(grpc_address(both), timeout=10) as client:
        client.authority = fields["Host"]
        origin = [("origin", fields["Origin"])] if "Origin" in fields else []
        stream = client.open("/v1/completions", ("content-type", "application/json"), *origin)
        answer, body = client.answer(stream)
        assert answer[":status"] == "403" and error_of(body)["code"] == code
        assert not has_cors(answer)


def test_an_allowed_page_reads_a_refusal_before_the_body(servers, tiny, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("sk-one\n")
    server = servers(tiny, "--api-key-file", keys, "--cors-origin", "http://good.example")
    for origin, allowed in (("http://good.example", True), (FOREIGN, False)):
        status, headers, _ = raw(
            server, f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\n"
                    "Content-Length: 1000\r\n\r\n".encode())
        assert status == (401 if allowed else 403)
        assert headers.get("access-control-allow-origin") == (origin if allowed else None)


def test_refusals_are_counted(servers, tiny):
    server = servers(tiny)
    request(server, "GET", "/v1/models", Origin=FOREIGN)
    request(server, "GET", "/v1/models", Host="evil.example")
    page = request(server, "GET", "/metrics")[2].decode()
    for reason in ("foreign_origin", "foreign_host"):
        pattern = r'refused_total\{[^}]*status="403",reason="%s"\} 1\b' % reason
        assert re.search(pattern, page), page


@pytest.mark.parametrize("flag, value", [
    ("--cors-origin", "chat.example.com"),
    ("--cors-origin", "https://chat.example.com/"),
    ("--cors-origin", "null"),
    ("--cors-origin", ""),
    ("--allowed-host", "https://chat.example.com"),
    ("--allowed-host", "chat.example.com:80"),
    ("--allowed-host", "*"),
])
def test_flags_are_checked(run, tiny, flag, value):
    result = run("serve", "--model", tiny, flag, value)
    assert result.returncode == 2 and flag in result.stderr
