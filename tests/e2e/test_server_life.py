"""Start and stop of the server: the ready line, readiness, a port in use, the end by SIGTERM."""

import socket
import time


def test_ready_line_names_url_and_example(server):
    deadline = time.monotonic() + 5  # the line may follow a log line that names the URL too
    while not any("curl" in line for line in server.lines) and time.monotonic() < deadline:
        time.sleep(0.01)
    ready = "\n".join(server.lines)
    assert "curl" in ready and server.url in ready


def test_health_ready_and_models(server):
    assert server.get("/health")[0] == 200
    assert server.get("/ready")[0] == 200
    status, models = server.get("/v1/models")
    assert status == 200 and len(models["data"]) == 1


def test_port_in_use(run, tiny):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--model", tiny, "--port", port)
    assert result.returncode != 0
    assert str(port) in result.stderr and "in use" in result.stderr


def test_sigterm_ends_an_idle_server(servers, tiny):
    server = servers(tiny)
    assert server.stop() == 0
