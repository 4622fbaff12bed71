#!/usr/bin/env python3
"""Streams an answer over gRPC.

docs/grpc.md says how what it imports is made.

    firstlight serve --model MODEL --grpc-port 8081
    python examples/grpc_chat.py 127.0.0.1:8081 "What is the capital of France?"
"""

import sys

import firstlight_pb2 as messages
import firstlight_pb2_grpc as services
import grpc


def main() -> int:
    address, text = sys.argv[1], sys.argv[2]
    ask = messages.ChatRequest(
        messages=[messages.Message(role="user", content=text)],
        sampling=messages.Sampling(max_tokens=64, temperature=0))
    with grpc.insecure_channel(address) as channel:
        last = None
        try:
            for last in services.InferenceStub(channel).Chat(ask, timeout=60):
                for choice in last.choices:
                    print(choice.text, end="", flush=True)
        except grpc.RpcError as error:
            print(f"{error.code().name}: {error.details()}", file=sys.stderr)
            return 1
    print(f"\n[first token after {last.ttft.total_ms:.1f} ms, of which "
          f"{last.ttft.prefill_ms:.1f} ms prefill]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
