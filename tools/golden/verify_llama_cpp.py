#!/usr/bin/env python3
"""Checks the golden vectors against a second, independent engine: llama.cpp.

    LLAMA_BIN=DIR build/golden-venv/bin/python tools/golden/verify_llama_cpp.py [F32_GGUF]

DIR holds llama-server and llama-tokenize. Checked: the ids of every prompt; the last position's
log-probabilities of the tiny models (int8 activations move the quantised ones, so only their distance
is printed); and, where F32_GGUF is given (`llama-quantize --allow-requantize MODEL F32_GGUF F32`),
every greedy continuation token by token, and the perplexity of both files, which is written to
tests/golden/perplexity_llama_cpp.json.
"""

import contextlib
import datetime
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np

from reference import GOLDEN, MODEL

BIN = Path(os.environ["LLAMA_BIN"])
EOS = 2
URL = "http://127.0.0.1:18099"
FLOAT_MODELS_TOLERANCE = 1e-4


def post(path: str, body: dict) -> dict:
    request = urllib.request.Request(URL + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as response:
        return json.load(response)


def is_healthy() -> bool:
    try:
        with urllib.request.urlopen(URL + "/health", timeout=1):
            return True
    except (urllib.error.URLError, OSError):
        return False


@contextlib.contextmanager
def server(model: Path, context: int):
    command = [BIN / "llama-server", "-m", model, "-c", str(context), "-t", "2", "-np", "1",
               "-fa", "off", "-ctk", "f32", "-ctv", "f32", "-cram", "0",
               "--host", "127.0.0.1", "--port", URL.rsplit(":", 1)[1]]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not is_healthy():
            assert process.poll() is None and time.monotonic() < deadline, "llama-server: no start"
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


def check_ids(prompts: list[dict]) -> int:
    wrong = 0
    for prompt in prompts:
        command = [BIN / "llama-tokenize", "-m", MODEL, "--stdin", "--ids", "--no-bos",
                   "--log-disable"]
        output = subprocess.run(command, input=prompt["text"].encode(), check=True,
                                capture_output=True).stdout
        if json.loads(output) != prompt["ids"]:
            wrong += 1
            print(f"ids of {prompt['name']} differ")
    return wrong


def check_tiny(row: dict) -> int:
    """0 when the distance of the log-probabilities is within the tolerance or not judged. The bias
    forces a whole character, without which the server reports none; it reports unbiased values."""
    expected = np.load(GOLDEN / "tiny" / f"{row['name']}.npy")[-1].astype(np.float64)
    expected -= np.log(np.exp(expected).sum())
    with server(GOLDEN / "tiny" / f"{row['name']}.gguf", 256):
        answer = post("/completion", {"prompt": row["ids"], "n_predict": 1, "temperature": -1,
                                      "n_probs": len(expected),
                                      "logit_bias": [[ord("a") + 2, 100]]})
    top = answer["completion_probabilities"][0]["top_logprobs"]
    distance = max(abs(entry["logprob"] - expected[entry["id"]]) for entry in top)
    judged = "weights" not in row["what"]  # those are not F32, so llama.cpp rounds activations
    print(f"tiny {row['name']}: {len(top)} log-probabilities, max distance {distance:.2e}")
    return int(judged and distance > FLOAT_MODELS_TOLERANCE)


def continue_greedily(ids: list[int], count: int) -> list[int]:
    """`count` tokens; where the server ends at its end token, it is asked to go on after it (its
    ignore_eos would forbid the token instead)."""
    tokens: list[int] = []
    while len(tokens) < count:
        answer = post("/completion", {"prompt": ids + tokens, "n_predict": count - len(tokens),
                                      "temperature": 0, "return_tokens": True,
                                      "cache_prompt": False})
        tokens += answer["tokens"]
        if answer["stop_type"] == "eos" and tokens[-1:] != [EOS]:
            tokens.append(EOS)
    return tokens


def check_greedy(prompts: list[dict], model: Path) -> int:
    wrong = 0
    with server(model, 1024):
        for prompt in prompts:
            tokens = continue_greedily(prompt["ids"], len(prompt["tokens"]))
            if tokens != prompt["tokens"]:
                wrong += 1
                print(f"continuation of {prompt['name']} differs: {tokens}")
    print(f"greedy: {len(prompts) - wrong} of {len(prompts)} continuations equal")
    return wrong


def measure_perplexity(model: Path, kv: str) -> float:
    command = [BIN / "llama-perplexity", "-m", model, "-f", GOLDEN / "perplexity.txt", "-c", "512",
               "-b", "512", "-t", "2", "-ctk", kv, "-ctv", kv]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(re.search(r"PPL = ([0-9.]+)", result.stdout + result.stderr)[1])


def record_perplexity(f32_model: Path) -> None:
    """What llama.cpp makes of the text: on its quantised path, and in fp32 throughout."""
    figures = {
        "made_by": "tools/golden/verify_llama_cpp.py, llama.cpp of llama-cpp-python 0.3.36",
        "date": datetime.date.today().isoformat(),
        "command": "llama-perplexity -m FILE -f perplexity.txt -c 512 -b 512 -t 2 -ctk KV -ctv KV",
        "q4_1_file_f16_kv": measure_perplexity(MODEL, "f16"),
        "f32_file_f32_kv": measure_perplexity(f32_model, "f32"),
    }
    text = json.dumps(figures, indent=1)
    (GOLDEN / "perplexity_llama_cpp.json").write_text(text + "\n")
    print(text)


def main() -> None:
    prompts = json.loads((GOLDEN / "greedy.json").read_text())["prompts"]
    rows = json.loads((GOLDEN / "tiny/manifest.json").read_text())["models"]
    wrong = check_ids(prompts) + sum(check_tiny(row) for row in rows)
    if len(sys.argv) > 1:
        wrong += check_greedy(prompts, Path(sys.argv[1]))
        record_perplexity(Path(sys.argv[1]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
