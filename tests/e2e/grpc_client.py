"""A client of proto/firstlight.proto, its code generated as any user would."""

import importlib
import re
import sys
import time
from pathlib import Path

import grpc
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]


def generate(folder: Path):
    """The modules (messages, services) of proto/firstlight.proto, made in folder."""
    code = protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={folder}",
                        f"--grpc_python_out={folder}", "firstlight.proto"])
    assert code == 0
    sys.path.insert(0, str(folder))
    return (importlib.import_module("firstlight_pb2"),
            importlib.import_module("firstlight_pb2_grpc"))


def address(server) -> str:
    """HOST:PORT of the server's gRPC port, which it prints once it is ready."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for line in list(server.lines):
            if match := re.search(r"server\.grpc url=https?://([0-9.:]+)", line):
                return match[1]
        time.sleep(0.01)
    raise AssertionError("no gRPC port was printed:\n" + "\n".join(server.lines))


def channel(server, **options) -> grpc.Channel:
    pairs = [("grpc.max_receive_message_length", -1), *options.items()]
    return grpc.insecure_channel(address(server), options=pairs)


def code_of(call, *arguments, **kwargs) -> tuple[grpc.StatusCode, str]:
    """How the call fails; streams are read to their end."""
    try:
        answer = call(*arguments, **kwargs)
        if hasattr(answer, "__iter__") and hasattr(answer, "cancel"):
            list(answer)
    except grpc.RpcError as error:
        return error.code(), error.details()
    raise AssertionError("the call did not fail")


def text_of(responses, index: int = 0) -> str:
    return "".join(choice.text for response in responses for choice in response.choices
                   if choice.index == index)
