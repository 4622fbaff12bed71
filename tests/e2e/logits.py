"""`firstlight logits`, for whoever compares them with golden ones."""

import json
from pathlib import Path

import numpy as np
from conftest import Run

F32 = ("--activations", "f32")  # the exact path


def logits_of(run: Run, path: Path, ids: list[int], out: Path, *flags: object) -> np.ndarray:
    """(positions, vocabulary); through the file out."""
    result = run("logits", "--model", path, "--npy", out, *flags, stdin=json.dumps(ids))
    assert result.returncode == 0, result.stderr
    return np.load(out)
