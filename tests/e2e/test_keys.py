"""API keys: asked for on /v1/, from a file or the environment."""

import json
import socket
import subprocess

import openai
import pytest
from wire import error_of, request

BODY = json.dumps({"prompt": "a", "max_tokens": 1}).encode()


@pytest.fixture(scope="module")
def locked(servers, tiny, tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text("# ours\nsk-one\n\n sk-two \n")
    return servers(tiny, "--api-key-file", path)


@pytest.mark.parametrize("key", ["sk-one", "sk-two"])
def test_right_keys(locked, key):
    assert request(locked, "POST", "/v1/completions", BODY, Authorization=f"Bearer {key}")[0] == 200


@pytest.mark.parametrize("header", [None, "", "sk-one", "Basic sk-one", "Bearer", "Bearer sk-on",
                                    "Bearer sk-one1", "Bearer # ours", "Bearer " + "x" * 5000])
def test_wrong_keys(locked, header):
    headers = {} if header is None else {"Authorization": header}
    for method, path in (("POST", "/v1/completions"), ("GET", "/v1/models")):
        status, answer_headers, body = request(locked, method, path, BODY, **headers)
        assert status == 401
        error = error_of(body)
        assert error["type"] == "authentication_error" and error["code"] == "invalid_api_key"
        assert answer_headers["www-authenticate"] == "Bearer"


def test_probes_need_none(locked):
    assert request(locked, "GET", "/health")[0] == 200
    assert request(locked, "GET", "/ready")[0] == 200


def test_sdk(locked):
    with openai.OpenAI(base_url=locked.url + "/v1", api_key="sk-no", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            client.models.list()
    with openai.OpenAI(base_url=locked.url + "/v1", api_key="sk-two", max_retries=0) as client:
        assert client.models.list().data


def test_environment(servers, tiny, monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_API_KEY", "sk-env")
    server = servers(tiny)
    assert request(server, "GET", "/v1/models")[0] == 401
    assert request(server, "GET", "/v1/models", Authorization="Bearer sk-env")[0] == 200


def test_keys_are_never_logged(locked):
    request(locked, "GET", "/v1/models", Authorization="Bearer sk-one")
    assert not any("sk-one" in line for line in locked.lines)


def test_bad_files(run, tiny, tmp_path):
    for text in (None, "# nothing\n", "x" * 300):
        path = tmp_path / "keys"
        if text is not None:
            path.write_text(text)
        result = run("serve", "--model", tiny, "--port", 0, "--api-key-file", path)
        assert result.returncode == 1 and str(path) in result.stderr


@pytest.mark.parametrize(("host", "keys", "warned"), [
    ("0.0.0.0", False, True),
    ("0.0.0.0", True, False),
    ("::", False, True),
    ("::ffff:127.0.0.1", False, False),
    ("::1", False, False),
    ("127.0.0.1", False, False),
    ("127.9.9.9", False, False),
    ("localhost", False, False),
])
def test_a_server_that_is_open_to_all(binary, tiny, tmp_path, host, keys, warned):
    """It says so before it is ready, and what to do."""
    if ":" in host and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    path = tmp_path / "keys"
    path.write_text("sk-one\n")
    command = [binary, "serve", "--model", tiny, "--host", host, "--port", "0"]
    with subprocess.Popen(command + (["--api-key-file", path] if keys else []),
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if " server.ready " in line:
                    break
            process.terminate()
        finally:
            process.wait(60)
    found = [line for line in said if " warn server.open_to_all " in line]
    assert len(found) == warned, said
    assert all("--api-key-file" in line and "--host" in line for line in found)
    assert " server.ready " in said[-1]
