"""Figures as text, the same in every format of the report."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import overload

from harness.analysis.summary.notes import some
from harness.schema.estimates import Interval
from harness.schema.receipts import REFERENCE_KERNEL
from harness.schema.rows import CategoryMean, MeanWithout, Row, Without

DASH = "–"
MINUS = "−"  # U+2212: as wide as the plus sign


def number(value: float | None, digits: int = 3) -> str:
    """``value`` with a fixed number of digits; a dash where it is missing.

    >>> number(0.84), number(-0.02, 2), number(None)
    ('0.840', '−0.02', '–')
    """
    if value is None:
        return DASH
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def signed(value: float | None, digits: int = 3) -> str:
    """Like :func:`number`, with a plus sign before positive values."""
    text = number(value, digits)
    return f"+{text}" if value is not None and value > 0 and float(f"{value:.{digits}f}") else text


def keep(row: Row) -> str:
    """Requested and achieved keep rate, ``0.1 → 0.109``; the latter alone where none was asked."""
    if row.keep_requested is None:
        return number(row.keep_achieved)
    return f"{row.keep_requested:g} → {number(row.keep_achieved)}"


def seconds(value: float | None) -> str:
    """Seconds with milliseconds below one second; one unit, so that rows compare at a glance."""
    if value is None:
        return DASH
    return f"{value:.3f} s" if value < 1 else f"{value:.2f} s"


def milliseconds(value: float | None) -> str:
    """Seconds as milliseconds: times per token are too short for :func:`seconds`."""
    if value is None:
        return DASH
    return f"{1000 * value:.2f} ms" if value < 0.01 else f"{1000 * value:.1f} ms"


def score(estimate: Interval) -> str:
    """A score's point estimate."""
    return number(estimate.value)


def delta(estimate: Interval | None) -> str:
    """A paired difference's point estimate, with its sign."""
    return DASH if estimate is None else signed(estimate.value)


def ratio(estimate: Interval | None) -> str:
    """A speed-up's point estimate."""
    return DASH if estimate is None or estimate.value is None else f"{estimate.value:.2f}×"


def interval(estimate: Interval | None, *, with_sign: bool = False, digits: int = 3) -> str:
    """``[low, high]``; an empty string where there is no interval."""
    if estimate is None or estimate.bounds is None:
        return ""
    show = signed if with_sign else number
    low, high = estimate.bounds
    return f"[{show(low, digits)}, {show(high, digits)}]"


def statuses(counts: Mapping[str, int]) -> str:
    """``18 active, 2 failed``, most frequent first."""
    if not counts:
        return DASH
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{n} {name}" for name, n in ordered)


def task_label(row: Row) -> str:
    """Task with its length, and with ``(pooled)`` where it stands for a group."""
    label = f"{row.task} (pooled)" if row.pooled else row.task
    return label if row.length is None else f"{label} @ {row.length:,}"


def arm_label(row: Row) -> str:
    """Arm, with its seed in a seed's own row, and its run where several are shown."""
    label = f"{row.arm}, seed {row.seed}" if row.level == "seed" else row.arm
    return label if row.run is None else f"{label} [{row.run}]"


def mean_label(mean: CategoryMean) -> str:
    """``mean of 13 tasks @ 2,048``, with how a benchmark's own average weighs them."""
    number = len(mean.tasks)
    over = f"{number} task" if number == 1 else f"{number} tasks"
    if mean.weighs == "categories":
        over = f"{len(mean.categories)} categories ({over})"
    name = f"mean of {over}" + (", floor" if mean.floor else "")
    return name if mean.length is None else f"{name} @ {mean.length:,}"


def lacking(mean: CategoryMean) -> str:
    """Say why an average is missing; an empty string where it is not."""
    return f"no score on {some(mean.left_out)}" if mean.left_out else ""


def mean_arm_label(mean: CategoryMean) -> str:
    """Arm of a mean, with its run where several are shown."""
    return mean.arm if mean.run is None else f"{mean.arm} [{mean.run}]"


@overload
def beside(of: Row) -> list[tuple[str, Without]]: ...
@overload
def beside(of: CategoryMean) -> list[tuple[str, MeanWithout]]: ...
def beside(of: Row | CategoryMean) -> Sequence[tuple[str, Without | MeanWithout]]:
    """What stands beside an average: the one without floor tasks, the one without counting ones.

    Returns
    -------
    list
        Pairs of a label (``without 2 floor tasks``) and the figures.
    """
    found = (("floor", of.without_floor), ("counting", of.without_counting))
    return [(_without(kind, part.left_out), part) for kind, part in found if part is not None]


def _without(kind: str, tasks: Sequence[str]) -> str:
    return f"without {len(tasks)} {kind} {'task' if len(tasks) == 1 else 'tasks'}"


def numbered(rows: Iterable[Row]) -> dict[str, int]:
    """Distinct remarks of rows with their numbers: tables print each once, below."""
    texts = dict.fromkeys(text for row in rows for text in row.remarks)
    return {text: number for number, text in enumerate(texts, start=1)}


def timed_label(row: Row) -> str:
    """Arm of a row's seconds, which are not the method's own where a reference kernel gave them."""
    return arm_label(row) + (f" ({REFERENCE_KERNEL})" if row.has_reference_kernel else "")


def visible(text: str) -> str:
    r"""Text from models and data with control and direction-changing characters spelt out.

    Line breaks and tabs stay. A right-to-left override (U+202E) or a terminal escape would
    otherwise change how the text around it is shown.

    >>> visible("a\u202eb\x1b[2J")
    'a⟨U+202E⟩b⟨U+001B⟩[2J'
    """
    if text.isprintable():
        return text
    return "".join(
        f"⟨U+{ord(char):04X}⟩" if _hidden(char) and char not in "\n\t" else char for char in text
    )


def _hidden(char: str) -> bool:
    # Cc control, Cf format (direction marks, tags), Cs surrogate, Co private, Zl/Zp breaks.
    # The joiners U+200C and U+200D belong to ordinary text of several scripts.
    hidden = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    return unicodedata.category(char) in hidden and char not in "\u200c\u200d"
