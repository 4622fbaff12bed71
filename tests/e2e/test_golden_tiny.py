"""Every logit of the tiny random models, one per feature and weight type, against transformers.

fp32 noise is below 1e-5; the smallest mistake tried (an epsilon of 1e-6 for 1e-5) moves a logit by
7e-3. tests/golden/README.md has the list.
"""

import json

import numpy as np
import pytest

from conftest import GOLDEN
from logits import F32, logits_of

TOLERANCE = 1e-4
MODELS = json.loads((GOLDEN / "tiny/manifest.json").read_text())["models"]


@pytest.mark.parametrize("row", MODELS, ids=lambda row: row["name"])
def test_logits_equal_the_reference(run, tmp_path, row):
    expected = np.load(GOLDEN / "tiny" / f"{row['name']}.npy")
    logits = logits_of(run, GOLDEN / "tiny" / f"{row['name']}.gguf", row["ids"],
                       tmp_path / "logits.npy", *F32)
    assert logits.dtype == np.float32 and logits.shape == expected.shape
    assert np.abs(logits - expected).max() <= TOLERANCE, row["what"]


def test_threads_do_not_change_a_bit(run, tmp_path):
    row = MODELS[0]
    path = GOLDEN / "tiny" / f"{row['name']}.gguf"
    one = logits_of(run, path, row["ids"], tmp_path / "one.npy", *F32, "--threads", 1)
    two = logits_of(run, path, row["ids"], tmp_path / "two.npy", *F32, "--threads", 2)
    assert one.tobytes() == two.tobytes()
