"""The prefill strategy: the transformers engine's target as the verifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from harness.engines.base import EngineSpec
from harness.engines.hf.model import Prefilled, load_model
from harness.methods.costs import ModelShape, causal_pairs
from harness.methods.draft_verify.pair import Pair, open_pair
from harness.methods.draft_verify.prefill import Tally, speculative_prefill
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Cost


class DraftVerifyPrefill:
    """Keeps the draft open as long as the engine is."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str | None], Pair] = {}

    def __call__(self, model: Any, prepared: PreparedPrompt) -> Prefilled:
        """Prefill, and complete the receipt with what was accepted."""
        knobs = prepared.directives
        pair = self.open(model, knobs["draft"], knobs["calibration"])
        cache, logits, tally = speculative_prefill(pair, prepared.token_ids, knobs["config"])
        length = prepared.original_length
        receipt = replace(
            prepared.receipt,
            keep_achieved=1 - tally.drafted / length,
            cost=_cost(tally, length, knobs["shape"]),
            stages_s={**prepared.receipt.stages_s, "score": tally.draft_s},
            details={
                "acceptance_rate": tally.acceptance_rate,
                "alike": [*tally.alike(knobs["config"].acceptance_threshold)],
                "least_cosine": min(filter(isfinite, tally.cosines), default=None),
                "mean_cosine": _mean(tally.cosines),
                "shuffled_cosine": _mean(tally.shuffled),
                **pair.facts,
            },
        )
        return Prefilled(cache, logits, length, _counters(tally), receipt)

    def open(self, model: Any, draft: str, text: str | None) -> Pair:
        """Return the pair of a verifier and a draft, loaded and fitted on first use."""
        key = (draft, text)
        if key not in self._pairs:
            dtype = str(model.dtype).removeprefix("torch.")
            same = draft == model.name_or_path
            opened = model if same else load_model(EngineSpec("hf", draft, dtype))
            self._pairs[key] = open_pair(opened, model, text=text)
        return self._pairs[key]


def _mean(cosines: Sequence[float]) -> float | None:
    known = [c for c in cosines if isfinite(c)]
    return sum(known) / len(known) if known else None


def _counters(tally: Tally) -> dict[str, int]:
    return {
        "chunks": tally.decided,
        "chunks_rejected": tally.rejected,
        "checkpoints": len(tally.cosines),
        "fallbacks": int(tally.fell_back),
    }


def _cost(tally: Tally, length: int, shape: ModelShape | None) -> Cost:
    """The verifier's own work; the draft's is not in it, as a scorer's is not."""
    whole = causal_pairs(length)
    flops_share = None
    if shape is not None:
        spent = shape.flops(tally.verifier_tokens, tally.verifier_pairs)
        flops_share = spent / shape.flops(length, whole)
    return Cost(
        prefill_tokens=tally.verifier_tokens,
        attention_share=tally.verifier_pairs / whole,
        kv_tokens=length,
        flops_share=flops_share,
    )
