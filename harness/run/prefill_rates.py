"""Prefill rates of this target and speculator on this machine, for the break-even guard."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping

from harness.engines.base import Engine, Sampling
from harness.engines.scorer import Scorer, ScoreRequest, ScoringConfig
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import Receipt, Status

REPEATS = 3
"""Timed after one that warms up; the median counts."""


def measure_rates(engine: Engine, scorer: Scorer, prompt: Prompt) -> Mapping[str, float]:
    """Measure tokens per second of the target's full prefill and of a scoring pass.

    Returns
    -------
    Mapping
        ``target`` and ``scorer``, in prompt tokens a second (ALGORITHM.md, Guards: measured on
        this engine, not assumed).
    """
    length = len(prompt.token_ids)
    whole = PreparedPrompt(
        prompt.example_id, prompt.token_ids, None, length, Receipt("full", Status.KEPT_ALL)
    )
    request = ScoreRequest(prompt.example_id, prompt.token_ids, ScoringConfig())
    target = [_ttft(engine, whole) for _ in range(REPEATS + 1)][1:]
    scoring = [_seconds(scorer, request) for _ in range(REPEATS + 1)][1:]
    return {
        "target": length / statistics.median(target),
        "scorer": length / statistics.median(scoring),
    }


def _ttft(engine: Engine, prompt: PreparedPrompt) -> float:
    ttft = engine.time_one(prompt, Sampling(max_tokens=1, ignore_eos=True)).ttft_s
    if ttft is None:
        raise RuntimeError("the engine's time_one gave no ttft_s")
    return ttft


def _seconds(scorer: Scorer, request: ScoreRequest) -> float:
    began = time.perf_counter()
    (scores,) = scorer.score([request])
    # A scorer with its own clock (the fake one) reports more than the wall shows.
    return max(scores.seconds, time.perf_counter() - began)
