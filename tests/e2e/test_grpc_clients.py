"""The examples, as docs/grpc.md says; and HAProxy in front of two servers."""

import re
import shlex
import shutil
import socket
import subprocess
import sys
import time

import grpc
import pytest
from grpc_client import ROOT, address, generate

EXAMPLES = ROOT / "examples"
DOC = (ROOT / "docs/grpc.md").read_text()
ASK = "What is the capital of France?"


@pytest.fixture(scope="module")
def host(servers, model):
    return servers(model, "--grpc-port", 0)


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("stubs"))


def said_by_http(server):
    body = {"messages": [{"role": "user", "content": ASK}], "max_tokens": 64, "temperature": 0}
    return server.post("/v1/chat/completions", body)[1]["choices"][0]["message"]["content"]


def documented(word, folder, host):
    """Runs the commands of docs/grpc.md with that word, in a copy of what they need, as they stand
    there but for the address; the last one's process, and its like with nobody at the address."""
    for name in ("proto", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    lines = re.findall(rf"^(?!apt|pip).*\b{word}.*$",
                       "\n".join(re.findall(r"```sh\n(.*?)```", DOC, re.S)), re.M)
    assert len(lines) == 2
    done = []
    for where in (address(host), "127.0.0.1:1"):
        for line in lines:
            command = shlex.split(line.replace("127.0.0.1:8081", where))
            command[0] = {"python": sys.executable}.get(command[0], command[0])
            process = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                                     timeout=60, check=False)
        done.append(process)
    return done


@pytest.mark.parametrize("word", ["python", "ruby"])
def test_examples(host, tmp_path, word):
    done, nobody = documented(word, tmp_path, host)
    assert done.returncode == 0, done.stderr
    text, _, told = done.stdout.rstrip("\n").rpartition("\n")
    assert text == said_by_http(host)
    assert re.fullmatch(r"\[first token after [0-9.]+ ms, of which [0-9.]+ ms prefill\]", told)
    assert nobody.returncode == 1 and "unavailable" in nobody.stderr.lower()


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture
def proxy(servers, model, tmp_path):
    """HAProxy by examples/haproxy.cfg: its address, and the two servers."""
    pair = [servers(model, "--grpc-port", 0) for _ in range(2)]
    port = free_port()
    config = (EXAMPLES / "haproxy.cfg").read_text()
    for old, new in (("127.0.0.1:8071", f"127.0.0.1:{port}"), ("127.0.0.1:8081", address(pair[0])),
                     ("127.0.0.1:8091", address(pair[1]))):
        assert config.count(old) == 1
        config = config.replace(old, new)
    (tmp_path / "haproxy.cfg").write_text(config)
    process = subprocess.Popen(["/usr/sbin/haproxy", "-db", "-f", tmp_path / "haproxy.cfg"])
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    yield f"127.0.0.1:{port}", pair
    process.terminate()
    process.wait(20)
    for server in pair:
        server.stop()


def finished(server):
    return server.get("/health")[1]["finished"]


def ask(call, request):
    """One that arrives before HAProxy has read the server's GOAWAY is told to ask another."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return call(request)
        except grpc.RpcError as e:
            assert e.code() == grpc.StatusCode.UNAVAILABLE and "ask another" in e.details(), e
            assert time.monotonic() < deadline, e
            time.sleep(0.05)


def test_a_proxy_in_front(proxy, stubs):
    where, (one, two) = proxy
    pb, rpc = stubs
    short = pb.GenerateRequest(prompt="Hello", sampling=pb.Sampling(max_tokens=2))
    long = pb.GenerateRequest(prompt="Hello", sampling=pb.Sampling(max_tokens=400,
                                                                   ignore_eos=True))
    with grpc.insecure_channel(where) as channel:
        stub = rpc.InferenceStub(channel)
        for call in [stub.Generate(short) for _ in range(20)]:
            assert list(call)[-1].usage.completion_tokens == 2
        assert finished(one) > 0 and finished(two) > 0  # both had some
        running = [stub.Generate(long) for _ in range(4)]
        for call in running:
            next(call)
        busy_before = finished(two)
        one.process.terminate()  # drains: its streams go on, nobody new comes
        for _ in range(20):
            assert ask(stub.GenerateBlocking, short).usage.completion_tokens == 2
        for call in running:
            assert list(call)[-1].usage.completion_tokens == 400
        assert one.process.wait(30) == 0
        assert finished(two) >= busy_before + 20
