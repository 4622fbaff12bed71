"""gRPC: the same engine, limits and answers as HTTP, through generated clients."""

import json
import re
import socket
import ssl
import subprocess
import threading
import time
import urllib.request

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_client import address, channel, code_of, generate, text_of
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase)
from h2wire import Client, message
from limits_header import limit

CODE = grpc.StatusCode
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
TOKENIZE_BYTES = limit("LIMIT_TOKENIZE_BYTES")


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("stubs"))


@pytest.fixture(scope="module")
def pb(stubs):
    return stubs[0]


@pytest.fixture(scope="module")
def host(servers, tiny):
    return servers(tiny, "--grpc-port", 0, "--max-queue-ms", 0)  # takes all, on any machine


@pytest.fixture(scope="module")
def stub(host, stubs):
    with channel(host) as open_channel:
        yield stubs[1].InferenceStub(open_channel)


@pytest.fixture(scope="module")
def talker(servers, model):
    """With a chat template."""
    return servers(model, "--grpc-port", 0)


@pytest.fixture
def connect(stubs):
    """connect(server): a stub of its own connection."""
    opened = []

    def make(server, **options):
        opened.append(channel(server, **options))
        return stubs[1].InferenceStub(opened[-1])

    yield make
    for one in opened:
        one.close()


def until(check, seconds=20):
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def idle(server):
    health = server.get("/health")[1]
    return health["running"] == 0 and health["waiting"] == 0


SAMPLING = {"max_tokens": 24, "temperature": 0.8, "seed": 7, "top_p": 0.9, "ignore_eos": True}


# --- what is answered ---------------------------------------------------------------------------


def test_a_stream_says_what_http_says(stub, pb, host):
    got = list(stub.Generate(pb.GenerateRequest(prompt="Hello", sampling=pb.Sampling(**SAMPLING))))
    _, said = host.post("/v1/completions", {"prompt": "Hello", **SAMPLING})
    assert text_of(got) == said["choices"][0]["text"]
    last = got[-1]
    assert last.choices[0].finish_reason == "length"
    assert last.usage.completion_tokens == 24
    assert last.usage.prompt_tokens == said["usage"]["prompt_tokens"]
    assert got[0].id.startswith("cmpl-") and got[0].model == said["model"]
    assert not any(response.id for response in got[1:])
    parts = [value.name for value in last.ttft.DESCRIPTOR.fields if value.name != "total_ms"]
    assert sum(getattr(last.ttft, name) for name in parts) == pytest.approx(last.ttft.total_ms)
    assert last.metrics.tokens_per_second > 0


def test_one_response_says_what_a_stream_says(stub, pb):
    ask = pb.GenerateRequest(prompt="Hello", sampling=pb.Sampling(**SAMPLING))
    whole = stub.GenerateBlocking(ask)
    streamed = list(stub.Generate(ask))
    assert whole.choices[0].text == text_of(streamed)
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage.completion_tokens == 24 and whole.ttft.total_ms > 0
    assert whole.ttft.decode_ms == whole.metrics.generation_time_ms > 0
    assert streamed[-1].ttft.decode_ms == 0


def test_choices(stub, pb):
    ask = pb.GenerateRequest(prompt="Hello", sampling=pb.Sampling(n=3, **SAMPLING))
    whole = stub.GenerateBlocking(ask)
    streamed = list(stub.Generate(ask))
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    assert [choice.text for choice in whole.choices] == [text_of(streamed, i) for i in range(3)]
    assert whole.usage.completion_tokens == 72
    assert sum(response.HasField("usage") for response in streamed) == 1


def test_a_chat(talker, connect, pb):
    stub = connect(talker)
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi ö"}]
    _, said = talker.post("/v1/chat/completions", {"messages": messages, **SAMPLING})
    ask = pb.ChatRequest(messages=[pb.Message(**m) for m in messages],
                         sampling=pb.Sampling(**SAMPLING))
    expected = said["choices"][0]["message"]["content"]
    assert text_of(stub.Chat(ask)) == expected
    assert stub.ChatBlocking(ask).choices[0].text == expected


