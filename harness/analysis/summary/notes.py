"""Sentences that stand beside a row's figures; every format prints these and adds none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from harness.analysis import verdict
from harness.analysis.floor import FLOOR_REMARK
from harness.analysis.stats.estimate import Estimate
from harness.analysis.stats.jackknife import Floats
from harness.analysis.summary.cells import PooledCell
from harness.schema.receipts import QUIET_STATUSES, REFERENCE_KERNEL
from harness.schema.rows import Row

CONCLUDE_MARGIN = verdict.MARGIN
"""A delta concludes where its interval excludes 0, or every loss larger than this."""

TOO_FEW = "too few to conclude"

KERNEL_REMARK = f"TTFT with a {REFERENCE_KERNEL}: not the method's own speed"


def conclusion(delta: Estimate) -> str | None:
    """Say where the data are too few to tell no change from a loss of the margin."""
    if delta.mean is None:
        return None
    if delta.low is None or delta.high is None:
        return f"{TOO_FEW}: {delta.reason}"
    if delta.low > 0 or delta.high < 0 or delta.low > -CONCLUDE_MARGIN:
        return None
    return f"{TOO_FEW}: no difference and a loss above {CONCLUDE_MARGIN:g} are both possible"


def incomplete(cell: PooledCell, got: int, due: int) -> str | None:
    """Say what is not measured yet, or why it never will be."""
    if cell.stopped is not None:
        return f"{cell.stopped.status}: {cell.stopped.reason or 'no reason recorded'}"
    if got < due:
        return f"incomplete: {got} of {due} examples"
    return None


def not_active(statuses: Mapping[str, int]) -> str | None:
    """Say where timed requests did not do what the arm is named for."""
    silent = {k: v for k, v in statuses.items() if k not in QUIET_STATUSES}
    if not silent:
        return None
    listed = ", ".join(f"{count} {name}" for name, count in silent.items())
    return f"of the timed requests {listed}"


def accepted(rate: float | None, cosine: float | None, shuffled: float | None) -> str | None:
    """Say what a verifier accepted, and why that is not quality."""
    if rate is None:
        return None
    beside = ""
    if cosine is not None and shuffled is not None:
        beside = f"; cosine {cosine:.2f}, of shuffled pairs {shuffled:.2f}"
    return (
        f"{rate:.0%} of the chunks accepted, a proxy: the verifier stands on approximate keys and "
        f"values{beside}"
    )


def no_result(tasks: Sequence[str]) -> str | None:
    """Say why an arm has no pooled score: an average over other tasks would be another figure."""
    return f"no result on {some(tasks)}" if tasks else None


def floors_in_pool(floors: Sequence[str], tasks: int) -> str | None:
    """Name the floor tasks that a pooled row holds."""
    if not floors or len(floors) == tasks:
        return None
    noun = "floor task" if len(floors) == 1 else "floor tasks"
    return f"{len(floors)} {noun} among the {tasks}: {', '.join(floors)}"


def some(names: Sequence[str]) -> str:
    """List names, long lists shortened to two and a number."""
    if len(names) <= 3:
        return ", ".join(names)
    return f"{', '.join(names[:2])} and {len(names) - 2} more"


def no_score(reason: str | None, examples: Sequence[str], values: Floats) -> str:
    """Say which examples have no score, and between what bounds that leaves the mean."""
    n, known = len(values), float(np.nansum(values))
    why = f" ({reason})" if reason else ""
    text = f"{len(examples)} of {n} examples have no score, first {examples[0]}{why}"
    if len(examples) == n:
        return text
    return f"{text}; the mean lies between {known / n:.3f} and {(known + len(examples)) / n:.3f}"


def remarks(row: Row) -> tuple[str, ...]:
    """Everything that a reader must know of a row, reasons for absent intervals included."""
    found = [row.note] if row.note else []
    for estimate in (row.score, row.delta, row.ttft_speedup):
        reason = None if estimate is None or estimate.bounds else estimate.reason
        # "too few to conclude: <reason>" has said it already.
        if reason and not any(reason in text for text in found):
            found.append(reason)
    # Where TTFT has its interval the others have theirs, unless something is wrong with them.
    for name, measured in (("TPOT", row.tpot_speedup), ("end to end", row.e2e_speedup)):
        known = row.ttft_speedup is not None and row.ttft_speedup.bounds
        if known and measured is not None and not measured.bounds:
            found.append(f"{name}: {measured.reason}")
    if row.floor:
        found.append(FLOOR_REMARK)
    if row.has_reference_kernel:
        found.append(KERNEL_REMARK)
    if row.deterministic:
        found.append("deterministic: seeds were varied and no score changed")
    return tuple(found)


def silent_notice(rows: Iterable[Row]) -> str | None:
    """Say which prompts were not pruned as asked; None where all were.

    Rows of groups and of single seeds repeat the prompts of task rows and are not counted.
    """
    tasks = [row for row in rows if row.level == "task"]
    counts: dict[str, int] = {}
    for row in tasks:
        for name, number in row.silent.items():
            counts[name] = counts.get(name, 0) + number
    if not counts:
        return None
    total = sum(sum(row.status.values()) for row in tasks)
    parts = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    return f"{sum(counts.values())} of {total} prompts did not run as their arm says: {parts}"
