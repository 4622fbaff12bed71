"""Every logit of tiny models read from Hugging Face folders, against transformers.

tests/golden/README.md says what the folders have in them.
"""

import json

import numpy as np
import pytest

from conftest import GOLDEN

TOLERANCE = 1e-4
HF = GOLDEN / "hf"
MODELS = json.loads((HF / "manifest.json").read_text())["models"]


def logits_of(run, path, ids, out, *flags):
    result = run("logits", "--model", path, "--npy", out, "--activations", "f32", *flags,
                 stdin=json.dumps(ids))
    assert result.returncode == 0, result.stderr
    return np.load(out)


@pytest.mark.parametrize("row", MODELS, ids=lambda row: row["name"])
def test_logits_from_the_folder(run, tmp_path, row):
    expected = np.load(HF / f"{row['name']}.npy")
    logits = logits_of(run, HF / row["name"], row["ids"], tmp_path / "logits.npy")
    assert logits.shape == expected.shape
    assert np.abs(logits - expected).max() <= TOLERANCE, row["what"]