def test_token_ids_stop_bias_echo(stub, pb, host):
    _, plain = host.post("/v1/completions", {"prompt": [5, 6, 7], **SAMPLING})
    got = stub.GenerateBlocking(pb.GenerateRequest(tokens=pb.TokenIds(ids=[5, 6, 7]),
                                                   sampling=pb.Sampling(**SAMPLING)))
    text = plain["choices"][0]["text"]
    assert got.choices[0].text == text
    stop = text[3:5]
    got = stub.GenerateBlocking(pb.GenerateRequest(
        tokens=pb.TokenIds(ids=[5, 6, 7]), sampling=pb.Sampling(stop=[stop], **SAMPLING)))
    assert got.choices[0].text == text[:text.index(stop)]
    assert got.choices[0].finish_reason == "stop"
    body = {"prompt": "a", "max_tokens": 4, "temperature": 0, "logit_bias": {"9": 100},
            "echo": True, "ignore_eos": True}
    _, biased = host.post("/v1/completions", body)
    got = stub.GenerateBlocking(pb.GenerateRequest(
        prompt="a", echo=True, sampling=pb.Sampling(
            max_tokens=4, temperature=0, logit_bias={9: 100}, ignore_eos=True)))
    assert got.choices[0].text == biased["choices"][0]["text"]


def test_log_probabilities(talker, connect, pb):
    stub = connect(talker)
    body = {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": 2,
            **SAMPLING}
    _, said = talker.post("/v1/chat/completions", body)
    expected = said["choices"][0]["logprobs"]["content"]
    ask = pb.ChatRequest(messages=[pb.Message(role="user", content="a")],
                         sampling=pb.Sampling(logprobs=True, top_logprobs=2, **SAMPLING))
    for rows in ([row for response in stub.Chat(ask) for choice in response.choices
                  for row in choice.logprobs], stub.ChatBlocking(ask).choices[0].logprobs):
        assert [list(row.bytes) for row in rows] == [row["bytes"] for row in expected]
        assert [row.logprob for row in rows] == pytest.approx([row["logprob"] for row in expected])
        assert [len(row.top) for row in rows] == [2] * len(expected)


def test_log_probabilities_of_a_nul_byte(stub, pb):
    def rows_of(responses):
        return [row for response in responses for choice in response.choices
                for row in choice.logprobs]

    def ask(bias, **more):
        sampling = pb.Sampling(logit_bias=bias, logprobs=True, temperature=0, max_tokens=64,
                               ignore_eos=True, **more)
        question = pb.GenerateRequest(prompt="a", sampling=sampling)
        whole = rows_of([stub.GenerateBlocking(question)])
        assert whole == rows_of(stub.Generate(question)) and len(whole) == 64
        return whole

    assert all((row.token, row.bytes) == ("\0", b"\0") for row in ask({2: 100}))
    among = [one.token for row in ask({8: 100}, top_logprobs=5) for one in row.top
             if one.bytes == b"\0"]
    assert among and set(among) == {"\0"}


def test_tokenize(stub, pb, run, tiny):
    text = "Hello\0 wörld 123"
    got = stub.Tokenize(pb.TokenizeRequest(text=text))
    assert b"".join(got.pieces).decode() == text
    assert len(got.tokens) == len(got.pieces) > 3
    words = ("word " * TOKENIZE_BYTES)[:TOKENIZE_BYTES]
    long = stub.Tokenize(pb.TokenizeRequest(text=words))  # on the text worker
    assert b"".join(long.pieces).decode() == words


