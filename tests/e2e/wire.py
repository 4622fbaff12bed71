"""HTTP as bytes: what a client library would not send, and streams read frame by frame."""

import http.client
import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit


def connect(server, timeout: float = 30) -> socket.socket:
    url = urlsplit(server.url)
    return socket.create_connection((url.hostname, url.port), timeout=timeout)


def fields_of(response: http.client.HTTPResponse) -> dict:
    """Names in lower case; the values of fields that came several times, joined."""
    fields: dict[str, str] = {}
    for name, value in response.getheaders():
        name = name.lower()
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def read_response(sock: socket.socket) -> tuple[int, dict, bytes]:
    response = http.client.HTTPResponse(sock)
    response.begin()
    body = response.read()
    return response.status, fields_of(response), body


def raw(server, data: bytes) -> tuple[int, dict, bytes]:
    """Sends these bytes, reads one response."""
    with connect(server) as sock:
        sock.sendall(data)
        return read_response(sock)


def request(server, method: str, path: str, body: bytes | None = None,
            **headers: str) -> tuple[int, dict, bytes]:
    url = urlsplit(server.url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, body, named)
        response = connection.getresponse()
        return response.status, fields_of(response), response.read()
    finally:
        connection.close()


def post_bytes(path: str, body: object, *headers: str) -> bytes:
    """A whole POST request."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def stream(server, path: str, body: dict, timeout: float = 60) -> Iterator[str]:
    """The frames of a stream, without their empty lines."""
    with connect(server, timeout) as sock:
        sock.sendall(post_bytes(path, body | {"stream": True}))
        response = http.client.HTTPResponse(sock)
        response.begin()
        assert response.status == 200, response.read()
        assert response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
        assert response.getheader("Cache-Control") == "no-cache"
        assert response.getheader("X-Accel-Buffering") == "no"
        frame = []
        for line in response:
            if line == b"\n":
                yield "\n".join(frame)
                frame = []
            else:
                frame.append(line.decode().rstrip("\n"))
        assert frame == []


def chunks(server, path: str, body: dict) -> list[dict]:
    """The JSON of a stream's frames; checks what surrounds them."""
    frames = list(stream(server, path, body))
    assert frames[0].startswith(":")
    data = [frame for frame in frames if not frame.startswith(":")]
    assert all(frame.startswith("data: ") for frame in data)
    assert data[-1] == "data: [DONE]"
    return [json.loads(frame[len("data: "):]) for frame in data[:-1]]


def text_of(parts: list[dict]) -> str:
    """What the chunks of a stream say, together."""
    choices = [choice for part in parts for choice in part["choices"]]
    return "".join(c["delta"].get("content", "") if "delta" in c else c["text"] for c in choices)


def error_of(body: bytes) -> dict:
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error
