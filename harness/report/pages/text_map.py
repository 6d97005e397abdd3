"""A prompt cut into pieces: kept or dropped, evidence or not, with the scores of its chunks.

Receipts carry the character spans of what was kept (:mod:`harness.run.placing`); a receipt without
them leaves the prompt whole, with the reason.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from harness.schema.receipts import Receipt
from harness.schema.records import ExampleRecord

SHADES = 5
"""Steps of the score's shading; its rank in the prompt, not its value, chooses the step."""

Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the prompt that looks the same throughout.

    ``shade`` is 0 (lowest scores) … :data:`SHADES` − 1, None where the receipt has no scores.
    ``elided`` counts characters that are left out of the page after ``text``.
    """

    text: str
    kept: bool
    evidence: bool
    shade: int | None = None
    elided: int = 0


@dataclass(frozen=True, slots=True)
class TextMap:
    """The pieces of a prompt in order, or the reason why kept text cannot be told."""

    pieces: tuple[Piece, ...]
    reason: str | None = None


def map_text(example: ExampleRecord, receipt: Receipt) -> TextMap:
    """Cut a prompt into pieces."""
    text = example.text
    evidence = _pairs((example.segments or {}).get("evidence"))
    why = None
    if receipt.kept_spans is None:
        why = receipt.reason or "the method rewrites the prompt or did not run on it"
    elif "kept_chars" not in receipt.details:
        why = "the record does not say where its tokens stand in the text"
    if why is not None:
        return TextMap(_pieces(text, [(0, len(text))], evidence, []), why)
    return TextMap(
        _pieces(text, _pairs(receipt.details["kept_chars"]), evidence, _shades(receipt, len(text)))
    )


def _shades(receipt: Receipt, length: int) -> list[tuple[int, int, int]]:
    """Character spans of the chunks with their shade, from ``details["chunk_deciles"]``."""
    digits = receipt.details.get("chunk_deciles")
    starts = receipt.details.get("chunk_starts")
    if not isinstance(digits, str) or not isinstance(starts, list):
        return []
    stops = [*starts[1:], length]
    return [
        (int(start), int(stop), int(digit) * SHADES // 10)
        for start, stop, digit in zip(starts, stops, digits, strict=False)
        if digit.isdecimal()
    ]


def _pieces(
    text: str, kept: Spans, evidence: Spans, shades: Sequence[tuple[int, int, int]]
) -> tuple[Piece, ...]:
    cuts = {0, len(text)}
    for span in (*kept, *evidence, *((a, b) for a, b, _ in shades)):
        cuts.update(min(max(place, 0), len(text)) for place in span)
    kept_at, shade_at = _Lookup([(a, b, 1) for a, b in kept]), _Lookup(shades)
    found: list[Piece] = []
    for start, stop in pairwise(sorted(cuts)):
        is_evidence = any(a <= start < b for a, b in evidence)
        look = (kept_at(start) is not None, is_evidence, shade_at(start))
        if found and (found[-1].kept, found[-1].evidence, found[-1].shade) == look:
            found[-1] = Piece(found[-1].text + text[start:stop], *look)
        else:
            found.append(Piece(text[start:stop], *look))
    return tuple(found)


class _Lookup:
    """Values of disjoint spans by place, found by bisection: long prompts have thousands."""

    def __init__(self, spans: Sequence[tuple[int, int, int]]) -> None:
        self.spans = sorted(spans)
        self.starts = [start for start, _, _ in self.spans]

    def __call__(self, place: int) -> int | None:
        at = bisect_right(self.starts, place) - 1
        return self.spans[at][2] if at >= 0 and place < self.spans[at][1] else None


def _pairs(raw: Any) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in raw or ()]
