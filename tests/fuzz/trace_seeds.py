#!/usr/bin/env python3
"""Writes the seeds of fuzz_trace: traces as `serve --record` writes them, of Mooncake, odd ones.

    tests/fuzz/trace_seeds.py
"""

import json
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[2] / "build/corpus/trace"
HEADER = {"schema": "firstlight-trace/1", "block_tokens": 32, "started": "2026-11-21T17:00:00Z"}


def line(at: object, tokens: object, out: object, ids: object = None, **more: object) -> dict:
    fields = {"timestamp": at, "input_length": tokens, "output_length": out}
    return fields | ({} if ids is None else {"hash_ids": ids}) | more


SEEDS = {
    "recorded": [HEADER, line(0, 70, 8, [57, 18], max_tokens=8, stream=True, status=200),
                 line(35, 100, 6, [57, 18, 77]), line(36, 20, 0, []), {"dropped": 3},
                 line(20.5, 33, 12, [9007199254740991])],
    "mooncake": [line(0, 600, 5, [1, 2]), line(0, 600, 5, [1, 3])],
    "unordered": [line(9, 2, 2), line(3, 2, 2), line(3, 1, 1)],
    "wrong_schema": [HEADER | {"schema": "firstlight-trace/2"}],
    "wrong_types": [line("0", 70, 8, [57]), line(0, -1, 1e300, {})],
    "too_many_ids": [HEADER | {"block_tokens": 1}, line(0, 2, 1, [1, 2, 3])],
    "all_empty": [line(0, 0, 5), line(0, 5, 0)],
    "not_json": "{\"timestamp\": 0,\n[1]\n\n\u00e9",
}


def main() -> None:
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, lines in SEEDS.items():
        text = lines if isinstance(lines, str) else "".join(json.dumps(x) + "\n" for x in lines)
        (CORPUS / name).write_bytes(text.encode())


if __name__ == "__main__":
    main()
