#!/usr/bin/env python3
"""A server under mixed clients for a long time: soak.py BINARY MODEL SECONDS [CLIENTS]

Streams and whole answers over HTTP/1.1, HTTP/2 and gRPC; clients that leave, read slowly, send
nonsense, large bodies, half requests, nothing. In the end nothing is under way, every KV block is
free, the server ends with status 0 and no sanitizer has reported anything.
"""

import collections
import json
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import grpc_client  # noqa: E402
import h2wire  # noqa: E402

REPORT = re.compile(r"(Address|Leak|Thread)Sanitizer|: runtime error: |broken invariant")
WORDS = "the of and to in is you that it he was for on are as with his they I at be this".split()
TEXT, CHAT = "/v1/completions", "/v1/chat/completions"
FLAGS = ["--grpc-port", "0", "--max-request-memory", "64M", "--log-level", "warn",
         "--max-requests", "64", "--drain-timeout", "5"]


class Soak:
    def __init__(self, binary: str, model: str, folder: Path):
        self.pb, _ = grpc_client.generate(folder)
        self.log = folder / "log"
        self.stop = threading.Event()
        self.count = collections.Counter()
        self.faults: list[str] = []
        with self.log.open("w") as log:
            self.process = subprocess.Popen([binary, "serve", "--model", model, "--port", "0",
                                             *FLAGS], stdin=subprocess.DEVNULL, stderr=log,
                                            stdout=subprocess.PIPE, text=True)
        self.port, self.grpc_port = (int(re.search(r"://[0-9.]+:(\d+)",
                                                   self.process.stdout.readline())[1])
                                     for _ in range(2))

    # ---- pieces

    def connect(self, receive: int | None = None) -> socket.socket:
        sock = socket.socket()
        sock.settimeout(120)
        if receive:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        sock.connect(("127.0.0.1", self.port))
        return sock

    @staticmethod
    def request(path: str, body: object, extra: str = "") -> bytes:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n{extra}"
                "\r\n").encode() + data

    @staticmethod
    def read_all(sock: socket.socket) -> bytes:
        """Of a connection that the server closes."""
        parts = []
        while part := sock.recv(65536):
            parts.append(part)
        return b"".join(parts)

    def ask(self, r: random.Random) -> dict:
        words = " ".join(r.choices(WORDS, k=int(r.paretovariate(0.8) * 4) % 400 + 1))
        body = {"max_tokens": r.randint(1, 40), "temperature": r.choice([0, 0.8, 2]),
                "ignore_eos": r.random() < 0.5}
        if r.random() < 0.3:
            body |= {"n": r.randint(1, 4)}
        if r.random() < 0.2:
            body |= {"stop": ["the", "\n"]}
        if r.random() < 0.2:
            body |= {"logprobs": 2}
        return body | {"prompt": words}

    # ---- clients

    def whole(self, r: random.Random) -> str:
        with self.connect() as sock:
            sock.sendall(self.request(TEXT, self.ask(r), "Connection: close\r\n"))
            answer = self.read_all(sock)
        return answer[9:12].decode()

    def streamed(self, r: random.Random) -> str:
        with self.connect() as sock:
            body = self.ask(r) | {"stream": True}
            sock.sendall(self.request(TEXT, body, "Connection: close\r\n"))
            answer = self.read_all(sock)
        if answer[9:12] == b"200" and b"data: [DONE]" not in answer and b'"error"' not in answer:
            self.faults.append(f"half a stream: {answer[-200:]!r}")
        return "stream " + answer[9:12].decode()

    def leaves(self, r: random.Random) -> str:
        with self.connect() as sock:
            data = self.request(TEXT, self.ask(r) | {"stream": r.random() < 0.5, "max_tokens": 60})
            sock.sendall(data[:r.randint(1, len(data))] if r.random() < 0.4 else data)
            time.sleep(r.random() * 0.2)
        return "left"

    def reads_slowly(self, r: random.Random) -> str:
        with self.connect(receive=2048) as sock:
            sock.sendall(self.request(TEXT, self.ask(r) | {"stream": True, "logprobs": 5},
                                      "Connection: close\r\n"))
            for _ in range(r.randint(1, 30)):
                if not sock.recv(r.randint(1, 500)):
                    break
                time.sleep(0.05)
        return "slow"

    def large(self, r: random.Random) -> str:
        pad = {"pad": "x" * r.randint(10_000, 4_000_000)}
        with self.connect() as sock:
            try:
                sock.sendall(self.request(TEXT, self.ask(r) | {"metadata": pad},
                                          "Connection: close\r\n"))
            except ConnectionError:
                pass
            return "large " + self.read_all(sock)[9:12].decode()

    def nonsense(self, r: random.Random) -> str:
        bodies = [b"", b"{", b"[" * 1000, b"[" + b"{}," * 5000 + b"{}]", b"\xff\xfe",
                  b'{"prompt":1}',
                  json.dumps({"prompt": "a", "max_tokens": r.choice([-1, 0, 1e99, "x"])}).encode(),
                  r.randbytes(r.randint(1, 2000)),
                  json.dumps({"prompt": "".join(r.choices("abcdefgh", k=20_000))}).encode()]
        data = self.request(r.choice([TEXT, CHAT]), r.choice(bodies), "Connection: close\r\n")
        if r.random() < 0.3:
            at = r.randrange(len(data))
            data = data[:at] + r.randbytes(3) + data[at + 1:]
        with self.connect() as sock:
            sock.settimeout(30)
            try:
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
                return "nonsense " + self.read_all(sock)[9:12].decode(errors="replace")
            except (ConnectionError, TimeoutError):
                return "nonsense closed"

    def pages(self, r: random.Random) -> str:
        path = r.choice(["/health", "/metrics", "/v1/models", "/v1/debug/requests", "/",
                         "/v1/debug/stats", "/nothing"])
        with self.connect() as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n"
                         "Connection: close\r\n\r\n".encode())
            return "page " + self.read_all(sock)[9:12].decode()

    def over_grpc(self, r: random.Random) -> str:
        ask = self.ask(r)
        sampling = self.pb.Sampling(temperature=ask["temperature"], max_tokens=ask["max_tokens"])
        message = self.pb.GenerateRequest(prompt=ask["prompt"].encode(), sampling=sampling)
        method = r.choice(["Generate", "GenerateBlocking"])
        with h2wire.Client(f"127.0.0.1:{self.grpc_port}", timeout=120) as client:
            streams = [client.ask(f"/firstlight.v1.Inference/{method}",
                                  h2wire.message(message.SerializeToString()))
                       for _ in range(r.randint(1, 4))]
            if r.random() < 0.3:
                return "grpc left"
            status = [client.answer(stream)[0].get("grpc-status") for stream in streams[-1:]]
        return f"grpc {status[0]}"

    def frames(self, r: random.Random) -> str:
        """Frames that no client would send."""
        with h2wire.Client(f"127.0.0.1:{self.grpc_port}", timeout=10) as client:
            try:
                for _ in range(r.randint(1, 20)):
                    payload = r.randbytes(r.randint(0, 60))
                    client.send(h2wire.frame(r.randint(0, 10), r.randint(0, 255), r.randint(0, 9),
                                             payload))
                while client.read():
                    pass
            except (ConnectionError, TimeoutError):
                pass
        return "frames"

    # ---- the run

    def client(self, seed: int) -> None:
        r = random.Random(seed)
        kinds = [self.whole, self.streamed, self.streamed, self.leaves, self.leaves,
                 self.reads_slowly, self.large, self.nonsense, self.pages, self.over_grpc,
                 self.over_grpc, self.frames]
        while not self.stop.is_set():
            kind = r.choice(kinds)
            try:
                self.count[kind(r)] += 1
            except (ConnectionError, TimeoutError, AssertionError) as error:
                self.count[f"{kind.__name__}: {type(error).__name__}"] += 1
                if self.process.poll() is not None:
                    return

    def health(self) -> dict:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=60) as answer:
            return json.load(answer)

    def memory_mb(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024

    def run(self, seconds: float, clients: int) -> None:
        threads = [threading.Thread(target=self.client, args=(seed,), daemon=True)
                   for seed in range(clients)]
        for thread in threads:
            thread.start()
        begin = time.monotonic()
        while (past := time.monotonic() - begin) < seconds and self.process.poll() is None:
            time.sleep(min(seconds - past, 60))
            if self.process.poll() is None:
                print(f"{time.monotonic() - begin:6.0f} s  {self.memory_mb()} MB  "
                      f"{sum(self.count.values())} done", flush=True)
        self.stop.set()
        for thread in threads:
            thread.join(180)

    def verdict(self) -> list[str]:
        for what, n in sorted(self.count.items()):
            print(f"{n:8} {what}")
        faults = list(self.faults)
        if self.process.poll() is None:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                health = self.health()
                if (health["running"], health["waiting"]) == (0, 0) and \
                        health["kv_blocks_free"] == health["kv_blocks_total"]:
                    break
                time.sleep(0.2)
            else:
                faults.append(f"something is left: {health}")
            self.process.terminate()
        try:
            if self.process.wait(120) != 0:
                faults.append(f"the server ended with {self.process.returncode}")
        except subprocess.TimeoutExpired:
            self.process.kill()
            faults.append("the server did not end")
        lines = self.log.read_text(errors="replace").splitlines()
        first = [i for i, line in enumerate(lines) if REPORT.search(line)][:1]
        return faults + (lines[first[0]:first[0] + 60] if first else [])


def main() -> None:
    binary, model, seconds = sys.argv[1:4]
    clients = int(sys.argv[4]) if len(sys.argv) > 4 else 24
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(binary, model, Path(folder))
        soak.run(float(seconds), clients)
        faults = soak.verdict()
    print("\n".join(faults) or "nothing found")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
