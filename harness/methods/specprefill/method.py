"""SpecPrefill: a small speculator picks the tokens, the target prefills only those.

Liu, Chen, Zhang, "Speculative Prefill" (arXiv:2502.02789).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from harness.engines.scorer import ScoreRequest, Scores
from harness.errors import ConfigError
from harness.methods.base import Method, MethodContext
from harness.methods.costs import prefill_cost, target_shape
from harness.methods.pruning import Stopwatch, template_of
from harness.methods.specprefill.config import SelectionConfig, SpecPrefillConfig
from harness.methods.specprefill.cross_family import (
    Translation,
    TranslationError,
    speculator_tokenizer,
    translate,
)
from harness.methods.specprefill.guards import TOOL_SCAN_TOKENS, RequestFacts, Skip, check
from harness.methods.specprefill.score_cache import ScoreCache
from harness.methods.specprefill.selection import Selection, merged_importance, select
from harness.methods.specprefill.windows import window_length
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind, Cost, Receipt, Status, spans_of


@dataclass
class Pending:
    """A prompt on its way: held back by a guard, scored before, or waiting for the scorer.

    Attributes
    ----------
    request
        What the scorer is to do; None where nothing is.
    scores
        Its answer, to be filled in before :meth:`SpecPrefill.finish`.
    """

    prompt: Prompt
    watch: Stopwatch
    skip: Skip | None = None
    scores: Scores | None = None
    request: ScoreRequest | None = None
    translation: Translation | None = None

    @property
    def scored_ids(self) -> tuple[int, ...]:
        """The prompt in the speculator's tokens."""
        return self.prompt.token_ids if self.translation is None else self.translation.token_ids


