"""LLMLingua: a compressor rewrites the documents to fewer tokens.

Sources: Jiang et al. 2023, "LLMLingua" (arXiv:2310.05736) and "LongLLMLingua"
(arXiv:2310.06839); Pan et al. 2024, "LLMLingua-2" (arXiv:2403.12968). The compression is the
authors' package's (:mod:`harness.methods.llmlingua.adapter`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass as plain_dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from harness.errors import ModelError
from harness.methods.base import MethodContext
from harness.methods.costs import prefill_cost, target_shape
from harness.methods.layout import Layout, LayoutError, layout_of, sentences, touching
from harness.methods.llmlingua.adapter import Compressor, Variant
from harness.methods.one_by_one import KeepsShare
from harness.methods.pruning import STRICT, Stopwatch
from harness.methods.retrievers import model_is_here
from harness.schema.prompts import PreparedPrompt, Prompt, Span
from harness.schema.receipts import BudgetKind, Receipt, Status

if TYPE_CHECKING:
    from harness.models.tokenizer import Tokenizer

TOLERANCE = 0.02
"""Share of the budget by which the compressed prompt may miss it."""

ATTEMPTS = 10
"""Compressions that the search for the budget may cost."""


PUBLISHED_CLASSIFIER = "microsoft/llmlingua-2-bert-base-multilingual-cased-meetingbank"
"""The smaller of the two classifiers that the authors of LLMLingua-2 published."""

PASSAGE_TOKENS = 200
"""Longest passage: one step of the package, whose first stage drops whole passages."""

Compress = Callable[[int, float], str]
"""Room for the documents in tokens, size asked for in tokens → compressed documents."""


@dataclass(frozen=True, config=STRICT)
class LlmLingua(KeepsShare):
    """Compress the documents; instruction, question and template stay word for word.

    The package's rate is a wish, not a result, so the rate is searched until the whole prompt
    has keep × M tokens within 2 %. A prompt for which no rate does that is
    ``unsupported``, with the closest result in the reason. The search's time is the method's.

    Attributes
    ----------
    variant
        ``llmlingua`` (perplexity), ``longllmlingua`` (perplexity given the question) or
        ``llmlingua2`` (a token classifier).
    compressor
        Folder or cached hub name of the compressor; None takes the speculator for the two causal
        variants and the authors' multilingual BERT for ``llmlingua2``.
    """

    name: ClassVar[str] = "llmlingua"
    budget_kind: ClassVar[BudgetKind] = BudgetKind.TOKENS
    needs: ClassVar[frozenset[str]] = frozenset(
        {"question", "documents", "speculator", "package:llmlingua"}
    )

    variant: Variant = "llmlingua"
    compressor: str | None = None

    @property
    def own_models(self) -> tuple[str, ...]:
        """The compressor, where it is not the speculator: part of a cell's identity."""
        model = self._model(None)
        return () if model is None else (model,)

    def missing(self) -> str | None:
        """Say which compressor is not on this machine; None where it is, or comes with a run."""
        model = self._model(None)
        if model is None or model_is_here(model):
            return None
        return f"no compressor {model}"

    def prepare_one(
        self, prompt: Prompt, context: MethodContext, watch: Stopwatch
    ) -> PreparedPrompt:
        """Return a prompt with its documents compressed."""
        layout = layout_of(prompt, context.tokenizer)
        compressor = self._open(context)
        passages = passages_of(prompt, layout)
        watch.lap("other")
        compress = partial(compressor.compress, passages, layout.query)
        return self._compress(prompt, layout, compress, context, watch)

    def _compress(
        self,
        prompt: Prompt,
        layout: Layout,
        compress: Compress,
        context: MethodContext,
        watch: Stopwatch,
    ) -> PreparedPrompt:
        length = len(prompt.token_ids)
        budget = self.keep * length
        head = layout.text[: layout.documents[0].start]
        tail = layout.text[layout.documents[-1].stop :]
        assemble = _Assembler(context.tokenizer, head, tail)
        if self.keep == 1:
            found = Attempt("", prompt.token_ids, 0)
        else:
            found = search(compress, assemble, budget)
        watch.lap("score")
        receipt = Receipt(
            method=self.name,
            status=Status.KEPT_ALL if self.keep == 1 else Status.ACTIVE,
            keep_requested=self.keep,
            keep_achieved=len(found.token_ids) / length,
            budget_kind=self.budget_kind,
            cost=prefill_cost(length, len(found.token_ids), target_shape(context)),
            stages_s=watch.stages,
            details={"variant": self.variant, "compressions": found.attempts},
        )
        return PreparedPrompt(prompt.example_id, found.token_ids, None, length, receipt)

    def _model(self, speculator: str | None) -> str | None:
        if self.compressor is not None:
            return self.compressor
        return PUBLISHED_CLASSIFIER if self.variant == "llmlingua2" else speculator

    def _open(self, context: MethodContext) -> Compressor:
        model = self._model(context.speculator)
        if model is None:
            raise ModelError("LLMLingua needs a compressor: give `compressor` or a speculator")
        key = f"llmlingua:{self.variant}:{model}"
        return context.handle(key, lambda: Compressor(self.variant, model, context.tokenizer))


