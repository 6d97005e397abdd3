"""Retrieval: keep the passages that match the question best, to exactly the same budget.

Source: Lewis et al. 2020 (arXiv:2005.11401) for the idea; order and unit follow the options of
Jiang et al. 2023, "LongLLMLingua" (arXiv:2310.06839), tables 1 and 2, and of LongBench's
retrieval study (arXiv:2308.14508, section 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from harness.methods.base import MethodContext
from harness.methods.layout import Layout, layout_of, sentences, windows
from harness.methods.one_by_one import KeepsShare
from harness.methods.pruning import (
    STRICT,
    Positions,
    Stopwatch,
    prune,
    token_budget,
)
from harness.methods.retrievers import Bm25, Dense, Retriever, model_is_here
from harness.schema.prompts import PreparedPrompt, Prompt, Span
from harness.schema.receipts import BudgetKind

Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True, config=STRICT)
class Rag(KeepsShare):
    """Instruction, question and template, then the best passages until the budget is full.

    The budget is ceil(keep × M) tokens, met exactly: the passage that would overflow is cut at
    the budget. Tokens are the prompt's own, so that nothing is tokenized a second time.

    Attributes
    ----------
    retriever
        ``bm25``, or ``dense`` with ``model``.
    unit
        What is ranked: a ``sentence``, a ``document`` or a ``window`` of ``window`` tokens.
    order
        Passages stand in the prompt's ``original`` order, or the most relevant one first.
    positions
        ``compacted``: retrieval builds a shorter text. ``original`` keeps the gaps.
    model
        Embedding model of the dense retriever: a folder or a cached hub name.
    """

    name: ClassVar[str] = "rag"
    budget_kind: ClassVar[BudgetKind] = BudgetKind.TOKENS
    needs: ClassVar[frozenset[str]] = frozenset({"question", "documents"})

    retriever: Literal["bm25", "dense"] = "bm25"
    unit: Literal["sentence", "document", "window"] = "sentence"
    order: Literal["original", "relevance"] = "original"
    positions: Positions = "compacted"
    window: Annotated[int, Field(ge=1)] = 64
    model: str = "sentence-transformers/all-MiniLM-L6-v2"

    @model_validator(mode="after")
    def _positions_fit_order(self) -> Self:
        if self.order == "relevance" and self.positions == "original":
            raise ValueError("order relevance moves passages, so it needs positions: compacted")
        return self

    @property
    def own_models(self) -> tuple[str, ...]:
        """The embedding model, where there is one: part of a cell's identity."""
        return (self.model,) if self.retriever == "dense" else ()

    def missing(self) -> str | None:
        """Say what the retriever lacks on this machine; None where it can run."""
        if self.retriever == "bm25":
            return None
        if find_spec("sentence_transformers") is None:
            return "pip install 'specprefill-harness[dense]'"
        return None if model_is_here(self.model) else f"no embedding model {self.model}"

    def prepare_one(
        self, prompt: Prompt, context: MethodContext, watch: Stopwatch
    ) -> PreparedPrompt:
        """Return a prompt with its best passages; ``unsupported`` without a question."""
        layout = layout_of(prompt, context.tokenizer)
        retriever = self._open(context)
        watch.lap("other")
        droppable = layout.inside(layout.documents)
        fixed = np.flatnonzero(~droppable)
        room = token_budget(len(droppable), self.keep) - len(fixed)
        units = [unit for unit in self._units(layout, droppable) if len(unit)]
        texts = [layout.text[layout.starts[u[0]] : layout.stops[u[-1]]] for u in units]
        scores = retriever.scores(layout.query, texts) if texts else np.zeros(0)
        watch.lap("score")
        chosen = fill([units[i] for i in np.argsort(-scores, kind="stable")], room)
        watch.lap("select")
        reason = None
        if room < 0:
            reason = "the instruction and the question alone exceed the budget"
        elif len(scores) and not scores.any():
            reason = "no passage matches the question at all: the first ones were taken"
        return prune(
            self,
            prompt,
            self._arrange(droppable, chosen),
            context,
            watch,
            positions=self.positions,
            reason=reason,
            details={"passages": len(units), "passages_kept": len(chosen), "order": self.order},
        )

    def _units(self, layout: Layout, droppable: npt.NDArray[np.bool_]) -> list[Tokens]:
        """Tokens of each passage; together they are the droppable tokens."""
        if self.unit == "window":
            return windows(droppable, self.window)
        spans: list[Span] = list(layout.documents)
        if self.unit == "sentence":
            spans = [s for span in spans for s in sentences(layout.text, span)]
        tokens = np.flatnonzero(droppable)
        starts = np.asarray([span.start for span in spans])
        owner = np.searchsorted(starts, layout.first_letters()[tokens], side="right")
        return [tokens[owner == i + 1] for i in range(len(spans))]

    def _arrange(self, droppable: npt.NDArray[np.bool_], chosen: list[Tokens]) -> list[int]:
        """Tokens in the order in which they are prefilled.

        By relevance, the passages stand together where the first document began.
        """
        fixed = np.flatnonzero(~droppable)
        if self.order == "original" or not chosen:
            return [int(i) for i in np.sort(np.concatenate([fixed, *chosen]))]
        first = int(np.argmax(droppable))
        parts = (fixed[fixed < first], *chosen, fixed[fixed > first])
        return [int(i) for i in np.concatenate(parts)]

    def _open(self, context: MethodContext) -> Retriever:
        if self.retriever == "bm25":
            return Bm25()
        return context.handle(f"dense:{self.model}", lambda: Dense(self.model))


def fill(ranked: Sequence[Tokens], room: int) -> list[Tokens]:
    """Take passages in order until ``room`` tokens are full; the last one is cut to fit."""
    taken: list[Tokens] = []
    for unit in ranked:
        if room <= 0:
            break
        taken.append(unit[:room])
        room -= len(taken[-1])
    return taken
