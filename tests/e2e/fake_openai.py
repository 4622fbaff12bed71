"""A scripted server with the OpenAI API that notes when it received and sent what."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeServer(ThreadingHTTPServer):
    """`log`: per request {"prompt", "received", "content": [stamps]}, seconds of time.monotonic.

    A prompt that contains "break" has its connection cut after the first word, "refuse" gets 503,
    "garble" a chunk that is no JSON.
    """

    daemon_threads = True
    words = ("One", " two", " three", " four")
    gap_seconds = 0.01

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.log: list[dict] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeServer

    def log_message(self, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(200, {"object": "list", "data": [{"id": "fake-model", "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body.get("prompt") or body["messages"][-1]["content"]
        entry = {"prompt": prompt, "body": body, "received": time.monotonic(), "content": []}
        self.server.log.append(entry)
        if "refuse" in prompt:
            self._answer(503, {"error": {"message": "the fake refuses", "type": "x"}})
        elif body.get("stream"):
            self._stream(prompt, entry)
        else:
            text = "".join(self.server.words)
            entry["content"].append(time.monotonic())
            self._answer(200, {"id": "x", "choices": [self._choice(text, body, "stop")],
                               "usage": self._usage()})

    def _answer(self, status: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _usage(self) -> dict:
        return {"prompt_tokens": 5, "completion_tokens": len(self.server.words),
                "total_tokens": 5 + len(self.server.words)}

    @staticmethod
    def _choice(text: str, body: dict, finish: str | None) -> dict:
        if "prompt" in body:
            return {"index": 0, "text": text, "finish_reason": finish}
        kind = "delta" if body.get("stream") else "message"
        return {"index": 0, kind: {"content": text}, "finish_reason": finish}

    def _frame(self, data: str) -> None:
        frame = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
        self.wfile.flush()

    def _stream(self, prompt: str, entry: dict) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._frame(json.dumps({"choices": [self._choice("", entry["body"], None)]}))
        for word in self.server.words:
            time.sleep(self.server.gap_seconds)
            entry["content"].append(time.monotonic())
            if "garble" in prompt:
                self._frame("{no json")
            self._frame(json.dumps({"choices": [self._choice(word, entry["body"], None)]}))
            if "break" in prompt:
                self.close_connection = True
                return
        self._frame(json.dumps({"choices": [self._choice("", entry["body"], "stop")]}))
        self._frame(json.dumps({"choices": [], "usage": self._usage()}))
        self._frame("[DONE]")
        self.wfile.write(b"0\r\n\r\n")


@contextlib.contextmanager
def fake_server() -> Iterator[FakeServer]:
    server = FakeServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