def test_models(stub, pb, host):
    _, said = host.get("/v1/models")
    model, = stub.ListModels(pb.ListModelsRequest()).models
    assert model.id == said["data"][0]["id"]
    assert model.max_model_len == said["data"][0]["max_model_len"]


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(("fields", "code", "words"), [
    ({}, CODE.INVALID_ARGUMENT, "prompt: must be given"),
    ({"prompt": ""}, CODE.INVALID_ARGUMENT, "prompt"),
    ({"prompt": "a", "sampling": {"max_tokens": 0}}, CODE.INVALID_ARGUMENT, "max_tokens: must be"),
    ({"prompt": "a", "sampling": {"temperature": 3}}, CODE.INVALID_ARGUMENT, "temperature"),
    ({"prompt": "a", "sampling": {"temperature": float("nan")}}, CODE.INVALID_ARGUMENT,
     "temperature: texts must be UTF-8 and numbers finite"),
    ({"prompt": "a", "sampling": {"n": 65}}, CODE.INVALID_ARGUMENT, "n: must be"),
    ({"prompt": "a", "sampling": {"stop": ["x"] * 5}}, CODE.INVALID_ARGUMENT, "stop"),
    ({"prompt": "a", "sampling": {"logit_bias": {-1: 1}}}, CODE.INVALID_ARGUMENT, "logit_bias"),
    ({"prompt": "a", "service": {"model": "other"}}, CODE.NOT_FOUND, "model: \"other\""),
    ({"prompt": "a", "service": {"timeout": -1}}, CODE.INVALID_ARGUMENT, "timeout"),
    ({"tokens": {"ids": [4_000_000_000]}}, CODE.INVALID_ARGUMENT, "prompt"),
    ({"prompt": "a " * 20_000}, CODE.INVALID_ARGUMENT, "the context holds"),
], ids=lambda value: str(value)[:40] if isinstance(value, dict) else None)
def test_bad_questions(stub, pb, fields, code, words):
    for call in (stub.Generate, stub.GenerateBlocking):
        got, details = code_of(call, pb.GenerateRequest(**fields))
        assert got == code and words in details, details


def test_a_chat_without_messages(stub, pb):
    got, details = code_of(stub.Chat, pb.ChatRequest())
    assert got == CODE.INVALID_ARGUMENT and "messages" in details
    got, details = code_of(stub.Chat, pb.ChatRequest(messages=[pb.Message(role="x", content="")]))
    assert got == CODE.INVALID_ARGUMENT and "messages[0].role" in details


def raw_call(host, method, data, **kwargs):
    with channel(host) as open_channel:
        open_channel.unary_unary(method)(data, **kwargs)


@pytest.mark.parametrize("method", ["/firstlight.v1.Inference/Nope", "/nothing", "/a.b/c"])
def test_unknown_methods(host, method):
    got, details = code_of(raw_call, host, method, b"")
    assert got == CODE.UNIMPLEMENTED and method in details


@pytest.mark.parametrize("method", ["Generate", "Chat", "Tokenize"])
def test_no_protobuf(host, method):
    got, details = code_of(raw_call, host, f"/firstlight.v1.Inference/{method}", b"\xff\xff\xff")
    assert got == CODE.INTERNAL and "is no firstlight.v1" in details


def test_a_message_that_is_too_large(stub, pb):
    got, details = code_of(stub.Generate, pb.GenerateRequest(prompt="a" * (9 << 20)))
    assert got == CODE.RESOURCE_EXHAUSTED and "larger than" in details
    got, details = code_of(stub.Tokenize, pb.TokenizeRequest(text="a" * (TOKENIZE_BYTES + 1)))
    assert got == CODE.RESOURCE_EXHAUSTED and f"at most {TOKENIZE_BYTES}" in details


def test_messages_without_number(stub, pb):
    messages = [pb.Message(role="user", content="a")] * 5000
    got, details = code_of(stub.Chat, pb.ChatRequest(messages=messages))
    assert got == CODE.INVALID_ARGUMENT and "1 to 4096 messages, found 5000" in details


