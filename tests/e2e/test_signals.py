"""SIGHUP reads keys and certificates anew, all of them or none; no other signal ends the server by
accident."""

import re
import signal
import ssl
import subprocess
import time

import pytest
from wire import connect, post_bytes, read_response, request

URL = re.compile(r" url=https?://([0-9.:]+)")
LONG = {"prompt": "Once upon a time", "ignore_eos": True, "max_tokens": 200}


def lines_of(server, event: str) -> list[str]:
    return [line for line in server.lines if f" {event} " in line]


def hang_up(server) -> str:
    """The log's answer to a SIGHUP."""
    before = len(lines_of(server, "server.reload"))
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if len(found := lines_of(server, "server.reload")) > before:
            return found[-1]
        time.sleep(0.01)
    raise AssertionError("no answer to SIGHUP:\n" + "\n".join(server.lines))


def status_with(server, key: str) -> int:
    return request(server, "GET", "/v1/models", Authorization=f"Bearer {key}")[0]


def write_keys(path, text: str, mode: int = 0o600) -> None:
    """As one should: whoever reads finds the old file or the new one."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(mode)
    new.rename(path)


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys"
    write_keys(path, "sk-old\nsk-both\n")
    return path


def test_keys(servers, tiny, keys):
    server = servers(tiny, "--api-key-file", keys)
    assert [status_with(server, key) for key in ("sk-old", "sk-both", "sk-new")] == [200, 200, 401]
    write_keys(keys, "sk-new\nsk-both\nsk-more\n")
    assert status_with(server, "sk-new") == 401
    assert " info server.reload api_keys=3 " in hang_up(server)
    assert [status_with(server, key) for key in ("sk-old", "sk-both", "sk-new")] == [401, 200, 200]
    assert not any("sk-" in line for line in server.lines)
    assert server.stop() == 0


@pytest.mark.parametrize(("text", "mode", "why"), [
    ("# nobody\n", 0o600, "has no API key"),
    ("x" * 300, 0o600, "a key has 300 bytes"),
    ("sk-new\n", 0o602, "written by everybody"),
    (None, 0, "No such file"),
])
def test_a_bad_file_changes_nothing(servers, tiny, keys, text, mode, why):
    server = servers(tiny, "--api-key-file", keys)
    if text is None:
        keys.unlink()
    else:
        write_keys(keys, text, mode)
    said = hang_up(server)
    assert " error server.reload kept=all " in said and str(keys) in said and why in said
    assert [status_with(server, key) for key in ("sk-old", "sk-new")] == [200, 401]
    write_keys(keys, "sk-new\n")
    assert " info server.reload " in hang_up(server)
    assert [status_with(server, key) for key in ("sk-old", "sk-new")] == [401, 200]
    assert server.stop() == 0


def test_requests_go_on_and_are_counted_by_their_key(servers, model, keys):
    """Whose place in the file another key takes: its request ends, and is still its own."""
    server = servers(model, "--api-key-file", keys, "--max-requests-per-client", 1)
    old, both, new = (f"Authorization: Bearer sk-{name}" for name in ("old", "both", "new"))

    def ask(key: str) -> int:
        with connect(server) as sock:
            sock.sendall(post_bytes("/v1/completions", {"prompt": "a", "max_tokens": 1}, key))
            return read_response(sock)[0]

    with connect(server, 120) as first, connect(server, 120) as second:
        for sock, key in ((first, old), (second, both)):
            sock.sendall(post_bytes("/v1/completions", LONG | {"stream": True}, key))
            assert sock.recv(5) == b"HTTP/"  # taken
        write_keys(keys, "sk-new\nsk-both\n")
        assert " info server.reload " in hang_up(server)
        assert ask(new) == 200  # though sk-old, which stood there, has one under way
        assert ask(both) == 429
        assert ask(old) == 401
        for sock in (first, second):
            got = b""
            while part := sock.recv(65536):
                got += part
                if b"data: [DONE]" in got:
                    break
            assert b'"finish_reason":"length"' in got
    assert ask(both) == 200
    assert server.stop() == 0


def make_certificate(folder, name: str) -> None:
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    f"/CN={name}", "-keyout", folder / f"{name}.key", "-out",
                    folder / f"{name}.pem"], check=True, capture_output=True)
    (folder / f"{name}.key").chmod(0o600)


def served_certificate(server) -> str:
    host, port = URL.search(server.logged(" server.grpc "))[1].split(":")
    return ssl.get_server_certificate((host, int(port)), timeout=20)


def test_certificates(servers, tiny, keys, tmp_path):
    for name in ("one", "two"):
        make_certificate(tmp_path, name)
    texts = {name: (tmp_path / f"{name}.pem").read_text() for name in ("one", "two")}
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.symlink_to("one.pem")
    key.symlink_to("one.key")
    server = servers(tiny, "--grpc-port", 0, "--tls-cert", cert, "--tls-key", key,
                     "--api-key-file", keys)
    assert served_certificate(server) == texts["one"]

    cert.unlink()
    cert.symlink_to("two.pem")
    write_keys(keys, "sk-new\n")
    said = hang_up(server)  # a certificate and a key that do not belong together
    assert " error server.reload kept=all " in said and str(key) in said
    assert served_certificate(server) == texts["one"]
    assert [status_with(server, name) for name in ("sk-old", "sk-new")] == [200, 401]

    key.unlink()
    key.symlink_to("two.key")
    (tmp_path / "two.key").chmod(0o604)
    assert "everybody may read" in hang_up(server)
    assert served_certificate(server) == texts["one"]

    (tmp_path / "two.key").chmod(0o640)
    assert "api_keys=1 certificate=read" in hang_up(server)
    assert served_certificate(server) == texts["two"]
    assert [status_with(server, name) for name in ("sk-old", "sk-new")] == [401, 200]
    assert server.stop() == 0


def test_nothing_to_read_anew(servers, tiny):
    server = servers(tiny)
    assert " info server.reload files=none " in hang_up(server)
    assert server.get("/health")[1]["status"] == "ok"
    assert server.stop() == 0


def test_user_signals_are_ignored(servers, tiny):
    server = servers(tiny, "--log-level", "debug")
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        server.process.send_signal(number)
        assert server.logged(f"server.signal signal={int(number)} ignored=yes")
    assert server.get("/health")[1]["status"] == "ok"
    assert server.stop() == 0


def test_a_private_key_that_everybody_may_read(run, tiny, tmp_path):
    make_certificate(tmp_path, "one")
    (tmp_path / "one.key").chmod(0o644)
    result = run("serve", "--model", tiny, "--port", 0, "--grpc-port", 0, "--tls-cert",
                 tmp_path / "one.pem", "--tls-key", tmp_path / "one.key")
    assert result.returncode == 1
    assert str(tmp_path / "one.key") in result.stderr and "chmod o-r" in result.stderr


def test_a_private_key_with_a_password(run, tiny, tmp_path):
    """Nobody is asked for it."""
    make_certificate(tmp_path, "one")
    locked = tmp_path / "locked.key"
    subprocess.run(["openssl", "pkey", "-in", tmp_path / "one.key", "-aes256", "-passout",
                    "pass:secret", "-out", locked], check=True, capture_output=True)
    locked.chmod(0o600)
    result = run("serve", "--model", tiny, "--port", 0, "--grpc-port", 0, "--tls-cert",
                 tmp_path / "one.pem", "--tls-key", locked, start_new_session=True)
    assert result.returncode == 1 and str(locked) in result.stderr


def test_a_key_file_that_everybody_may_write(run, servers, tiny, keys):
    keys.chmod(0o622)
    result = run("serve", "--model", tiny, "--port", 0, "--api-key-file", keys)
    assert result.returncode == 1
    assert str(keys) in result.stderr and "0622" in result.stderr and "chmod" in result.stderr
    keys.chmod(0o644)
    server = servers(tiny, "--api-key-file", keys)
    assert str(keys) in server.logged(" warn file.readable ")
    keys.chmod(0o640)
    server = servers(tiny, "--api-key-file", keys)
    assert server.stop() == 0
    assert not any("file.readable" in line for line in server.all_lines())
