#!/usr/bin/env python3
"""Writes the seeds of fuzz_sse: streams as servers of the OpenAI API write them, and odd ones.

    tests/fuzz/sse_seeds.py
"""

import json
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[2] / "build/corpus/sse"
PARTS = ("receive", "tokenize", "submit", "queue", "cache", "prefill", "first_write", "total")


def data(*chunks: object, newline: str = "\n") -> str:
    texts = [c if isinstance(c, str) else json.dumps(c, ensure_ascii=False) for c in chunks]
    return "".join(f"data: {text}{newline}{newline}" for text in texts)


def choice(**fields: object) -> dict:
    return {"choices": [{"index": 0} | fields]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7,
                                  "prompt_tokens_details": {"cached_tokens": 3}}}
OURS = {"ttft": {f"{part}_ms": 1.5 for part in PARTS},
        "metrics": {"time_to_first_token_ms": 2.5, "queue_time_ms": 0}}
LLAMA = {"timings": {"cache_n": 1, "prompt_n": 4, "predicted_n": 6, "prompt_ms": 1.25}}
SEEDS = {
    "chat": ": ping\n\n" + data(choice(delta={"role": "assistant", "content": ""}),
                                choice(delta={"content": "\u00e9\U0001f600"}),
                                choice(delta={}, finish_reason="stop"), USAGE | OURS, "[DONE]"),
    "completion": data(choice(text="a", finish_reason=None), choice(text="", finish_reason="length")
                       | LLAMA, "[DONE]", newline="\r\n"),
    "reasoning": data(choice(delta={"reasoning_content": "a", "content": None}), newline="\r"),
    "error": data(choice(text="a"), {"error": {"message": "gone", "code": 500}}),
    "old_error": data({"object": "error", "message": "gone"}),
    "detail": json.dumps({"detail": "Not Found"}),
    "malformed": data('{"choices":[{"text":'),
    "wrong_types": data({"choices": 1}, {"usage": {"prompt_tokens": -1}},
                        {"timings": {"prompt_n": 1e300, "predicted_n": "x"}, "ttft": []}),
    "fields": "\ufeffevent: x\nid: 1\nretry: 5\ndata: a\ndata:b\ndata\n\n:\n\rdata: c\r\n\r\n",
}


def main() -> None:
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, text in SEEDS.items():
        (CORPUS / name).write_bytes(text.encode())


if __name__ == "__main__":
    main()