def test_compressed_messages(host, stub, pb):
    ask = pb.GenerateRequest(prompt="Hello " * 20, sampling=pb.Sampling(**SAMPLING))
    plain = stub.GenerateBlocking(ask).choices[0].text
    assert stub.GenerateBlocking(ask, compression=grpc.Compression.Gzip).choices[0].text == plain
    got, details = code_of(stub.GenerateBlocking, ask, compression=grpc.Compression.Deflate)
    assert got == CODE.UNIMPLEMENTED and "identity,gzip" in details
    large = pb.TokenizeRequest(text="word " * 100_000)  # on the text worker
    packed = stub.Tokenize(large, compression=grpc.Compression.Gzip)
    assert packed == stub.Tokenize(large)
    bomb = pb.GenerateRequest(prompt="a" * (64 << 20))
    got, _ = code_of(stub.GenerateBlocking, bomb, compression=grpc.Compression.Gzip)
    assert got == CODE.RESOURCE_EXHAUSTED


def test_keys(servers, tiny, tmp_path, connect, pb):
    (tmp_path / "keys").write_text("sk-one\n")
    locked = servers(tiny, "--grpc-port", 0, "--api-key-file", tmp_path / "keys")
    stub = connect(locked)
    ask = pb.GenerateRequest(prompt="a", sampling=pb.Sampling(max_tokens=1))
    for metadata in ((), (("authorization", "Bearer sk-two"),)):
        got, details = code_of(stub.Generate, ask, metadata=metadata)
        assert got == CODE.UNAUTHENTICATED and "API key" in details
    right = (("authorization", "Bearer sk-one"),)
    assert stub.GenerateBlocking(ask, metadata=right).usage.completion_tokens == 1
    with channel(locked) as open_channel:  # probes need none
        health_pb2_grpc.HealthStub(open_channel).Check(health_pb2.HealthCheckRequest())
    locked.stop()


# --- time, room, and those who leave ------------------------------------------------------------


ENDLESS = {"max_tokens": 4000, "n": 8, "ignore_eos": True}  # for the model: seconds, not instants


def test_a_deadline(talker, connect, pb):
    got, _ = code_of(connect(talker).GenerateBlocking, pb.GenerateRequest(
        prompt="a", sampling=pb.Sampling(**ENDLESS)), timeout=0.2)
    assert got == CODE.DEADLINE_EXCEEDED
    until(lambda: idle(talker))


def test_the_servers_own_deadline(talker, connect, pb):
    """That of the request, which the client's library does not know of."""
    got, details = code_of(connect(talker).Generate, pb.GenerateRequest(
        prompt="a", sampling=pb.Sampling(**ENDLESS), service=pb.Service(timeout=0.05)))
    assert got == CODE.DEADLINE_EXCEEDED and "in the time it was given" in details


def prompt_tokens(server):
    """Computed so far."""
    with urllib.request.urlopen(server.url + "/metrics", timeout=10) as page:
        text = page.read().decode()
    return float(re.search(r"^firstlight_prompt_tokens_computed_total\S* (\S+)", text, re.M)[1])


@pytest.mark.parametrize(("beside", "inside", "code"), [
    ("1n", None, "4"), ("1u", 3600, "4"), ("99999999H", 1e-6, "4"), ("99999999H", 3600, "0"),
    ("0S", None, "4"), ("3600S", None, "0"), ("60M", None, "0"), ("3600000m", None, "0"),
])
def test_the_earliest_deadline(host, pb, beside, inside, code):
    """grpc-timeout and the request's own: one that has passed ends the call before its prefill."""
    ask = pb.GenerateRequest(prompt="Hello", sampling=pb.Sampling(max_tokens=2),
                             service=pb.Service(timeout=inside) if inside else None)
    before = prompt_tokens(host)
    with Client(address(host)) as client:
        told = client.grpc("/firstlight.v1.Inference/Generate", message(ask.SerializeToString()),
                           ("grpc-timeout", beside))
    assert told["grpc-status"] == code
    until(lambda: idle(host))
    assert (prompt_tokens(host) == before) == (code == "4")


@pytest.mark.parametrize("timeout", ["5", "S", "123456789S", "5 S", "-5S", "5D"])
def test_a_bad_timeout(host, timeout):
    with Client(address(host)) as client:
        status = client.grpc("/firstlight.v1.Inference/Generate", b"", ("grpc-timeout", timeout))
    assert status["grpc-status"] == "3" and "grpc-timeout" in status["grpc-message"]


