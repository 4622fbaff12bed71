"""What the black box tests share: the binary, the model, a way to run it, and a server.

FIRSTLIGHT_BIN (default build/firstlight) and FIRSTLIGHT_MODEL (default the model of `make model`)
choose what is tested.
"""

import dataclasses
import json
import os
import queue
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
READY_SECONDS = 60
STOP_SECONDS = 40  # the drain deadline, and some
REPORT = re.compile(r"(Address|Leak|Thread)Sanitizer|: runtime error: ")
READY = re.compile(r"firstlight ready on (http://[0-9.]+:[0-9]+)")

Run = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(scope="session")
def binary() -> Path:
    path = Path(os.environ.get("FIRSTLIGHT_BIN", ROOT / "build/firstlight"))
    assert path.exists(), f"{path} does not exist: run make"
    return path.resolve()


@pytest.fixture(scope="session")
def model() -> Path:
    default = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
    path = Path(os.environ.get("FIRSTLIGHT_MODEL", default))
    assert path.exists(), f"{path} does not exist: run make model"
    return path.resolve()


@pytest.fixture(scope="session")
def tiny() -> Path:
    """A random model that loads in milliseconds."""
    return GOLDEN / "tiny/base.gguf"


@pytest.fixture(scope="session")
def run(binary: Path) -> Run:
    """run("tokenize", "--model", path, stdin="text", timeout=60): the finished process."""

    def run_binary(*arguments: object, stdin: str = "", timeout: float = 60, **kwargs):
        command = [str(binary), *map(str, arguments)]
        return subprocess.run(command, input=stdin, capture_output=True, text=True,
                              timeout=timeout, check=False, **kwargs)

    return run_binary


@dataclasses.dataclass
class Server:
    """A running `firstlight serve`. `lines` collects what it prints, from both streams."""

    process: subprocess.Popen
    url: str
    lines: list[str]
    arrived: queue.Queue = dataclasses.field(default_factory=queue.Queue, repr=False)

    def get(self, path: str, timeout: float = 10) -> tuple[int, dict]:
        return self._send(urllib.request.Request(self.url + path), timeout)

    def post(self, path: str, body: object, timeout: float = 120) -> tuple[int, dict]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        return self._send(urllib.request.Request(self.url + path, data, headers), timeout)

    @staticmethod
    def _send(request: urllib.request.Request, timeout: float) -> tuple[int, dict]:
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def stop(self) -> int:
        """Ends it by its pid, as an operator would; returns its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def logged(self, words: str) -> str:
        """The first line with these words: a thread of its own writes the log, so it may come a
        moment after what it tells of."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if words in line:
                    return line
            time.sleep(0.01)
        raise AssertionError(f"no line with {words}:\n" + "\n".join(self.lines))

    def all_lines(self) -> list[str]:
        """After its end: everything it printed."""
        try:
            while self.arrived.get(timeout=STOP_SECONDS) is not None:
                pass
        except queue.Empty:
            pass
        self.arrived.put(None)  # for whoever asks again
        return self.lines

    def reports(self) -> list[str]:
        """After its end, of a binary with sanitizers: its lines from the first report on."""
        self.all_lines()
        first = [i for i, line in enumerate(self.lines) if REPORT.search(line)][:1]
        return self.lines[first[0]:] if first else []


def collect_lines(process: subprocess.Popen) -> tuple[list[str], queue.Queue]:
    """Reads both streams of the process until they end, so that it never blocks on a full pipe; the
    queue then ends with None."""
    lines: list[str] = []
    arrived: queue.Queue = queue.Queue()

    def read() -> None:
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            arrived.put(line)
        arrived.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines, arrived


def wait_ready(process: subprocess.Popen, arrived: queue.Queue, lines: list[str]) -> str:
    """The URL that the ready line names."""
    deadline = time.monotonic() + READY_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        try:
            line = arrived.get(timeout=left)
        except queue.Empty:
            break
        if line is None:
            raise AssertionError("the server ended before it was ready:\n" + "\n".join(lines))
        if match := READY.search(line):
            return match[1]
    process.kill()
    raise AssertionError(f"not ready after {READY_SECONDS} s:\n" + "\n".join(lines))


def start_server(binary: Path, model: Path, *flags: object) -> Server:
    command = [str(binary), "serve", "--model", str(model), "--port", "0", *map(str, flags)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    lines, arrived = collect_lines(process)
    return Server(process, wait_ready(process, arrived, lines), lines, arrived)


@pytest.fixture(scope="session")
def servers(binary: Path) -> Iterator[Callable[..., Server]]:
    """servers(model, *flags): starts one; all that still run are ended with the session."""
    started: list[Server] = []

    def start(model: Path, *flags: object) -> Server:
        started.append(start_server(binary, model, *flags))
        return started[-1]

    yield start
    reports = []
    for server in started:
        server.stop()
        reports += server.reports()
    assert not reports, "\n".join(reports)


@pytest.fixture(scope="session")
def server(servers: Callable[..., Server], model: Path) -> Server:
    """The default model with default flags, shared by every test that only asks."""
    return servers(model)


@pytest.fixture(scope="session")
def small(servers: Callable[..., Server], tiny: Path) -> Server:
    """A random model with default flags: answers at once, and talks nonsense."""
    return servers(tiny)
