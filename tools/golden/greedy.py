#!/usr/bin/env python3
"""Makes tests/golden/greedy.json and logits.json: greedy continuations and a sample of logits."""

import json

import torch

from reference import GOLDEN, MODEL, ROOT, load_model, load_tokenizer, logits_of, provenance

STEPS = 48
SAMPLED = ("en_sentence", "zh_question")  # prompts whose logits are sampled
SAMPLE_IDS = 64


@torch.no_grad()
def continue_greedily(model, ids: list[int]) -> tuple[list[int], float]:
    """STEPS tokens after `ids`, no token stops; and the smallest gap of the two best logits."""
    output, cache, tokens, margin = torch.tensor([ids]), None, [], float("inf")
    for _ in range(STEPS):
        result = model(output, past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        best = result.logits[0, -1].topk(2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        tokens.append(int(best.indices[0]))
        output = best.indices[:1].reshape(1, 1)
    return tokens, margin


def sample_logits(model, ids: list[int], seed: int) -> dict:
    """At each position the logits of SAMPLE_IDS vocabulary entries, the same for all positions."""
    logits = logits_of(model, ids)
    generator = torch.Generator().manual_seed(seed)
    vocab_ids = torch.randperm(logits.shape[1], generator=generator)[:SAMPLE_IDS].sort().values
    rows = [[round(float(v), 5) for v in row] for row in logits[:, vocab_ids]]
    return {"ids": ids, "vocab_ids": vocab_ids.tolist(), "logits": rows}


def write_json(name: str, head: str, key: str, rows: list[dict]) -> None:
    """One row a line, so that a change shows as the rows it touches."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    text = f'{{"made": {json.dumps(provenance(head))},\n"{key}": [\n{lines}\n]}}\n'
    (GOLDEN / name).write_text(text)


def main() -> None:
    prompts = json.loads((ROOT / "tools/golden/prompts.json").read_text())
    tokenizer, model = load_tokenizer(MODEL), load_model(MODEL)
    rows, samples = [], []
    for prompt in prompts:
        ids = tokenizer.encode(prompt["text"], add_special_tokens=False).ids
        tokens, margin = continue_greedily(model, ids)
        rows.append({**prompt, "ids": ids, "tokens": tokens, "min_margin": round(margin, 5)})
        print(f"greedy: {prompt['name']}: {len(ids)} tokens, margin {margin:.4f}", flush=True)
        if prompt["name"] in SAMPLED:
            samples.append({"name": prompt["name"], **sample_logits(model, ids, len(samples))})
    write_json("greedy.json", f"{STEPS} greedy tokens per prompt, fp32 on the dequantised weights "
               "of SmolLM2-135M-Instruct.Q4_1.gguf; no token stops; min_margin is the smallest gap "
               "of the two best logits on the way", "prompts", rows)
    write_json("logits.json", "logits of some vocabulary ids at every position, same model and path",
               "prompts", samples)


if __name__ == "__main__":
    main()
