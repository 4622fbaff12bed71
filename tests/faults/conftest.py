"""The server's fixtures are those of the black box tests; the library makes its calls fail."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
E2E = ROOT / "tests/e2e"
_spec = importlib.util.spec_from_file_location("e2e_conftest", E2E / "conftest.py")
_e2e = sys.modules.setdefault("e2e_conftest", importlib.util.module_from_spec(_spec))
if not hasattr(_e2e, "servers"):
    _spec.loader.exec_module(_e2e)
binary, tiny = _e2e.binary, _e2e.tiny
sys.path[:0] = [str(E2E), str(Path(__file__).parent)]


@pytest.fixture(scope="session")
def library() -> Path:
    path = ROOT / "build/release/tests/faults/shim.so"
    assert path.exists(), f"{path} does not exist: run make test-faults"
    return path
