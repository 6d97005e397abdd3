"""Seconds of single requests: to the first token, per token after it, and end to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.report import formats
from harness.schema.estimates import SpeedUp
from harness.schema.rows import Row

HEADERS = ("task", "arm", "TTFT", "speed-up", "per token", "speed-up", "end to end", "speed-up")


def time_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Medians and paired ratios of every arm that was timed, by task; seeds stand pooled."""
    return [
        (
            formats.task_label(row),
            formats.timed_label(row),
            formats.seconds(row.ttft_s.median),
            _ratio(row.ttft_speedup),
            formats.milliseconds(row.tpot_s.median),
            _ratio(row.tpot_speedup),
            formats.seconds(row.e2e_s.median),
            _ratio(row.e2e_speedup),
        )
        for row in rows
        if row.level != "seed" and row.ttft_s.requests
    ]


def _ratio(speedup: SpeedUp | None) -> str:
    return f"{formats.ratio(speedup)} {formats.interval(speedup, digits=2)}".rstrip()


def time_caption(rows: Sequence[Row]) -> str:
    """Say what was timed."""
    tokens = sorted({round(row.timed_tokens) for row in rows if row.timed_tokens})
    listed = " or ".join(map(str, tokens))
    return (
        "Medians of single requests (batch 1); speed-ups are paired with full prefill, above 1 is "
        "faster, brackets are 95 % intervals. Per token: seconds for each token after the first. "
        f"End to end: from the prompt's arrival to the last of the {listed} tokens timed."
    )


BAND_HEADERS = (
    "task",
    "arm",
    "prompt tokens",
    "TTFT speed-up",
    "per-token speed-up",
    "end-to-end speed-up",
)


def band_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Speed-ups by length band, for tasks whose prompts have lengths of their own.

    Lengths are never pooled, so such a row has no single speed-up.
    """
    return [
        (
            formats.task_label(row),
            formats.timed_label(row),
            band,
            _band(row.ttft_by_length, band),
            _band(row.tpot_by_length, band),
            _band(row.e2e_by_length, band),
        )
        for row in rows
        if row.length is None and row.level == "task"
        for band in row.ttft_by_length
    ]


def _band(of: Mapping[str, SpeedUp], band: str) -> str:
    """A speed-up with its interval, or with the reason why it has none."""
    found = of.get(band)
    if found is None:
        return formats.DASH
    why = formats.interval(found, digits=2) or (f"({found.reason})" if found.reason else "")
    return f"{formats.ratio(found)} {why}".rstrip()
