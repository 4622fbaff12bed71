"""A server of the OpenAI API that answers as a script says and notes when it did.

    with FakeOpenAI(lambda index, body: Answer(texts=["a", "b"], gap=0.01)) as fake:
        ...                     # talk to fake.url
    fake.seen[0].frames[0].at_ns  # just before this frame was whole

Stamps are time.monotonic_ns(), the clock of every stamp of firstlight on the same machine: what a
client sees comes later than the stamp of what it sees, and what the server reads comes later than
the client's stamp of sending it. That holds on a machine however loaded.
"""

import dataclasses
import json
import socket
import struct
import threading
import time
from collections.abc import Callable

PROMPT_TOKENS = 1000  # of request 0; each one more, so that a result tells which is which


@dataclasses.dataclass
class Answer:
    """One answer. `after` counts chunks with content."""

    texts: list[str] = dataclasses.field(default_factory=lambda: ["a", " b", " c"])
    status: int = 200
    message: str = ""  # of an error
    delay: float = 0  # seconds before the head
    gap: float = 0  # seconds before each chunk but the first
    role: bool = True  # a chat stream begins with a chunk that names the role
    comment: str = ""  # a comment before each frame
    newline: str = "\n"
    split: int = 0  # bytes of a write; 0: a frame is a write
    together: bool = False  # all frames in one write
    finish: str | None = "stop"
    usage: bool = True
    cached: int | None = None  # usage.prompt_tokens_details.cached_tokens
    timings: bool = False  # llama.cpp's
    ttft: dict | None = None  # ours
    metrics: dict | None = None  # vLLM's
    done: bool = True
    error_after: int | None = None  # a frame {"error": ...}, then the end
    die_after: int | None = None  # a reset
    for_good: bool = False  # and with it the whole server
    malformed_after: int | None = None
    completion_tokens: int | None = None  # else as many as texts


@dataclasses.dataclass
class Frame:
    kind: str  # "content" and others
    at_ns: int = 0  # before the write that made it whole


@dataclasses.dataclass
class Seen:
    """One request and what became of it."""

    index: int
    path: str
    headers: dict[str, str]
    body: dict
    received_ns: int  # after its last byte had come
    frames: list[Frame] = dataclasses.field(default_factory=list)

    def content_ns(self) -> list[int]:
        return [frame.at_ns for frame in self.frames if frame.kind == "content"]


class Died(Exception):
    """The script wants the connection reset."""


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)  # characters of several bytes, to be cut


class Writer:
    """Chunked transfer coding, cut into writes as the answer says."""

    def __init__(self, sock: socket.socket, seen: Seen, answer: Answer):
        self.sock, self.seen = sock, seen
        self.split, self.newline = answer.split, answer.newline

    def send(self, data: bytes, frame: Frame | None = None, last: int = 0) -> None:
        """Byte `last` ends the frame: the stamp is taken before the write that has it."""
        size = self.split or len(data)
        for at in range(0, len(data), size):
            if frame and at <= last < at + size:
                frame.at_ns = time.monotonic_ns()
                self.seen.frames.append(frame)
            self.sock.sendall(data[at:at + size])

    def frame(self, kind: str, text: str) -> None:
        data = text.encode()
        head = f"{len(data):x}\r\n".encode()
        # the first byte of the empty line, which a reader need not see whole
        last = len(head) + len(data) - len(self.newline)
        self.send(head + data + b"\r\n", Frame(kind), last)


def usage_of(answer: Answer, seen: Seen) -> dict:
    n = len(answer.texts) if answer.completion_tokens is None else answer.completion_tokens
    prompt = PROMPT_TOKENS + seen.index
    usage = {"prompt_tokens": prompt, "completion_tokens": n, "total_tokens": prompt + n}
    if answer.cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": answer.cached}
    return usage


def measurements(answer: Answer, seen: Seen) -> dict:
    out = {"ttft": answer.ttft, "metrics": answer.metrics}
    if answer.timings:
        usage = usage_of(answer, seen)
        out["timings"] = {"cache_n": answer.cached or 0,
                          "prompt_n": usage["prompt_tokens"] - (answer.cached or 0),
                          "prompt_ms": 1.5, "predicted_n": usage["completion_tokens"],
                          "predicted_ms": 2.5}
    return {name: value for name, value in out.items() if value is not None}