def passages_of(prompt: Prompt, layout: Layout) -> list[str]:
    """Texts of the documents, cut between sentences into at most :data:`PASSAGE_TOKENS` each.

    What stands between two documents (a separator, a heading) goes with the earlier one.

    Raises
    ------
    LayoutError
        The instruction or the question stands between two documents, where compressing would
        reach it.
    """
    documents = layout.documents
    segments = prompt.segments
    between = [Span(a.stop, b.start) for a, b in pairwise(documents)]
    if segments is not None:
        kept = touching([*segments.instruction, *segments.question], layout.starts, layout.stops)
        if (kept & touching(between, layout.starts, layout.stops)).any():
            raise LayoutError("the instruction or the question stands between the documents")
    stops = [*(b.start for b in documents[1:]), documents[-1].stop]
    return [
        layout.text[span.start : span.stop]
        for document, stop in zip(documents, stops, strict=True)
        for span in _cut(layout, Span(document.start, stop))
    ]


def _cut(layout: Layout, document: Span) -> list[Span]:
    """Join neighbouring sentences while they stay within :data:`PASSAGE_TOKENS`."""
    passages: list[Span] = []
    for sentence in sentences(layout.text, document):
        start = passages[-1].start if passages else sentence.start
        first, last = np.searchsorted(layout.starts, (start, sentence.stop))
        if passages and last - first <= PASSAGE_TOKENS:
            passages[-1] = Span(start, sentence.stop)
        else:
            passages.append(sentence)
    return passages


@plain_dataclass(frozen=True, slots=True)
class _Assembler:
    """Puts a compressed text between what stands before and after the documents."""

    tokenizer: Tokenizer
    head: str
    tail: str

    def __call__(self, middle: str) -> tuple[int, ...]:
        return self.tokenizer.encode(self.head + middle + self.tail)


@plain_dataclass(frozen=True, slots=True)
class Attempt:
    """One compression: its text, the whole prompt's tokens, and how many were tried."""

    text: str
    token_ids: tuple[int, ...]
    attempts: int


def search(
    compress: Compress,
    assemble: Callable[[str], tuple[int, ...]],
    budget: float,
) -> Attempt:
    """Search the requested size whose result gives a prompt of ``budget`` tokens.

    Regula falsi with bisection where it stalls: the achieved size grows with the requested one,
    but with steps and with an offset.

    Raises
    ------
    LayoutError
        No attempt came within :data:`TOLERANCE`, at least one token, or the fixed text alone
        exceeds the budget; the message says the closest size.
    """
    fixed = len(assemble(""))
    room = round(budget) - fixed
    if room < 1:
        raise LayoutError(
            f"the instruction and the question alone take {fixed} of {budget:.0f} tokens"
        )
    low, high = (0.0, 0), (float("inf"), 0)
    asked = float(room)
    best: Attempt | None = None
    for number in range(1, ATTEMPTS + 1):
        text = compress(room, asked)
        ids = assemble(text)
        if best is None or abs(len(ids) - budget) < abs(len(best.token_ids) - budget):
            best = Attempt(text, ids, number)
        if abs(len(ids) - budget) <= max(1.0, TOLERANCE * budget):
            return Attempt(text, ids, number)
        got = len(ids) - fixed
        low, high = ((asked, got), high) if got < room else (low, (asked, got))
        asked = _next(low, high, room, bisect=number % 3 == 0)
    closest = 0 if best is None else len(best.token_ids)
    raise LayoutError(
        f"no rate gives {budget:.0f} tokens within {TOLERANCE:.0%}: the closest of {ATTEMPTS} "
        f"compressions has {closest}"
    )


def _next(low: tuple[float, int], high: tuple[float, int], room: int, *, bisect: bool) -> float:
    """Next size to ask for, between two (asked, got) pairs that enclose ``room``."""
    if high[0] == float("inf"):
        return low[0] * max(1.25, room / max(1, low[1]))
    if bisect or high[1] == low[1]:
        return (low[0] + high[0]) / 2
    share = (room - low[1]) / (high[1] - low[1])
    return low[0] + (high[0] - low[0]) * min(0.95, max(0.05, share))
