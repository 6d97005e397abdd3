"""The quality protocol: every example of some cells, in batches, scored as it comes in."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from typing import TYPE_CHECKING

import numpy as np

from harness.engines.base import Engine, Generation, Sampling
from harness.methods.base import MethodContext
from harness.run.cells import PlannedCell
from harness.run.placing import placed
from harness.run.proof import check_proof
from harness.schema.prompts import PreparedPair, PreparedPrompt, Prompt
from harness.schema.receipts import Receipt, Status
from harness.schema.records import QualityRecord
from harness.tasks.segments import evidence_tokens, share_kept

if TYPE_CHECKING:
    from harness.tasks.examples import Example


@dataclass(frozen=True)
class QualityWork:
    """The pending examples of one cell and what its method may use."""

    cell: PlannedCell
    pending: Sequence[Example]
    context: MethodContext


def run_quality(
    works: Sequence[QualityWork], engine: Engine, go: Callable[[], bool] = lambda: True
) -> Iterator[QualityRecord]:
    """Yield one record for each pending example, in the order in which they finish.

    The examples of all ``works`` share the engine's batches. Methods prepare while the engine
    generates: prompts are pulled as the engine has room. An example that a method does not
    support is recorded without a score, never run. ``go`` is asked before each prompt: once it
    says no, what the engine holds is finished and the other examples are left out.
    """
    protocols = [_Quality(work, engine) for work in works]
    asked = [e.sampling for work in works for e in work.pending if e.kind == "generate"]
    for sampling in dict.fromkeys(asked):
        if go():
            yield from _generate(protocols, sampling, engine, go)
    for protocol in protocols:
        for example in protocol.work.pending:
            if example.kind == "loglikelihood" and go():
                yield protocol.loglikelihood(example)


def _generate(
    protocols: Sequence[_Quality], sampling: Sampling, engine: Engine, go: Callable[[], bool]
) -> Iterator[QualityRecord]:
    batches = [protocol.batch(sampling) for protocol in protocols]
    owner = {
        example.record.example_id: (protocol, example)
        for protocol, batch in zip(protocols, batches, strict=True)
        for example in batch
    }
    prompts = chain.from_iterable(map(_Quality.prepared, protocols, batches))
    for generation in engine.generate(takewhile(lambda _: go(), prompts), sampling):
        protocol, example = owner[generation.example_id]
        yield protocol.generated(example, generation)
    for protocol in protocols:
        yield from protocol.refusals()


@dataclass
class _Quality:
    work: QualityWork
    engine: Engine
    sent: dict[str, PreparedPrompt] = field(default_factory=dict)
    refused: list[PreparedPrompt] = field(default_factory=list)

    @property
    def context(self) -> MethodContext:
        return self.work.context

    def batch(self, sampling: Sampling) -> list[Example]:
        pending = self.work.pending
        return [e for e in pending if e.kind == "generate" and e.sampling == sampling]

    def prepared(self, batch: Sequence[Example]) -> Iterator[PreparedPrompt]:
        prompts = [example.prompt for example in batch]
        for prepared in self.work.cell.method.prepare(prompts, self.context):
            if prepared.receipt.status is Status.UNSUPPORTED:
                self.refused.append(prepared)
            else:
                self.sent[prepared.example_id] = prepared
                yield prepared

    def refusals(self) -> Iterator[QualityRecord]:
        while self.refused:
            yield self._refusal(self.refused.pop(0))

    def generated(self, example: Example, generation: Generation) -> QualityRecord:
        prepared = self.sent.pop(generation.example_id)
        receipt = generation.receipt or prepared.receipt
        receipt = replace(receipt, counters={**receipt.counters, **generation.counters})
        receipt = check_proof(self.work.cell.method, prepared, receipt)
        score = self.work.cell.examples.score(example, generation.text)
        record = self._record(example, score, receipt)
        return replace(
            record,
            text=generation.text,
            token_count=len(generation.token_ids),
            output_digest=_digest(generation.token_ids),
            finish_reason=generation.finish_reason,
        )

    def loglikelihood(self, example: Example) -> QualityRecord:
        """One selection per distinct context serves all its continuations (ALGORITHM.md)."""
        contexts = {pair.prompt.example_id: pair.prompt for pair in example.pairs}
        pruned = dict(
            zip(
                contexts,
                self.work.cell.method.prepare(list(contexts.values()), self.context),
                strict=True,
            )
        )
        for prepared in pruned.values():
            if prepared.receipt.status is Status.UNSUPPORTED:
                return self._refusal(prepared)
        pairs = [PreparedPair(pruned[p.prompt.example_id], p.continuation) for p in example.pairs]
        results = list(self.engine.loglikelihood(pairs))
        receipts = []
        for pair, result in zip(pairs, results, strict=True):
            found = result.receipt or pair.context.receipt
            found = replace(found, counters={**found.counters, **result.counters})
            receipts.append(check_proof(self.work.cell.method, pair.context, found))
        receipt = receipts[0]
        metrics = self.work.cell.examples.score(
            example, [(r.logprob, r.is_greedy) for r in results]
        )
        best = example.pairs[int(np.argmax([r.logprob for r in results]))].continuation
        return replace(
            self._record(example, metrics, receipt),
            text=self.context.tokenizer.decode(best),
            token_count=len(best),
            output_digest=_digest(best),
            finish_reason="loglikelihood",
        )

    def _record(
        self, example: Example, metrics: dict[str, float], receipt: Receipt
    ) -> QualityRecord:
        """Return a scored record; ``metrics`` has the primary one first."""
        return QualityRecord(
            cell_id=self.work.cell.record.cell_id,
            example_id=example.record.example_id,
            text=None,
            token_count=None,
            output_digest=None,
            score=next(iter(metrics.values())),
            metrics=metrics,
            evidence_kept=self._evidence_kept(example.prompt, receipt),
            receipt=placed(receipt, example.prompt, self.context.tokenizer),
        )

    def _evidence_kept(self, prompt: Prompt, receipt: Receipt) -> float | None:
        if receipt.kept_spans is None:
            return None
        known = self.context.memo.setdefault("evidence", {})
        if prompt.example_id not in known:
            known[prompt.example_id] = self._evidence(prompt)
        return share_kept(known[prompt.example_id], receipt.kept_spans)

    def _evidence(self, prompt: Prompt) -> frozenset[int]:
        """Token indices of the gold evidence; every cell on them needs these."""
        if prompt.segments is None or not prompt.segments.evidence:
            return frozenset()
        _, offsets = self.context.tokenizer.encode_with_offsets(prompt.text)
        return evidence_tokens(prompt.segments, offsets)

    def _refusal(self, prepared: PreparedPrompt) -> QualityRecord:
        return QualityRecord(
            cell_id=self.work.cell.record.cell_id,
            example_id=prepared.example_id,
            text=None,
            token_count=None,
            output_digest=None,
            score=None,
            metrics={},
            evidence_kept=None,
            receipt=prepared.receipt,
            reason=prepared.receipt.reason,
        )


def _digest(token_ids: Sequence[int]) -> str:
    """sha256 of the token ids: two outputs are identical only where their tokens are."""
    return hashlib.sha256(np.asarray(token_ids, dtype="<i4").tobytes()).hexdigest()
