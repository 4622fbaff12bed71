#!/usr/bin/env python3
"""What an attack costs the other clients: attacks.py BINARY MODEL SECONDS [ROUNDS] [ATTACK...]

One client streams, one asks for first tokens, one asks for /health, in phases of three kinds, in
turns: nothing else; a neighbour, which sends nothing and takes as much of the processors as the
attackers do, in bursts; the attack, by a process of its own at 127.0.0.2. A line for each figure:
the median of each kind of phase, and what the attack costs beyond the neighbour, which is the
server's doing; below, the share of a processor that each took ("others": what else runs here).
Nothing here can fail: machines differ and are noisy, so the figures are to be read, not tested.
"""

import asyncio
import base64
import collections
import json
import multiprocessing
import os
import random
import re
import ssl
import statistics
import string
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ATTACKER = "127.0.0.2"
GONE = (ConnectionError, asyncio.IncompleteReadError, TimeoutError, ssl.SSLError)


def request(path: str, body: dict, extra: str = "") -> bytes:
    data = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n{extra}"
            "\r\n").encode() + data


async def connect(port: int, source: str = ATTACKER, **tls):
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0), **tls)


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The status of an answer that has a length."""
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(re.search(rb"Content-Length: (\d+)", head)[1]))
    return head[9:12]


# ---- the clients that are watched


class Watched:
    def __init__(self, port: int, key: str):
        self.port, self.gaps, self.ttft, self.health_ms = port, [], [], []
        self.extra = f"Authorization: Bearer {key}\r\n" if key else ""
        self.random = random.Random(1)

    def ask(self, words: str, tokens: int) -> bytes:
        text = f"{words} {self.random.randrange(10**9)}"
        return request(CHAT, {"stream": True, "max_tokens": tokens, "ignore_eos": True,
                              "messages": [{"role": "user", "content": text}]}, self.extra)

    async def tokens(self, data: bytes):
        """When each token came."""
        reader, writer = await connect(self.port, "127.0.0.1")
        try:
            writer.write(data)
            while (line := await reader.readline()) and not line.startswith(b"data: [DONE]"):
                if line.startswith(b"data:") and b'"content"' in line:
                    yield time.monotonic()
        finally:
            writer.close()

    async def stream(self) -> None:
        while True:
            last = None
            async for now in self.tokens(self.ask("Tell me a story", 400)):
                if last:
                    self.gaps.append((now - last) * 1e3)
                last = now

    async def chats(self) -> None:
        while True:
            begin = time.monotonic()
            async for now in self.tokens(self.ask("Hello", 2)):
                self.ttft.append((now - begin) * 1e3)
                break
            await asyncio.sleep(0.1)

    async def health(self) -> None:
        reader, writer = await connect(self.port, "127.0.0.1")
        while True:
            begin = time.monotonic()
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await answer(reader)
            self.health_ms.append((time.monotonic() - begin) * 1e3)
            await asyncio.sleep(0.02)

    async def watch(self, seconds: float) -> dict:
        tasks = [asyncio.create_task(what()) for what in (self.stream, self.chats, self.health)]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(result, asyncio.CancelledError):
                raise result
        return {"gap p50": at(self.gaps, 0.5), "gap p99": at(self.gaps, 0.99),
                "ttft p50": at(self.ttft, 0.5), "ttft p99": at(self.ttft, 0.99),
                "health p50": at(self.health_ms, 0.5), "health p99": at(self.health_ms, 0.99)}


def at(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


# ---- the attacks: each a coroutine (port, count) that goes on until it is cancelled


async def every(seconds: float, count: dict, what) -> None:
    """what() again and again, `seconds` from start to start."""
    while True:
        begin = time.monotonic()
        try:
            status = await what()
        except GONE as error:
            status = type(error).__name__
        count[status] = count.get(status, 0) + 1
        await asyncio.sleep(max(0, seconds - (time.monotonic() - begin)))


async def many(clients: int, per_second: float, count: dict, client) -> None:
    async def one(i: int) -> None:
        await asyncio.sleep(i / per_second)
        await every(clients / per_second, count, client())
    await asyncio.gather(*(one(i) for i in range(clients)))


async def refused_prompts(ports: list[int], count: dict) -> None:
    """47 a second of 63 KB random letters, more than the context holds, from 100 connections."""
    bodies = [request(TEXT, {"max_tokens": 1, "prompt": "".join(random.choices(
        string.ascii_lowercase, k=63_000))}) for _ in range(16)]

    def client():
        kept = []

        async def ask():
            if not kept:
                kept.extend(await connect(ports[0]))
            try:
                kept[1].write(random.choice(bodies))
                return await answer(kept[0])
            except GONE:
                kept.clear()
                raise
        return ask
    await many(100, 47, count, client)


async def handshakes(ports: list[int], count: dict) -> None:
    """50 clients that only do TLS handshakes, two a second each."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])

    async def ask():
        _, writer = await asyncio.wait_for(connect(ports[1], ssl=context), 5)
        writer.transport.abort()
        return "done"
    await many(50, 100, count, lambda: ask)


