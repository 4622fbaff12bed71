#!/usr/bin/env python3
"""Makes tests/golden/perplexity.json: the fp32 perplexity of tests/golden/perplexity.txt.

The protocol is llama.cpp's: the text's tokens are cut into windows of `ctx`; in each, the tokens at
ctx/2 + 1 ... ctx - 1 are scored (positions ctx/2 ... ctx - 2 predict them); a last, shorter window is
left out; the figure is exp(mean of -log p). This model adds no beginning-of-sequence token.
"""

import hashlib
import json
import math

import torch

from reference import GOLDEN, MODEL, load_model, load_tokenizer, logits_of, provenance

CTX = 512


def window_nll(model, ids: list[int]) -> float:
    first = len(ids) // 2
    log_p = logits_of(model, ids)[first:-1].double().log_softmax(-1)
    targets = torch.tensor(ids[first + 1:]).unsqueeze(1)
    return -float(log_p.gather(1, targets).sum())


def main() -> None:
    tokenizer, model = load_tokenizer(MODEL), load_model(MODEL)
    text = (GOLDEN / "perplexity.txt").read_text()
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    windows = [ids[i:i + CTX] for i in range(0, len(ids) - CTX + 1, CTX)]
    nll = [window_nll(model, window) for window in windows]
    scored = len(windows) * (CTX - CTX // 2 - 1)
    result = {
        "made": provenance(__doc__.split("\n")[0]),
        "text": "perplexity.txt",
        "text_tokens": len(ids),
        "ids_sha256": hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest(),
        "ctx": CTX,
        "windows": len(windows),
        "scored_tokens": scored,
        "perplexity_fp32": round(math.exp(sum(nll) / scored), 5),
        "window_nll_fp32": [round(v, 4) for v in nll],
    }
    print(f"perplexity: {len(ids)} tokens, {scored} scored: {result['perplexity_fp32']}")
    (GOLDEN / "perplexity.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
