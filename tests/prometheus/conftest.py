"""The server's fixtures are those of the black box tests."""

import importlib.util
import sys
from pathlib import Path

_PATH = Path(__file__).resolve().parents[1] / "e2e/conftest.py"
_spec = importlib.util.spec_from_file_location("e2e_conftest", _PATH)
_e2e = sys.modules.setdefault("e2e_conftest", importlib.util.module_from_spec(_spec))
if not hasattr(_e2e, "servers"):
    _spec.loader.exec_module(_e2e)
binary, model, servers = _e2e.binary, _e2e.model, _e2e.servers
