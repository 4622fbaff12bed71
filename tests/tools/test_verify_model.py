"""tools/verify-model finds what it is there for, without transformers: firstlight itself, on a good
model, is the reference of another one."""

import importlib.machinery
import importlib.util
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "tests/golden/tiny"
BINARY = os.environ.get("FIRSTLIGHT_BIN", str(ROOT / "build/firstlight"))


def load_tool():
    path = str(ROOT / "tools/verify-model")
    loader = importlib.machinery.SourceFileLoader("verify_model", path)
    spec = importlib.util.spec_from_loader("verify_model", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


tool = load_tool()


class Stub:
    """A reference of the same shape as tool.Reference."""

    def __init__(self, model: Path):
        self.own = tool.Firstlight(BINARY, str(model), 1)
        self.ctx = 64

    def ids(self, texts):
        return self.own.ids(texts)

    def with_special(self, text):
        return self.own.ids([text])[0] if text else []

    def logits(self, ids):
        return self.own.logits(ids)


def verify(model: Path, reference: Path):
    rows = tool.verify(tool.Firstlight(BINARY, str(model), 1), Stub(reference), 4, 1, None)
    return {row.what: row.agrees for row in rows}


@pytest.fixture(scope="module", autouse=True)
def short_text(tmp_path_factory):
    """A part of the text is enough for models that know nothing."""
    text = tmp_path_factory.mktemp("verify") / "text.txt"
    text.write_text(tool.TEXT.read_text()[:1000])
    tool.TEXT, whole = text, tool.TEXT
    tool.PROMPTS, prompts = tool.PROMPTS[:2], tool.PROMPTS
    yield
    tool.TEXT, tool.PROMPTS = whole, prompts


def test_the_same_model_agrees():
    agrees = verify(TINY / "base.gguf", TINY / "base.gguf")
    assert agrees.pop("greedy, int8 path") is None
    assert len(agrees) == 5 and all(agrees.values())


def test_a_damaged_copy_differs(tmp_path):
    data = bytearray((TINY / "base.gguf").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2048] = data[middle + 2048 : middle + 4096]
    (tmp_path / "damaged.gguf").write_bytes(data)
    agrees = verify(tmp_path / "damaged.gguf", TINY / "base.gguf")
    assert agrees["tokens"]
    assert agrees["logits, float path"] is False
    assert agrees["greedy, float path"] is False


def test_another_scale_of_positions_differs():
    assert verify(TINY / "rope_base.gguf", TINY / "rope_linear.gguf")["logits, float path"] is False


def test_a_quantised_copy_is_judged_by_perplexity():
    agrees = verify(TINY / "q4_0.gguf", TINY / "q4_0.gguf")
    assert agrees["logits, float path"] is None and agrees["greedy, float path"] is None
    assert agrees["perplexity, float path"] and agrees["perplexity, int8 path"]


def test_what_cannot_be_opened_is_said():
    with pytest.raises(tool.Unable, match="/nowhere"):
        tool.Firstlight(BINARY, "/nowhere", 1).types()
