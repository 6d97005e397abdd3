"""Time to first token of SpecPrefill against its physical bound, in one interleaved run.

No scorer can be faster than the speculator's plain prefill of the prompt, no target faster than
its own prefill of the kept tokens: T_target(M) / (T_speculator(M) + T_target(kept)) bounds the
speed-up.
All three are measured, in the same rounds as the method: a formula from the kept share alone would
take prefill as linear, and attention is quadratic. The share of the bound says what the
implementation loses: scoring, look-ahead, selection, and hand-overs. A share above 1 says that the
parts alone took longer than together, which no machine does: the rounds were disturbed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from harness.engines.base import Sampling
from harness.engines.scorer import ScoreRequest, ScoringConfig
from harness.engines.vllm.engine import VllmEngine
from harness.methods.specprefill.config import SelectionConfig
from harness.methods.specprefill.selection import select
from harness.methods.specprefill.vllm.scorer import VllmScorer
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt, Status

Say = Callable[[str], None]
ONE_TOKEN = Sampling(max_tokens=1, ignore_eos=True)
FIRST_PLAIN_ID, LAST_PLAIN_ID = 100, 40_000  # ordinary tokens of the embedded tokenizer


@dataclass(frozen=True)
class Sparse:
    """One sparse prefill, seconds: scoring, everything from scores to first token, and their sum.

    ``kept`` is the kept share of the prompt.
    """

    scorer_s: float
    sparse_s: float
    total_s: float
    kept: float


@dataclass(frozen=True)
class Round:
    """Every part timed once on one prompt, seconds; ``sparse`` by look-ahead.

    ``kept_s`` is the target's prefill of as many tokens as are kept, with nothing before it.
    """

    full_s: float
    speculator_s: float
    kept_s: float
    sparse: dict[int, Sparse]


@dataclass(frozen=True)
class Result:
    """One look-ahead depth over all rounds: medians of seconds, and medians of paired ratios.

    ``bound`` is full_s / (speculator_s + kept_s), ``share_of_bound`` what the method reaches of it
    in the same round; ``best_speedup`` compares the fastest rounds of either side.
    ``inconsistent`` marks a share above 1.
    """

    look_ahead: int
    rounds: int
    full_s: float
    speculator_s: float
    kept_s: float
    scorer_s: float
    sparse_s: float
    total_s: float
    kept: float
    speedup: float
    bound: float
    share_of_bound: float
    best_speedup: float
    best_share_of_bound: float
    inconsistent: bool

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return asdict(self)


def run_rounds(
    engine: VllmEngine,
    scorer: VllmScorer,
    *,
    length: int,
    keep: float,
    look_aheads: Sequence[int],
    rounds: int,
    say: Say = lambda _: None,
) -> list[Round]:
    """Time full prefill, the speculator alone and every depth, round by round.

    Every round has its own prompt and goes through the parts in the opposite order of the one
    before, so that a slow minute of the machine hits all parts alike. A warm-up round is not
    counted. Caches are cold: the target's requests have a salt of their own, and the scorer has
    no prefix cache.
    """
    done: list[Round] = []
    for number in range(-1, rounds):
        parts = ["full", "speculator", "kept", *(str(depth) for depth in look_aheads)]
        order = parts if number % 2 == 0 else parts[::-1]
        tokens = _prompt(length, number)
        seconds: dict[str, float] = {}
        sparse: dict[int, Sparse] = {}
        for part in order:
            if part == "full":
                seconds[part] = _full(engine, tokens)
            elif part == "speculator":
                seconds[part] = scorer.time_prefill(tokens)
            elif part == "kept":
                seconds[part] = _kept(engine, tokens, keep)
            else:
                sparse[int(part)] = _sparse(engine, scorer, tokens, keep, int(part))
        if number >= 0:
            done.append(Round(seconds["full"], seconds["speculator"], seconds["kept"], sparse))
            say(f"round {number + 1} of {rounds}: full prefill {seconds['full']:.2f} s")
    return done


def _prompt(length: int, number: int) -> tuple[int, ...]:
    """Token ids without meaning: the time does not depend on them."""
    draw = np.random.default_rng(number + 1)
    return tuple(draw.integers(FIRST_PLAIN_ID, LAST_PLAIN_ID, length).tolist())


def _full(engine: VllmEngine, tokens: tuple[int, ...]) -> float:
    receipt = Receipt("full", Status.KEPT_ALL)
    prompt = PreparedPrompt("full", tokens, None, len(tokens), receipt)
    return _ttft(engine, prompt)


def _kept(engine: VllmEngine, tokens: tuple[int, ...], keep: float) -> float:
    """Prefill as many tokens as a selection keeps; which ones they are costs nothing else."""
    rising = np.linspace(0.0, 1.0, len(tokens), dtype=np.float32)
    return _ttft(engine, _pruned(tokens, select(rising, SelectionConfig(keep=keep)).kept))


def _pruned(tokens: tuple[int, ...], kept: Sequence[int]) -> PreparedPrompt:
    receipt = Receipt("specprefill", Status.ACTIVE)
    chosen = tuple(tokens[i] for i in kept)
    return PreparedPrompt("sparse", chosen, tuple(kept), len(tokens), receipt)


def _ttft(engine: VllmEngine, prompt: PreparedPrompt) -> float:
    seconds = engine.time_one(prompt, ONE_TOKEN).ttft_s
    assert seconds is not None  # time_one measures it
    return seconds


def _sparse(
    engine: VllmEngine, scorer: VllmScorer, tokens: tuple[int, ...], keep: float, depth: int
) -> Sparse:
    """Score, select and prefill, on one clock."""
    config = ScoringConfig(look_ahead=depth, ignore_eos=True)
    began = time.perf_counter()
    (scores,) = scorer.score([ScoreRequest("sparse", tokens, config)])
    scored = time.perf_counter()
    kept = select(scores.importance(depth), SelectionConfig(keep=keep)).kept
    _ttft(engine, _pruned(tokens, kept))
    ended = time.perf_counter()
    return Sparse(scored - began, ended - scored, ended - began, len(kept) / len(tokens))


def summarize(rounds: Sequence[Round], look_ahead: int) -> Result:
    """Medians over rounds; ratios are taken round by round first, because rounds differ more."""
    sparse = [item.sparse[look_ahead] for item in rounds]
    kept = sparse[0].kept
    speedups = [item.full_s / s.total_s for item, s in zip(rounds, sparse, strict=True)]
    bounds = [item.full_s / (item.speculator_s + item.kept_s) for item in rounds]
    shares = [speedup / bound for speedup, bound in zip(speedups, bounds, strict=True)]
    best_full = min(item.full_s for item in rounds)
    best_bound = best_full / (
        min(item.speculator_s for item in rounds) + min(item.kept_s for item in rounds)
    )
    best_speedup = best_full / min(s.total_s for s in sparse)
    return Result(
        look_ahead=look_ahead,
        rounds=len(rounds),
        full_s=median(item.full_s for item in rounds),
        speculator_s=median(item.speculator_s for item in rounds),
        kept_s=median(item.kept_s for item in rounds),
        scorer_s=median(s.scorer_s for s in sparse),
        sparse_s=median(s.sparse_s for s in sparse),
        total_s=median(s.total_s for s in sparse),
        kept=kept,
        speedup=median(speedups),
        bound=median(bounds),
        share_of_bound=median(shares),
        best_speedup=best_speedup,
        best_share_of_bound=best_speedup / best_bound,
        inconsistent=median(shares) > 1,
    )


def look_ahead_cost(rounds: Sequence[Round]) -> float | None:
    """Scoring at the deepest look-ahead over scoring at 1; None where 1 was not measured."""
    depths = sorted(rounds[0].sparse)
    if depths[0] != 1 or len(depths) < 2:
        return None
    return median(item.sparse[depths[-1]].scorer_s / item.sparse[1].scorer_s for item in rounds)