def test_cancel_frees_at_once(talker, connect, pb):
    before = talker.get("/health")[1]
    call = connect(talker).Generate(pb.GenerateRequest(prompt="a", sampling=pb.Sampling(**ENDLESS)))
    next(call)
    call.cancel()
    until(lambda: idle(talker))
    after = talker.get("/health")[1]
    assert after["cancelled"] > before["cancelled"]
    assert after["kv_blocks_free"] == after["kv_blocks_total"]


def test_a_full_server(servers, model, connect, pb):
    full = servers(model, "--grpc-port", 0, "--max-requests", 1)
    stub = connect(full)
    runs = stub.Generate(pb.GenerateRequest(prompt="a", sampling=pb.Sampling(
        max_tokens=4000, ignore_eos=True)))
    next(runs)
    with pytest.raises(grpc.RpcError) as refused:
        stub.GenerateBlocking(pb.GenerateRequest(prompt="a"))
    assert refused.value.code() == CODE.RESOURCE_EXHAUSTED
    told = dict(refused.value.trailing_metadata())
    assert int(told["retry-after"]) >= 1 and int(told["retry-after-ms"]) >= 1
    runs.cancel()
    full.stop()


def test_a_thousand_streams(host, stub, pb):
    """On one connection, all at once; as many requests as there are slots."""
    ask = pb.GenerateRequest(prompt="Hello", sampling=pb.Sampling(**SAMPLING))
    expected = stub.GenerateBlocking(ask).choices[0].text
    calls = [stub.Generate(ask) for _ in range(1000)]
    texts = [text_of(call) for call in calls]
    assert texts == [expected] * 1000
    until(lambda: idle(host))


def test_coalescing(servers, model, connect, pb):
    """Fewer messages, the same text, and the first one as early as ever."""
    slow = servers(model, "--grpc-port", 0, "--grpc-coalesce-ms", 10_000)
    ask = pb.GenerateRequest(prompt="Hello", sampling=pb.Sampling(**SAMPLING | {"max_tokens": 60}))
    begun = time.monotonic()
    messages = list(connect(slow).Generate(ask))
    # the first tokens; what gathered, every 10 s; the end
    assert 2 <= len(messages) <= 3 + (time.monotonic() - begun) / 10
    assert len(messages[0].choices[0].text) < len(text_of(messages)) / 2
    assert text_of(messages) == connect(slow).GenerateBlocking(ask).choices[0].text
    slow.stop()


# --- health, reflection, the end ----------------------------------------------------------------


def test_health(host):
    with channel(host) as open_channel:
        health = health_pb2_grpc.HealthStub(open_channel)
        for service in ("", "firstlight.v1.Inference"):
            assert health.Check(health_pb2.HealthCheckRequest(service=service)).status == SERVING
        got, _ = code_of(health.Check, health_pb2.HealthCheckRequest(service="other"))
        assert got == CODE.NOT_FOUND
        watch = health.Watch(health_pb2.HealthCheckRequest(service="other"))
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        watch.cancel()


def test_drain(servers, tiny, connect, pb):
    """Watchers are told, a running stream gets its end, nobody new is let in."""
    server = servers(tiny, "--grpc-port", 0)
    stub = connect(server)
    with channel(server, **{"grpc.use_local_subchannel_pool": 1}) as other:
        watch = health_pb2_grpc.HealthStub(other).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == SERVING
        runs = stub.Generate(pb.GenerateRequest(prompt="a", sampling=pb.Sampling(
            max_tokens=4000, n=8, ignore_eos=True)))
        next(runs)
        server.process.terminate()
        assert next(watch).status == NOT_SERVING
        got, details = code_of(stub.GenerateBlocking, pb.GenerateRequest(prompt="a"))
        assert got == CODE.UNAVAILABLE
        assert list(runs)[-1].usage.completion_tokens == 8 * 255
    assert server.process.wait(30) == 0