async def small_requests(ports: list[int], count: dict) -> None:
    """100 a second that each write a line to the log, which nobody reads."""
    async def ask():
        reader, writer = await connect(ports[0])
        try:
            writer.write(request(TEXT, {"prompt": "Hi", "max_tokens": -1}))
            return await answer(reader)
        finally:
            writer.close()
    await many(20, 100, count, lambda: ask)


async def large_bodies(ports: list[int], count: dict) -> None:
    """47 connections that send 8 MiB each without a key, once a second."""
    data = request(TEXT, {"prompt": "x" * (8 << 20)})[:-4096]

    async def ask():
        reader, writer = await connect(ports[0])
        try:
            for start in range(0, len(data), 1 << 16):
                writer.write(data[start:start + (1 << 16)])
                await writer.drain()
            await asyncio.sleep(0.5)
            return "sent"
        finally:
            writer.transport.abort()
    await many(47, 47, count, lambda: ask)


async def connections(ports: list[int], count: dict) -> None:
    """200 a second, more at once than one address may have."""
    async def ask():
        _, writer = await connect(ports[0])
        await asyncio.sleep(2)
        writer.transport.abort()
        return "closed"
    await many(600, 200, count, lambda: ask)


async def cached_bursts(ports: list[int], count: dict) -> None:
    """100 at once, three prompts again and again: work that is asked for, and is to be done."""
    bodies = [request(TEXT, {"max_tokens": 8, "prompt": f"Once upon a time {i} " * 20})
              for i in range(3)]

    async def one(i: int):
        reader, writer = await connect(ports[0])
        try:
            writer.write(bodies[i % 3])
            status = await answer(reader)
        finally:
            writer.close()
        count[status] = count.get(status, 0) + 1

    async def burst():
        await asyncio.gather(*(one(i) for i in range(100)), return_exceptions=True)
        return "bursts"
    await every(2, count, burst)


async def abandoned(ports: list[int], count: dict) -> None:
    """Three prompts of 8 MiB a second whose clients leave at once."""
    letters = "".join(random.choices(string.ascii_lowercase + " ", k=8_000_000))
    data = request(TEXT, {"max_tokens": 1, "prompt": letters})

    async def ask():
        _, writer = await connect(ports[0])
        try:
            writer.write(data)
            await writer.drain()
            return "left"
        finally:
            writer.transport.abort()
    await many(3, 3, count, lambda: ask)


async def neighbour(share: float, count: dict) -> None:
    """So much of a processor, in ten bursts a second."""
    async def burn():
        until = time.process_time() + share / 10
        while time.process_time() < until:
            pass
    await every(0.1, count, burn)


ATTACKS = {"1": refused_prompts, "1tls": handshakes, "2": small_requests, "3": large_bodies,
           "4": cached_bursts, "5": connections, "6": abandoned}


def attack_process(name: str | float, ports: list[int], pipe) -> None:
    async def run() -> dict:
        count: dict = {}
        what = ATTACKS[name](ports, count) if isinstance(name, str) else neighbour(name, count)
        task = asyncio.create_task(what)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, pipe.recv)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return {str(key): n for key, n in count.items()}
    count = asyncio.run(run())
    pipe.send((time.process_time(), count))


# ---- the server


