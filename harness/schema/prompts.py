"""What travels from a task to a method and from a method to an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from harness.schema.receipts import Receipt


class Span(NamedTuple):
    """A half-open range, ``[start, stop)``, in characters or in tokens as the owner says."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Segments:
    """Character spans into :attr:`Prompt.text`, after templating.

    Empty tuples mean "the data does not say". ``evidence`` spans lie inside ``documents``.
    """

    instruction: tuple[Span, ...] = ()
    documents: tuple[Span, ...] = ()
    question: tuple[Span, ...] = ()
    evidence: tuple[Span, ...] = ()

    def to_json(self) -> dict[str, list[list[int]]]:
        """Return a JSON-ready mapping of name to ``[[start, stop], …]``."""
        return {
            name: [list(span) for span in getattr(self, name)]
            for name in ("instruction", "documents", "question", "evidence")
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Iterable[Iterable[int]]]) -> Segments:
        """Read what :meth:`to_json` wrote."""
        return cls(**{name: tuple(Span(*span) for span in spans) for name, spans in raw.items()})


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt as the target would see it under full prefill.

    Attributes
    ----------
    example_id
        Unique within a run; names the example in records.
    text
        The whole prompt after templating. ``token_ids`` are its tokens, no special token added.
    token_ids
        M token ids of the *target's* tokenizer.
    segments
        Spans the task knows, or None where the task knows none (a foreign lm-eval task).
    query
        The question's text, for methods that retrieve by it; None where unknown.
    """

    example_id: str
    text: str
    token_ids: tuple[int, ...]
    segments: Segments | None = None
    query: str | None = None


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """What an engine prefills.

    Attributes
    ----------
    token_ids
        The K token ids to prefill, in prompt order.
    positions
        Their K original positions, strictly increasing; None means 0…K−1.
    original_length
        M, the length of the prompt before the method. Decoding goes on at position M where
        ``positions`` is given, else at K.
    receipt
        What the method did.
    directives
        Per-request instructions for an attention path or prefill strategy other than the usual.
    """

    example_id: str
    token_ids: tuple[int, ...]
    positions: tuple[int, ...] | None
    original_length: int
    receipt: Receipt
    directives: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedPair:
    """A pruned context with a whole continuation (ALGORITHM.md, Log-likelihood).

    ``continuation`` holds the token ids of the continuation, kept whole at positions
    M…M+len−1, where M is ``context.original_length``.
    """

    context: PreparedPrompt
    continuation: tuple[int, ...]