def services_by(stream_method, request_type, response_type, open_channel):
    call = open_channel.stream_stream(stream_method,
                                      request_serializer=request_type.SerializeToString,
                                      response_deserializer=response_type.FromString)
    answer = next(call(iter([request_type(list_services="")])))
    return [service.name for service in answer.list_services_response.service]


def test_reflection(host):
    with channel(host) as open_channel:
        for version in ("v1", "v1alpha"):
            names = services_by(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                                reflection_pb2.ServerReflectionRequest,
                                reflection_pb2.ServerReflectionResponse, open_channel)
            assert {"firstlight.v1.Inference", "grpc.health.v1.Health"} <= set(names)
        database = ProtoReflectionDescriptorDatabase(open_channel)
        pool = DescriptorPool(database)
        for name in database.get_services():
            assert pool.FindServiceByName(name).methods
        bias = pool.FindMessageTypeByName("firstlight.v1.Sampling.LogitBiasEntry")
        assert [field.name for field in bias.fields] == ["key", "value"]
        with pytest.raises(KeyError):
            pool.FindMessageTypeByName("firstlight.v1.Samplin")


def test_reflection_as_it_is_used(host):
    """A client that asks one thing after the other, and in between waits."""
    asked = [reflection_pb2.ServerReflectionRequest(file_by_filename="firstlight.proto"),
             reflection_pb2.ServerReflectionRequest(file_by_filename="nothing.proto"),
             reflection_pb2.ServerReflectionRequest(file_containing_symbol="firstlight.v1."),
             reflection_pb2.ServerReflectionRequest()]
    turn = threading.Semaphore(0)

    def ask_in_turn():
        for one in asked:
            yield one
            turn.acquire()

    with channel(host) as open_channel:
        call = open_channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString)
        kinds = []
        for answer in call(ask_in_turn()):
            kinds.append(answer.WhichOneof("message_response"))
            turn.release()
    assert kinds == ["file_descriptor_response"] + ["error_response"] * 3


# --- HTTP/2 without gRPC, TLS -------------------------------------------------------------------


def curl(*arguments):
    return subprocess.run(["curl", "-s", "--max-time", "30", *arguments], capture_output=True,
                          text=True, timeout=60, check=False)


def test_the_api_over_http2(host):
    url = "http://" + address(host)
    models = curl("--http2-prior-knowledge", url + "/v1/models").stdout
    assert json.loads(models) == host.get("/v1/models")[1]
    body = {"prompt": "Hello", "stream": True, **SAMPLING}
    got = curl("--http2-prior-knowledge", url + "/v1/completions", "-d", json.dumps(body)).stdout
    _, said = host.post("/v1/completions", body | {"stream": False})
    chunks = [json.loads(line[6:]) for line in got.splitlines() if line.startswith("data: {")]
    assert "".join(c["choices"][0]["text"] for c in chunks) == said["choices"][0]["text"]
    assert got.endswith("data: [DONE]\n\n")
    wrong = curl("--http2-prior-knowledge", "-i", url + "/v1/completions", "-d", "{}").stdout
    assert wrong.startswith("HTTP/2 400") and "prompt" in wrong
    query = curl("--http2-prior-knowledge", url + "/v1/debug/requests?limit=1").stdout
    assert len(json.loads(query)["data"]) == 1


def test_http1_on_that_port_is_told(host):
    got = curl("-i", "http://" + address(host) + "/v1/models").stdout
    assert got.startswith("HTTP/1.1 400")
    error = json.loads(got.split("\n\n", 1)[1])["error"]
    assert "speaks HTTP/2" in error["message"] and error["type"] == "invalid_request_error"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                    folder / "key.pem", "-out", folder / "cert.pem"], check=True,
                   capture_output=True)
    return folder


