#!/usr/bin/env python3
"""Writes the seeds of fuzz_request: heads ("h..."), chat bodies ("c...") and completions ("p...").

    tests/fuzz/request_seeds.py
"""

import json
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[2] / "build/corpus/request"
HEAD = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"

HEADS = {
    "get": "GET /health HTTP/1.1\r\nHost: a\r\n\r\n",
    "http10": "GET /health HTTP/1.0\r\n\r\n",
    "length": HEAD + "Content-Length: 2\r\n\r\n{}GET /",
    "chunked": HEAD + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "hex": HEAD + "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
    "both": HEAD + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    "expect": HEAD + "Expect: 100-continue\r\nContent-Length: +2\r\n\r\n{}",
    "absolute": "GET http://a/health HTTP/1.1\r\nHost: a\r\n\r\n",
}

USER = {"role": "user", "content": "hi"}
CHATS = {
    "plain": {"messages": [USER]},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]},
    "all": {"messages": [{"role": "system", "content": "s"}, USER], "model": "m", "stream": True,
            "stream_options": {"include_usage": True}, "temperature": 0.5, "top_p": 0.9,
            "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "presence_penalty": -1,
            "frequency_penalty": 1, "seed": 1, "stop": ["a", "b"], "max_tokens": 5,
            "max_completion_tokens": 6, "logit_bias": {"5": -1, "6": 2.5}, "ignore_eos": True},
    "choices": {"messages": [USER], "n": 2, "logprobs": True, "top_logprobs": 20,
                "min_tokens": 3, "best_of": 2},
    "unsupported": {"messages": [USER], "n": 65, "best_of": 2, "tools": [{}],
                    "response_format": {"type": "text"}},
    "unicode": {"messages": [{"role": "assistant", "content": "\u00e9\u4e2d\U0001f600\u2028"}]},
}
PROMPTS = {
    "text": {"prompt": "hi", "max_tokens": 3},
    "ids": {"prompt": [1, 2, 3]},
    "one": {"prompt": ["hi"], "stop": "x"},
    "two": {"prompt": ["hi", "ho"], "echo": True, "n": 3},
    "lists": {"prompt": [[1, 2], [3]], "logprobs": 5, "min_tokens": 1},
}


def main() -> None:
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, text in HEADS.items():
        (CORPUS / f"head_{name}").write_bytes(b"h" + text.encode())
    for kind, bodies in (("chat", CHATS), ("prompt", PROMPTS)):
        for name, body in bodies.items():
            (CORPUS / f"{kind}_{name}").write_bytes(kind[0].encode() + json.dumps(body).encode())


if __name__ == "__main__":
    main()