class Server:
    def __init__(self, binary: str, model: str, name: str, folder: Path):
        self.key, flags = "", []
        if name == "1tls":
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:4096", "-nodes", "-subj",
                            "/CN=localhost", "-keyout", folder / "key.pem", "-out",
                            folder / "cert.pem"], check=True, stderr=subprocess.DEVNULL)
            flags = ["--grpc-port", "0", "--tls-cert", folder / "cert.pem", "--tls-key",
                     folder / "key.pem"]
        if name == "3":
            self.key = base64.b64encode(os.urandom(24)).decode()
            keys = folder / "keys"
            keys.touch(0o600)
            keys.write_text(f"{self.key}\n")
            flags = ["--api-key-file", keys]
        self.reads = threading.Event()
        self.reads.set()
        end, stderr = os.pipe()
        if name == "2":
            import fcntl
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, 4096)
        self.process = subprocess.Popen([binary, "serve", "--model", model, "--port", "0", *flags],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=stderr, text=True)
        os.close(stderr)
        threading.Thread(target=self.read_log, args=(end,), daemon=True).start()
        self.ports = [self.port() for _ in range(2 if name == "1tls" else 1)]

    def read_log(self, end: int) -> None:
        while self.reads.wait() and os.read(end, 65536):
            pass

    def port(self) -> int:
        line = self.process.stdout.readline()
        return int(re.search(r":(\d+)\b", line.split("//")[1])[1])

    def threads(self) -> collections.Counter:
        """Seconds of a processor that threads have used, by name."""
        used: collections.Counter = collections.Counter()
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            name = (task / "comm").read_text().strip()
            used[name] += int((task / "schedstat").read_text().split()[0]) / 1e9
        return used

    def end(self) -> None:
        self.reads.set()
        self.process.terminate()
        self.process.wait()


def machine() -> tuple[float, float]:
    """Seconds of a processor: that were stolen, and that were used."""
    ticks = [int(x) for x in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    second = os.sysconf("SC_CLK_TCK")
    return ticks[7] / second, (sum(ticks) - ticks[3] - ticks[4] - ticks[7]) / second


def phase(server: Server, name: str | float | None, seconds: float) -> tuple[dict, dict]:
    """name: an attack, the share of a neighbour, or None."""
    before, used, begin = machine(), server.threads(), time.monotonic()
    ours = -time.process_time()
    if name is not None:
        pipe, theirs = multiprocessing.Pipe()
        attacker = multiprocessing.Process(target=attack_process,
                                           args=(name, server.ports, theirs))
        attacker.start()
        if name == "2":
            server.reads.clear()
        time.sleep(1)
    figures, counts = asyncio.run(Watched(server.ports[0], server.key).watch(seconds)), {}
    if name is not None:
        pipe.send("stop")
        cpu, counts = pipe.recv()
        ours += cpu
        figures["attackers"] = cpu / (time.monotonic() - begin)
        attacker.join()
        server.reads.set()
    after, used, past = machine(), server.threads() - used, time.monotonic() - begin
    ours += time.process_time() + sum(used.values())
    for thread, cpu in used.items():
        figures["cpu " + thread] = cpu / past
    figures["others"] = (after[1] - before[1] - ours) / past
    figures["stolen"] = (after[0] - before[0]) / past
    return figures, counts


def run(binary: str, model: str, name: str, seconds: float, rounds: int) -> None:
    phases: list[list[dict]] = [[], [], []]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(binary, model, name, Path(folder))
        try:
            phase(server, None, 2)
            share = phase(server, name, 2)[0]["attackers"]
            for _ in range(rounds):
                phases[0].append(phase(server, None, seconds)[0])
                phases[1].append(phase(server, share, seconds)[0])
                figures, counts = phase(server, name, seconds)
                phases[2].append(figures)
        finally:
            server.end()
    print(f"{name}: {ATTACKS[name].__doc__}\n   {counts}\n   {'':14}"
          " nothing neighbour attack  attack/neighbour")
    for key in phases[2][0]:
        values = [[f.get(key, 0) for f in kind] for kind in phases]
        median = [statistics.median(v) for v in values]
        line = f"   {key:14}" + "".join(f" {m:8.2f}" for m in median)
        if key.endswith(("p50", "p99")):
            line += f"   x{median[2] / median[1]:.2f}   " + ", ".join(
                f"{min(v):.1f} to {max(v):.1f}" for v in values)
        print(line, flush=True)


def come_first() -> None:
    """The clients that are watched stand for some on another machine: they wait for no processor
    here. Where that is not allowed their figures have the scheduler's delays in them."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        print("the clients that are watched have no real-time priority: run it as root",
              file=sys.stderr)


def main() -> None:
    binary, model, seconds = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    come_first()
    for name in sys.argv[5:] or ATTACKS:
        run(binary, model, name, float(seconds), rounds)


if __name__ == "__main__":
    main()
