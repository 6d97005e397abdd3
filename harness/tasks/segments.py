"""Where a prompt's parts stand: from a task's texts to character spans in the final prompt."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import DataError
from harness.schema.prompts import Segments, Span

Parts = Mapping[str, Sequence[Any]]
"""What a task folder's ``segments(doc)`` returns: texts by role, in their order in the prompt.

Roles are ``instruction``, ``documents``, ``question`` and ``evidence``. An evidence item is a
text that stands in some document, or ``(index of the document, text)``.
"""

ROLES = ("instruction", "documents", "question", "evidence")


@dataclass(frozen=True, slots=True)
class Cut:
    """What was taken out of a text: characters [start, stop)."""

    start: int
    stop: int

    def map(self, span: Span) -> Span | None:
        """Where ``span`` stands after the cut; None where nothing is left of it."""
        removed = self.stop - self.start
        start = span.start if span.start < self.start else max(self.start, span.start - removed)
        stop = span.stop if span.stop <= self.start else max(self.start, span.stop - removed)
        return Span(start, stop) if stop > start else None


NO_CUT = Cut(0, 0)


def locate(parts: Parts, user: str, *, task: str) -> Segments:
    """Find a task's parts in the user's text.

    The instruction is searched from the start, documents one after the other, the question from
    the end, evidence inside its document (or the first document that holds it). A task that names
    documents but no instruction gets what is neither document nor question.

    Raises
    ------
    DataError
        Where a text does not stand where it should: the task's ``segments`` is wrong.
    """
    unknown = set(parts) - set(ROLES)
    if unknown:
        raise DataError(f"{task}: segments names {sorted(unknown)}, which is no part of a prompt")
    documents = _in_order(parts.get("documents", ()), user, task)
    question = _from_end(parts.get("question", ()), user, task)
    named = "instruction" in parts or not documents
    return Segments(
        instruction=_in_order(parts.get("instruction", ()), user, task)
        if named
        else _rest(user, [*documents, *question]),
        documents=documents,
        question=question,
        evidence=_evidence(parts.get("evidence", ()), user, documents, task),
    )


def place(segments: Segments, user: str, rendered: str, *, cut: Cut = NO_CUT) -> Segments:
    """Move spans of the user's text into the rendered prompt, which holds it (perhaps cut).

    ``user`` is the whole text that the spans refer to. Every span is checked by substring,
    except where the cut went through it.
    """
    shown = user[: cut.start] + user[cut.stop :]
    offset, trimmed = _offset(shown, rendered)

    def moved(spans: Iterable[Span]) -> tuple[Span, ...]:
        out: list[Span] = []
        for span in spans:
            inside = cut.map(span)
            if inside is None:
                continue
            start = max(inside.start - trimmed, 0) + offset
            stop = min(inside.stop - trimmed + offset, len(rendered))
            kept = shown[inside.start : inside.stop].strip()
            if kept not in rendered[start:stop]:
                raise DataError("a segment is not where it should be in the templated prompt")
            out.append(Span(start, stop))
        return tuple(out)

    return Segments(**{role: moved(getattr(segments, role)) for role in ROLES})


def _offset(shown: str, rendered: str) -> tuple[int, int]:
    """Where the user's text starts in the prompt, and how much a template trimmed in front."""
    at = rendered.find(shown)
    if at >= 0:
        return at, 0
    bare = shown.strip()
    at = rendered.find(bare)
    if at < 0:
        raise DataError("the chat template changes the user's text; segments cannot be placed")
    return at, len(shown) - len(shown.lstrip())


def _in_order(texts: Iterable[str], user: str, task: str) -> tuple[Span, ...]:
    spans: list[Span] = []
    at = 0
    for text in texts:
        start = user.find(text, at)
        if start < 0:
            raise _not_found(task, text)
        spans.append(Span(start, start + len(text)))
        at = start + len(text)
    return tuple(spans)


def _from_end(texts: Iterable[str], user: str, task: str) -> tuple[Span, ...]:
    spans: list[Span] = []
    for text in texts:
        start = user.rfind(text)
        if start < 0:
            raise _not_found(task, text)
        spans.append(Span(start, start + len(text)))
    return tuple(spans)


def _rest(user: str, taken: Iterable[Span]) -> tuple[Span, ...]:
    """What lies before, between and after spans, without white space at the ends."""
    spans: list[Span] = []
    at = 0
    for span in (*sorted(taken), Span(len(user), len(user))):
        gap = user[at : span.start]
        if gap.strip():
            start = at + len(gap) - len(gap.lstrip())
            spans.append(Span(start, start + len(gap.strip())))
        at = max(at, span.stop)
    return tuple(spans)


def _evidence(
    items: Iterable[Any], user: str, documents: tuple[Span, ...], task: str
) -> tuple[Span, ...]:
    spans: set[Span] = set()
    for item in items:
        index, text = (None, item) if isinstance(item, str) else (int(item[0]), str(item[1]))
        where = documents if index is None else documents[index : index + 1]
        starts = (user.find(text, doc.start, doc.stop) for doc in where)
        start = next((s for s in starts if s >= 0), None)
        if start is None:
            raise _not_found(task, text)
        spans.add(Span(start, start + len(text)))
    return tuple(sorted(spans))


def _not_found(task: str, text: str) -> DataError:
    shown = text if len(text) <= 60 else f"{text[:57]}…"
    return DataError(f"{task}: segments names a text that is not in the prompt: {shown!r}")


def evidence_tokens(segments: Segments, offsets: Sequence[tuple[int, int]]) -> frozenset[int]:
    """Indices of the tokens that share a character with the gold evidence.

    Parameters
    ----------
    offsets
        Half-open character spans of the prompt's M tokens, in order.
    """
    starts = [start for start, _ in offsets]
    stops = [stop for _, stop in offsets]
    found: set[int] = set()
    for span in segments.evidence:
        first = bisect_right(stops, span.start)
        found.update(range(first, bisect_left(starts, span.stop)))
    return frozenset(found)


def share_kept(gold: Collection[int], kept_spans: Iterable[tuple[int, int]]) -> float | None:
    """Share of the gold evidence's tokens that a method kept, in [0, 1].

    Parameters
    ----------
    gold
        :func:`evidence_tokens` of the prompt.
    kept_spans
        Half-open spans of kept token indices (:attr:`harness.schema.receipts.Receipt.kept_spans`).

    Returns
    -------
    float or None
        None where the task names no evidence.
    """
    if not gold:
        return None
    spans = list(kept_spans)
    kept = sum(any(start <= token < stop for start, stop in spans) for token in gold)
    return kept / len(gold)
