"""A server of answers that no model gives on demand: hostile ones, slow ones, errors.

The page and its headers are those of a real firstlight; the API is the test's.
"""

import http.server
import json
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TTFT = {
    "receive_ms": 0.1,
    "tokenize_ms": 0.2,
    "submit_ms": 0.1,
    "queue_ms": 180.0,
    "cache_ms": 0.6,
    "prefill_ms": 60.0,
    "decode_ms": 0.0,
    "first_write_ms": 1.0,
    "total_ms": 242.0,
}
LAST = {
    "ttft": TTFT,
    "metrics": {"tokens_per_second": 70.5},
    "usage": {
        "prompt_tokens": 40,
        "completion_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 32},
    },
    "waited": {"for": "turn", "words": "waited 180 ms behind two prompts of 1,024 tokens"},
    "cache": "part",
}


class Exchange:
    """One request, to be answered by the test, in a thread of its own."""

    def __init__(self, handler: http.server.BaseHTTPRequestHandler, body: dict | None) -> None:
        self.handler = handler
        self.body = body
        self.headers = handler.headers

    def reply(self, status: int, body: dict, **headers: object) -> None:
        data = json.dumps(body).encode()
        self._head(
            status, {"Content-Type": "application/json", "Content-Length": len(data)}, headers
        )
        self.handler.wfile.write(data)

    def error(self, status: int, message: str, type_: str = "error", **headers: object) -> None:
        self.reply(status, {"error": {"message": message, "type": type_, "code": None}}, **headers)

    def stream(self) -> None:
        self._head(200, {"Content-Type": "text/event-stream"}, {"Connection": "close"})
        self.write(": accepted\n\n")

    def _head(self, status: int, *headers: dict) -> None:
        self.handler.send_response(status)
        for name, value in {k: v for each in headers for k, v in each.items()}.items():
            self.handler.send_header(name.replace("_", "-"), str(value))
        self.handler.end_headers()
        self.handler.close_connection = True

    def write(self, text: str) -> None:
        self.handler.wfile.write(text.encode())
        self.handler.wfile.flush()

    def event(self, name: str, data: object) -> None:
        self.write(f"event: {name}\ndata: {json.dumps(data)}\n\n")

    def text(self, text: str) -> None:
        self.chunk({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})

    def chunk(self, chunk: dict) -> None:
        self.write(f"data: {json.dumps(chunk)}\n\n")

    def finish(self, reason: str = "stop", **more: object) -> None:
        self.chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        self.chunk({"choices": [], **LAST, **more})
        self.write("data: [DONE]\n\n")


Answer = Callable[[Exchange], None]


def say(*pieces: str) -> Answer:
    """The answer in these pieces."""

    def answer(x: Exchange) -> None:
        x.stream()
        for piece in pieces:
            x.text(piece)
        x.finish()

    return answer


def until_gone(x: Exchange, gone: threading.Event) -> None:
    """Goes on until the client has left."""
    x.stream()
    try:
        for n in range(1_000_000):
            x.text(f"word {n} ")
            if gone.wait(0.01):
                return
    except OSError:
        gone.set()


FACTS = {
    "version": "0",
    "model": "stub",
    "engine": "cpu",
    "policy": "srpf",
    "profile": "online",
    "n_ctx": 2048,
    "slots": 8,
    "threads": 2,
    "cpu": "avx2",
    "kv_type": "bf16",
    "kv_blocks": 64,
    "prefix_cache": True,
    "max_decode_gap_ms": 100,
    "max_queued_requests": 8,
    "sampling": {"temperature": 0.25},
    "now_ms": 0,
    "state": "ok",
}


def facts_only(x: Exchange) -> None:
    """A debug stream on which nothing happens, until its reader leaves."""
    x.stream()
    x.event("server", FACTS)
    while True:
        time.sleep(0.1)
        x.write(":\n\n")


class Stub:
    """`chat` answers chats, `debug` the debug stream; `asked` collects what was asked."""

    def __init__(self, real: str) -> None:
        self.real = real
        self.chat: Answer = say("Hello.")
        self.debug: Answer = facts_only
        self.state = "ok"
        self.key = ""
        self.asked: list[dict] = []
        self.debugged = 0
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                stub.get(self)

            def do_POST(self) -> None:
                stub.post(self)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def get(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        x = Exchange(handler, None)
        if handler.path == "/" or handler.path.startswith("/page/"):
            self._pass_on(handler)
        elif handler.path == "/health":
            x.reply(200, {"status": self.state})
        elif self._refused(x):
            pass
        elif handler.path == "/v1/models":
            x.reply(200, {"data": [{"id": "stub"}]})
        elif handler.path == "/v1/debug/stream":
            self.debugged += 1
            self._answer(self.debug, x)
        else:
            x.error(404, "no such path")

    def post(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        x = Exchange(handler, body)
        if not self._refused(x):
            self.asked.append(body)
            self._answer(self.chat, x)

    @staticmethod
    def _answer(answer: Answer, x: Exchange) -> None:
        try:
            answer(x)
        except OSError:
            pass  # the browser left

    def _refused(self, x: Exchange) -> bool:
        if not self.key or x.headers.get("Authorization") == f"Bearer {self.key}":
            return False
        x.error(401, "expected an API key", "authentication_error")
        return True

    def _pass_on(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        with urllib.request.urlopen(self.real + handler.path, timeout=10) as response:
            body = response.read()
            handler.send_response(response.status)
            for name, value in response.headers.items():
                if name.lower() not in ("connection", "content-length", "date"):
                    handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
