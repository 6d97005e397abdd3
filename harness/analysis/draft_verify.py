"""What the draft/verify benchmark found: one row a prompt length and threshold, and its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.analysis.stats.latency import MIN_BLOCKS, Shift, hodges_lehmann
from harness.analysis.text_table import text_table

if TYPE_CHECKING:
    from harness.engines.base import Generation
    from harness.run.bench.draft_verify import Measured
    from harness.schema.receipts import Receipt


@dataclass(frozen=True)
class Row:
    """One prompt length at one threshold, over the runs.

    Attributes
    ----------
    full_ms, ttft_ms
        Hodges–Lehmann estimates with 95 % intervals, in milliseconds.
    speedup
        Full over draft/verify, from the paired log ratios.
    acceptance_rate, fallback_rate
        Mean share of accepted chunks; share of prompts that fell back to full prefill.
    full_score, score
        Mean task scores.
    same_tokens
        Share of prompts whose generated tokens equal full prefill's.
    timed
        Prompts measured at this threshold itself; the rest share the measurement of a threshold
        that decided them alike.
    cosine, shuffled_cosine
        Mean over the checkpoints of the verifier's and the draft's state, and of pairs that do
        not belong together, which a threshold must tell apart.
    """

    length: int
    threshold: float
    runs: int
    full_ms: Shift
    ttft_ms: Shift
    speedup: Shift
    acceptance_rate: float
    fallback_rate: float
    full_score: float
    score: float
    same_tokens: float
    timed: int
    cosine: float | None
    shuffled_cosine: float | None
    maps: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        shifts = {
            name: {"estimate": shift.estimate, "low": shift.low, "high": shift.high}
            for name, shift in (
                ("full_ms", self.full_ms),
                ("ttft_ms", self.ttft_ms),
                ("speedup", self.speedup),
            )
        }
        names = ("length", "threshold", "runs", "timed", "acceptance_rate", "fallback_rate")
        scores = ("full_score", "score", "same_tokens", "cosine", "shuffled_cosine")
        plain = {name: getattr(self, name) for name in (*names, *scores)}
        return {**plain, **shifts, "maps": dict(self.maps)}


def to_row(measured: Measured) -> Row:
    """State what was measured at one length and threshold, with intervals."""
    full, drafted = measured.full, measured.drafted
    before, after = _ttfts(full), _ttfts(drafted)
    ratio = hodges_lehmann(np.log(before) - np.log(after))
    receipts = [g.receipt for g in drafted if g.receipt is not None]
    maps = ("maps", "hidden_r2", "key_r2_median", "value_r2_median")
    return Row(
        length=measured.length,
        threshold=measured.threshold,
        runs=len(drafted),
        full_ms=_scaled(hodges_lehmann(before), lambda s: s * 1000),
        ttft_ms=_scaled(hodges_lehmann(after), lambda s: s * 1000),
        speedup=_scaled(ratio, lambda log: float(np.exp(log))),
        acceptance_rate=float(np.mean([r.details["acceptance_rate"] for r in receipts])),
        fallback_rate=float(np.mean([g.counters["fallbacks"] for g in drafted])),
        full_score=measured.full_score,
        score=measured.score,
        same_tokens=float(
            np.mean([a.token_ids == b.token_ids for a, b in zip(full, drafted, strict=True)])
        ),
        timed=measured.timed,
        cosine=_mean(receipts, "mean_cosine"),
        shuffled_cosine=_mean(receipts, "shuffled_cosine"),
        maps={k: receipts[0].details.get(k) for k in maps},
    )


def _mean(receipts: Sequence[Receipt], name: str) -> float | None:
    known = [r.details[name] for r in receipts if r.details[name] is not None]
    return float(np.mean(known)) if known else None


def _ttfts(generations: Sequence[Generation]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray([g.ttft_s for g in generations], dtype=np.float64)


def _scaled(shift: Shift, change: Callable[[float], float]) -> Shift:
    """Apply an increasing function to an estimate and its ends; None stays None."""
    ends = (shift.estimate, shift.low, shift.high)
    estimate, low, high = (None if x is None else change(x) for x in ends)
    return Shift(estimate, low, high, shift.n, shift.reason)


def to_text(rows: Sequence[Row]) -> str:
    """The report for a terminal."""
    lines = table(rows)
    maps = rows[0].maps
    lines += ["", f"Maps from draft to verifier: {maps['maps']}."]
    if maps["hidden_r2"] is not None:
        lines.append(
            f"Held out: R² of hidden states {maps['hidden_r2']:.2f}, keys "
            f"{maps['key_r2_median']:.2f}, values {maps['value_r2_median']:.2f} (medians over "
            "layers)."
        )
    lines += [
        "Acceptance is a proxy: the verifier's hidden state stands on approximate keys and values. "
        "It tells nothing where the cosine of shuffled pairs is near that of true ones.",
        f"{rows[0].runs} prompts a row, Hodges–Lehmann estimates; {_intervals(rows[0])}.",
        f"{sum(r.timed for r in rows)} of the {sum(r.runs for r in rows)} drafted prefills were "
        "run; the rest would repeat, decision for decision, that of another threshold and share "
        "its seconds.",
    ]
    return "\n".join(lines)


def table(rows: Sequence[Row]) -> list[str]:
    """A head, and a line a row."""
    head = (
        "length", "threshold", "full ms", "draft/verify ms", "speed-up", "accepted", "fell back",
        "quality", "same tokens", "cosine", "shuffled",
    )  # fmt: skip
    lines = [
        (
            str(r.length),
            f"{r.threshold:g}",
            _shown(r.full_ms, 0),
            _shown(r.ttft_ms, 0),
            _shown(r.speedup, 2),
            f"{r.acceptance_rate:.1%}",
            f"{r.fallback_rate:.1%}",
            f"{r.score:.2f} of {r.full_score:.2f}",
            f"{r.same_tokens:.0%}",
            _cosine(r.cosine),
            _cosine(r.shuffled_cosine),
        )
        for r in rows
    ]
    return text_table(head, lines)


def _intervals(row: Row) -> str:
    if row.speedup.low is None:
        return f"too few prompts for intervals, which need {MIN_BLOCKS}"
    return "95 % intervals in brackets"


def _shown(shift: Shift, digits: int) -> str:
    if shift.estimate is None:
        return "—"
    if shift.low is None or shift.high is None:
        return f"{shift.estimate:.{digits}f}"
    return f"{shift.estimate:.{digits}f} [{shift.low:.{digits}f}, {shift.high:.{digits}f}]"


def _cosine(value: float | None) -> str:
    return "—" if value is None else f"{value:.2f}"
