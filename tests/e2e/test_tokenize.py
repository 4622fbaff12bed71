"""`firstlight tokenize` against the ids that llama.cpp gives (tools/golden_tokenizer.py)."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = ROOT / os.environ.get("FIRSTLIGHT_BIN", "build/firstlight")
MODEL = ROOT / os.environ.get("FIRSTLIGHT_MODEL", "models/SmolLM2-135M-Instruct.Q4_1.gguf")
GOLDEN = json.loads((ROOT / "tests/golden/tokenizer/smollm.json").read_text())
TEXTS = [case for case in GOLDEN["cases"] if "text" in case]
BYTES = [case for case in GOLDEN["cases"] if "hex" in case]


def tokenize(*flags: str, data: bytes, model: Path = MODEL) -> subprocess.CompletedProcess:
    command = [BINARY, "tokenize", "--model", model, *flags]
    return subprocess.run(command, input=data, capture_output=True, timeout=60)


def differences(flags: list[str], expected: list[list[int]]) -> list[tuple]:
    texts = json.dumps([case["text"] for case in TEXTS]).encode()
    done = tokenize("--json", *flags, data=texts)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == len(expected)
    rows = zip(TEXTS, expected, found)
    return [(case["text"], want, got) for case, want, got in rows if want != got]


def test_there_are_enough_texts():
    assert len(TEXTS) >= 600 and len(BYTES) >= 40


def test_special_tokens_are_parsed():
    assert differences([], [case["special"] for case in TEXTS]) == []


def test_special_tokens_stay_text():
    plain = [case.get("plain", case["special"]) for case in TEXTS]
    assert differences(["--no-special"], plain) == []


@pytest.mark.parametrize("case", BYTES, ids=lambda case: case["hex"])
def test_invalid_utf8(case):
    data = bytes.fromhex(case["hex"])
    done = tokenize(data=data)
    assert done.returncode == 0, done.stderr
    assert [int(word) for word in done.stdout.split()] == case["special"]
    plain = tokenize("--no-special", data=data)
    assert [int(word) for word in plain.stdout.split()] == case.get("plain", case["special"])


def test_ids_on_one_line():
    done = tokenize(data=b"Hello world")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"19556 905\n", b"")
    assert tokenize(data=b"").stdout == b"\n"


def test_nothing_is_added_where_the_model_does_not_ask():
    assert tokenize("--add-special", data=b"Hello world").stdout == b"19556 905\n"


@pytest.mark.parametrize("data,part", [
    (b'["a", 1]', "element 1"),
    (b'{"a": 1}', "expected a JSON array of strings"),
    (b'["a"', "line 1"),
    (b'["\xff"]', "line 1"),
    (b"", "line 1"),
])
def test_bad_json(data, part):
    done = tokenize("--json", data=data)
    assert done.returncode == 1
    assert done.stdout == b""
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1 and lines[0].startswith("firstlight tokenize: ") and part in lines[0]


def test_bad_model(tmp_path):
    missing = tokenize(data=b"", model=tmp_path / "none.gguf")
    assert missing.returncode == 1 and b"none.gguf" in missing.stderr
    (tmp_path / "bad.gguf").write_bytes(b"not a model")
    bad = tokenize(data=b"", model=tmp_path / "bad.gguf")
    assert bad.returncode == 1 and b"bad.gguf" in bad.stderr


@pytest.mark.parametrize("flags", [["--nonsense"], ["extra"], ["--json=1"]])
def test_wrong_usage(flags):
    done = tokenize(*flags, data=b"")
    assert done.returncode == 2
    assert done.stderr.decode().startswith("firstlight tokenize: ")


def test_help():
    done = subprocess.run([BINARY, "tokenize", "--help"], capture_output=True, timeout=60)
    assert done.returncode == 0 and b"--no-special" in done.stdout and done.stderr == b""