@dataclass(frozen=True)
class SpecPrefill(Method):
    """Score, select, and prefill the kept tokens at their original positions.

    Scores are kept in the context's memo, so that one pass serves every keep rate and smaller
    look-ahead; a latency measurement finds that memo empty.
    """

    name: ClassVar[str] = "specprefill"
    needs: ClassVar[frozenset[str]] = frozenset({"scorer"})

    config: SpecPrefillConfig = field(default_factory=SpecPrefillConfig)

    @property
    def requested(self) -> float | None:
        """The keep rate; None where scores decide how much is kept."""
        return self.config.keep if self.config.select == "rate" else None

    @property
    def wants_rates(self) -> bool:
        """Whether the break-even guard needs rates that its options do not give."""
        config = self.config
        return config.break_even and None in (config.scorer_rate, config.target_rate)

    def prepare(
        self, prompts: Sequence[Prompt], context: MethodContext
    ) -> Iterator[PreparedPrompt]:
        """Yield prompts in order as the scorer, which pulls them, gives their scores.

        Raises
        ------
        ConfigError
            A prompt needs scores and the context has no speculator.
        """
        if context.scorer is None:
            raise ConfigError("specprefill needs a speculator: give --preset or --speculator")
        cache = ScoreCache.of(context.memo)
        positions = context.scorer.max_positions
        waiting: deque[Pending] = deque()

        def requests() -> Iterator[ScoreRequest]:
            for prompt in prompts:
                pending = self.admit(prompt, context, positions)
                waiting.append(pending)
                if pending.request is not None:
                    yield pending.request

        for scores in context.scorer.score(requests()):
            while waiting[0].request is None:
                yield self.finish(waiting.popleft(), context)
            pending = waiting.popleft()
            cache.put(pending.scored_ids, self.config.scoring(), scores)
            pending.scores = scores
            yield self.finish(pending, context)
        while waiting:
            yield self.finish(waiting.popleft(), context)

    def admit(
        self,
        prompt: Prompt,
        context: MethodContext,
        positions: int,
        facts: RequestFacts | None = None,
    ) -> Pending:
        """Ask the guards, and say what the scorer has to do: the first half of :meth:`prepare`.

        Whoever scores by itself, request by request (a server), calls this, fills in the scores
        and calls :meth:`finish`.

        Parameters
        ----------
        positions
            The speculator's position range.
        facts
            What is known of the request besides its tokens; ``head`` is filled in here.
        """
        watch = Stopwatch()
        scoring = self.config.scoring()
        known = self._facts(prompt, context, facts or RequestFacts())
        skip = check(len(prompt.token_ids), self.config, known, context.rates)
        if skip is not None or not prompt.token_ids:
            return Pending(prompt, watch, skip)
        pending = Pending(prompt, watch)
        try:
            pending.translation = _translation(prompt, context)
        except TranslationError as fault:
            pending.skip = Skip(Status.UNSUPPORTED, str(fault))
            return pending
        pending.scores = ScoreCache.of(context.memo).get(pending.scored_ids, scoring)
        if pending.scores is None:
            tail = self._tail_tokens(pending, context, positions)
            pending.request = ScoreRequest(prompt.example_id, pending.scored_ids, scoring, tail)
        return pending

    def _facts(self, prompt: Prompt, context: MethodContext, request: RequestFacts) -> RequestFacts:
        if not self.config.tool_guard:
            return request
        head = context.tokenizer.decode(
            prompt.token_ids[:TOOL_SCAN_TOKENS], skip_special_tokens=False
        )
        return replace(request, head=head)

    def _tail_tokens(self, pending: Pending, context: MethodContext, positions: int) -> int | None:
        """Tokens from the last segment's start on; only a prompt cut into windows needs them."""
        window = window_length(self.config, positions) or positions
        segments = pending.prompt.segments
        if segments is None or len(pending.scored_ids) + self.config.look_ahead <= window:
            return None
        spans = (*segments.instruction, *segments.documents, *segments.question)
        last = max((span.start for span in spans), default=None)
        if last is None:
            return None
        if pending.translation is not None:
            return sum(start >= last for start in pending.translation.starts)
        _, offsets = context.tokenizer.encode_with_offsets(pending.prompt.text)
        return sum(stop > last for _, stop in offsets)

    def finish(self, pending: Pending, context: MethodContext) -> PreparedPrompt:
        """Select by the scores and prune: the second half of :meth:`prepare`."""
        length = len(pending.prompt.token_ids)
        if pending.scores is None:
            why = pending.skip or Skip(Status.KEPT_ALL, "the prompt is empty")
            return self._whole(pending, context, why)
        pending.watch.lap("other")
        importance = merged_importance(pending.scores, self.config)
        config: SelectionConfig = self.config
        if pending.translation is not None:
            importance = pending.translation.to_target(importance)
            # The speculator has not seen the target's template, and cannot score it.
            ends = config.always_keep.model_copy(update={"template": True})
            config = config.model_copy(update={"always_keep": ends})
        template = template_of(pending.prompt, context, wanted=config.always_keep.template)
        selection = select(importance, config, template)
        pending.watch.lap("select")
        if selection.status is Status.FAILED:
            return self._whole(pending, context, Skip(Status.FAILED, selection.reason or ""))
        kept = selection.kept
        compacted = self.config.positions == "compacted"
        return PreparedPrompt(
            example_id=pending.prompt.example_id,
            token_ids=tuple(pending.prompt.token_ids[i] for i in kept),
            positions=None if compacted else kept,
            original_length=length,
            receipt=self._receipt(pending, context, selection),
        )

    def _receipt(self, pending: Pending, context: MethodContext, selection: Selection) -> Receipt:
        scores = pending.scores
        assert scores is not None  # a selection was made from them
        by_rate = self.config.select == "rate"
        details: dict[str, Any] = {
            **selection.details,
            **self._unguarded(context),
            "rows": min(self.config.look_ahead, len(scores.rows)),
            "windows": scores.windows,
        }
        if scores.windows > 1:
            details["window_query"] = self.config.window_query
            details["merge"] = self.config.merge
        if pending.translation is not None:
            details["speculator_tokens"] = len(pending.scored_ids)
        return Receipt(
            method=self.name,
            status=selection.status,
            reason=selection.reason,
            keep_requested=self.requested,
            keep_achieved=selection.achieved,
            budget_kind=BudgetKind.TOKENS if by_rate else BudgetKind.ADAPTIVE,
            cost=prefill_cost(selection.length, len(selection.kept), target_shape(context)),
            kept_spans=spans_of(selection.kept),
            stages_s=self._stages(pending),
            counters=scores.counters,
            details=details,
        )

    def _unguarded(self, context: MethodContext) -> dict[str, str]:
        """Say that the break-even guard could not judge, where it was to."""
        if not self.wants_rates or context.rates:
            return {}
        return {"break_even": "not judged: no rates were measured or given"}

    def _whole(self, pending: Pending, context: MethodContext, why: Skip) -> PreparedPrompt:
        """Full prefill on the engine's ordinary path, with the status that says why."""
        prompt = pending.prompt
        length = len(prompt.token_ids)
        by_rate = self.config.select == "rate"
        ran = why.status is not Status.UNSUPPORTED
        receipt = Receipt(
            method=self.name,
            status=why.status,
            reason=why.reason,
            keep_requested=self.requested,
            keep_achieved=1.0 if length and ran else None,
            budget_kind=BudgetKind.TOKENS if by_rate else BudgetKind.ADAPTIVE,
            cost=prefill_cost(length, length, target_shape(context)) if ran else Cost(),
            kept_spans=(((0, length),) if length else ()) if ran else None,
            stages_s=self._stages(pending),
            details=self._unguarded(context),
            counters=pending.scores.counters if pending.scores else {},
        )
        return PreparedPrompt(prompt.example_id, prompt.token_ids, None, length, receipt)

    def _stages(self, pending: Pending) -> Mapping[str, float]:
        """Seconds by stage; waiting for a batch's scores counts in none of them."""
        score = pending.scores.seconds if pending.scores is not None else 0.0
        return {"score": score, "select": pending.watch.stages.get("select", 0.0)}


def _translation(prompt: Prompt, context: MethodContext) -> Translation | None:
    """Return the prompt for a speculator with another tokenizer; None where it has the same."""
    if context.speculator is None:
        return None
    other = speculator_tokenizer(str(context.tokenizer.hf.name_or_path), context.speculator)
    return None if other is None else translate(prompt, context.tokenizer, other)
