"""A prompt cut into pieces: kept or dropped, evidence or not, with the scores of its chunks.

Receipts speak of tokens; a page shows characters. Where the receipt carries the character spans
itself (``details["kept_chars"]``) they are used. Otherwise the target's ``tokenizer.json`` is, if
it lies on this machine and cuts the stored text into the recorded number of tokens. A prompt for
which neither holds is shown whole, with the reason.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.receipts import Receipt
from harness.records import ExampleRecord

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


def map_text(example: ExampleRecord, receipt: Receipt, target: str) -> TextMap:
    """Cut a prompt into pieces.

    Parameters
    ----------
    target
        The target model's folder, whose tokenizer tells where tokens lie.
    """
    text = example.text
    evidence = _pairs((example.segments or {}).get("evidence"))
    if receipt.kept_spans is None:
        why = receipt.reason or "the method rewrites the prompt or did not run on it"
        return TextMap(_pieces(text, [(0, len(text))], evidence, []), why)
    kept = _pairs(receipt.details.get("kept_chars"))
    offsets: Spans | None = None
    if "kept_chars" not in receipt.details or "chunk_deciles" in receipt.details:
        offsets = _offsets(target, text, example.token_count)
    if "kept_chars" not in receipt.details:
        if offsets is None:
            why = "the target's tokenizer is not on this machine, so tokens cannot be placed"
            return TextMap(_pieces(text, [(0, len(text))], evidence, []), why)
        kept = [span for s in receipt.kept_spans if (span := _chars(offsets, *s)) is not None]
    return TextMap(_pieces(text, kept, evidence, _shades(receipt, offsets)))


def _shades(receipt: Receipt, offsets: Spans | None) -> list[tuple[int, int, int]]:
    """Spans with their shade, from ``details["chunk_deciles"]``, a digit a chunk of tokens."""
    digits, chunk = receipt.details.get("chunk_deciles"), receipt.details.get("chunk")
    if offsets is None or not isinstance(digits, str) or not isinstance(chunk, int):
        return []
    found = []
    for number, digit in enumerate(digits):
        span = _chars(offsets, number * chunk, min((number + 1) * chunk, len(offsets)))
        if span is not None and digit.isdecimal():
            found.append((*span, int(digit) * SHADES // 10))
    return found


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


def _chars(offsets: Spans, start: int, stop: int) -> tuple[int, int] | None:
    if not 0 <= start < stop <= len(offsets):
        return None
    return offsets[start][0], offsets[stop - 1][1]


def _offsets(target: str, text: str, count: int) -> Spans | None:
    tokenizer = _tokenizer(target)
    if tokenizer is None:
        return None
    offsets: Spans = tokenizer.encode(text, add_special_tokens=False).offsets
    return offsets if len(offsets) == count else None


@cache
def _tokenizer(target: str) -> Any:
    """Return the target's fast tokenizer alone, without transformers; None where there is none."""
    path = Path(target) / "tokenizer.json"
    if not path.is_file():
        return None
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(path))