def test_tls(servers, tiny, certificate, stubs, pb):
    secret = servers(tiny, "--grpc-port", 0, "--tls-cert", certificate / "cert.pem", "--tls-key",
                     certificate / "key.pem")
    trust = grpc.ssl_channel_credentials((certificate / "cert.pem").read_bytes())
    ask = pb.GenerateRequest(prompt="Hello", sampling=pb.Sampling(**SAMPLING))
    with grpc.secure_channel(address(secret), trust) as open_channel:
        got = list(stubs[1].InferenceStub(open_channel).Generate(ask))
    assert got[-1].usage.completion_tokens == 24
    url = "https://" + address(secret)
    models = curl("--http2", "--cacert", str(certificate / "cert.pem"), url + "/v1/models")
    assert json.loads(models.stdout) == secret.get("/v1/models")[1]
    old = curl("--http1.1", "--cacert", str(certificate / "cert.pem"), url + "/v1/models")
    assert old.returncode != 0  # no protocol in common
    with channel(secret) as plain:
        got, _ = code_of(stubs[1].InferenceStub(plain).GenerateBlocking, ask, timeout=5)
    assert got in (CODE.UNAVAILABLE, CODE.DEADLINE_EXCEEDED)
    assert secret.get("/health")[0] == 200
    assert secret.stop() == 0


def last_bytes(sock) -> bytes:
    try:
        return sock.recv(100)
    except ConnectionError:
        return b""


def test_handshakes_that_come_to_nothing(servers, tiny, certificate):
    """Clients that send nothing, nonsense, half a greeting, or another protocol."""
    secret = servers(tiny, "--grpc-port", 0, "--tls-cert", certificate / "cert.pem", "--tls-key",
                     certificate / "key.pem")
    host, port = address(secret).split(":")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=certificate / "cert.pem")
    tls = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = outgoing.read()
    socks = {}
    for name, data in {"nothing": b"", "nonsense": b"GET / HTTP/1.1\r\n\r\n", "half": hello[:60],
                       "left": hello}.items():
        socks[name] = socket.create_connection((host, int(port)), timeout=30)
        socks[name].sendall(data)
    socks["left"].close()
    begin = time.monotonic()
    assert last_bytes(socks["nonsense"])[:1] in (b"", b"\x15")  # closed, or an alert
    with socket.create_connection((host, int(port)), timeout=30) as plain, \
            context.wrap_socket(plain, server_hostname="127.0.0.1") as none:  # no ALPN: no HTTP/2
        assert last_bytes(none) == b""
    url = "https://" + address(secret)
    models = curl("--http2", "--cacert", str(certificate / "cert.pem"), url + "/v1/models")
    assert json.loads(models.stdout) == secret.get("/v1/models")[1]
    for name in ("nothing", "half"):
        assert last_bytes(socks[name]) == b""
    assert time.monotonic() - begin > 8  # they had their time
    late = socket.create_connection((host, int(port)), timeout=30)
    late.sendall(hello)
    assert secret.stop() == 0  # also in the midst of one
    late.close()


@pytest.mark.parametrize(("flags", "words"), [
    (["--tls-cert", "CERT"], "go together"),
    (["--grpc-port", "0", "--tls-cert", "CERT"], "go together"),
    (["--tls-cert", "CERT", "--tls-key", "KEY"], "--grpc-port"),
    (["--grpc-port", "0", "--tls-cert", "nothing.pem", "--tls-key", "KEY"], "nothing.pem"),
    (["--grpc-port", "0", "--tls-cert", "CERT", "--tls-key", "CERT"], "--tls-key"),
    (["--grpc-port", "70000"], "--grpc-port"),
    (["--grpc-coalesce-ms", "-1"], "--grpc-coalesce-ms"),
])
def test_bad_flags(run, tiny, certificate, flags, words):
    names = {"CERT": certificate / "cert.pem", "KEY": certificate / "key.pem"}
    done = run("serve", "--model", tiny, "--port", 0, *[names.get(flag, flag) for flag in flags])
    assert done.returncode != 0 and words in done.stderr


def test_a_port_that_is_taken(run, tiny, host):
    port = address(host).split(":")[1]
    done = run("serve", "--model", tiny, "--port", 0, "--grpc-port", port)
    assert done.returncode != 0 and "is in use" in done.stderr and "--grpc-port" in done.stderr