class Stream:
    """The frames of one streamed answer, in order."""

    def __init__(self, answer: Answer, seen: Seen):
        self.answer, self.seen, self.chat = answer, seen, "chat" in seen.path

    def chunk(self, delta: dict, **more: object) -> dict:
        choice = {"index": 0, "finish_reason": None}
        choice |= {"delta": delta} if self.chat else {"text": delta.get("content", "")}
        return {"id": f"fake-{self.seen.index}", "choices": [choice | more]}

    def contents(self):
        a = self.answer
        if self.chat and a.role:
            yield "role", dump(self.chunk({"role": "assistant", "content": ""}))
        for i, text in enumerate(a.texts + [None]):
            if i == a.error_after:
                yield "error", dump({"error": {"message": a.message, "type": "server_error"}})
                return
            if i == a.malformed_after:
                yield "malformed", '{"choices": [{"text": "cut sh'
                return
            if i == a.die_after:
                raise Died
            if text is not None:
                if i:
                    time.sleep(a.gap)
                yield "content", dump(self.chunk({"content": text}))
        yield from self.ending()

    def ending(self):
        a = self.answer
        told = measurements(a, self.seen)
        if a.finish:
            last = {} if a.usage else told
            yield "finish", dump(self.chunk({}, finish_reason=a.finish) | last)
        if a.usage:
            yield "usage", dump({"choices": [], "usage": usage_of(a, self.seen)} | told)
        if a.done:
            yield "done", "[DONE]"

    def write(self, writer: Writer, fake: "FakeOpenAI") -> None:
        a, nl = self.answer, self.answer.newline
        comment = f": {a.comment}{nl}{nl}" if a.comment else ""
        texts = ((kind, f"{comment}data: {data}{nl}{nl}") for kind, data in self.contents())
        if not a.together:
            for kind, text in texts:
                if fake.dead:
                    raise Died
                writer.frame(kind, text)
            return
        kinds, frames = zip(*texts)
        writer.frame("together", "".join(frames))
        at_ns = self.seen.frames.pop().at_ns
        self.seen.frames += [Frame(kind, at_ns) for kind in kinds]


class FakeOpenAI:
    """`script(index, body)` gives the Answer to each POST; index counts them as they come."""

    def __init__(self, script: Callable[[int, dict], Answer], models: tuple[str, ...] = ("fake",),
                 key: str | None = None):
        self.script, self.models, self.key = script, models, key
        self.seen: list[Seen] = []
        self.dead = False
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]

    def __enter__(self) -> "FakeOpenAI":
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Takes no more connections, and resets those there are before their next frame."""
        with self.lock:
            if not self.dead:
                self.dead = True
                self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept
                self.listener.close()

    def accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock: socket.socket) -> None:
        """Requests of one connection, one after another."""
        with sock, sock.makefile("rb") as reader:
            try:
                while not self.dead and self.exchange(sock, reader):
                    pass
                if self.dead:
                    raise Died
            except Died:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass  # the client left

    def exchange(self, sock: socket.socket, reader) -> bool:
        start = reader.readline().split()
        if len(start) < 3:
            return False
        headers = {}
        while (line := reader.readline().decode().strip()):
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        data = reader.read(int(headers.get("content-length", 0)))
        received_ns = time.monotonic_ns()
        path = start[1].decode()
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            self.whole(sock, 401, {"error": {"message": f"{self.key[:2]}... it is not"}})
        elif start[0] == b"GET":
            self.whole(sock, 200, {"object": "list", "data": [{"id": m} for m in self.models]})
        else:
            with self.lock:
                seen = Seen(len(self.seen), path, headers, json.loads(data), received_ns)
                self.seen.append(seen)
            self.answer(sock, seen, self.script(seen.index, seen.body))
        return True

    def whole(self, sock: socket.socket, status: int, value: dict,
              seen: Seen | None = None) -> None:
        data = dump(value).encode()
        head = f"HTTP/1.1 {status} Scripted\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(data)}\r\n\r\n"
        if seen:
            seen.frames.append(Frame("content", time.monotonic_ns()))
        sock.sendall(head.encode() + data)

    def answer(self, sock: socket.socket, seen: Seen, a: Answer) -> None:
        time.sleep(a.delay)
        if a.status != 200:
            self.whole(sock, a.status, {"error": {"message": a.message}})
        elif not seen.body["stream"]:
            text = "".join(a.texts)
            choice = {"message": {"content": text}} if "chat" in seen.path else {"text": text}
            value = {"choices": [choice | {"index": 0, "finish_reason": a.finish}]}
            value |= {"usage": usage_of(a, seen)} if a.usage else {}
            self.whole(sock, 200, value | measurements(a, seen), seen)
        else:
            writer = Writer(sock, seen, a)
            writer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                        b"Transfer-Encoding: chunked\r\n\r\n")
            try:
                Stream(a, seen).write(writer, self)
            except Died:
                if a.for_good:
                    self.stop()
                raise
            writer.send(b"0\r\n\r\n")
