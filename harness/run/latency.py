"""The TTFT protocol: cold, salted, unique prompts in ABBA blocks (DESIGN.md, rule 3).

A block is one prompt, timed four times: A B B A, the next block B A A B, where A is full prefill
and B the arm. Linear drift of the machine's speed over a block cancels in
mean log B − mean log A. TTFT runs from the arrival of the prompt's *text* at the method to the
first token: tokenization, scoring and selection count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter

from harness.engines.base import Engine, Sampling
from harness.methods.base import Method, MethodContext
from harness.run.proof import check_proof
from harness.schema.prompts import Prompt
from harness.schema.receipts import Receipt, Status
from harness.schema.records import LatencyRecord

TIMED_TOKENS = 4
"""Tokens generated per timed request: the first gives TTFT, the rest TPOT."""

ORDERS = ("ABBA", "BAAB")


@dataclass(frozen=True, slots=True)
class Timed:
    """One timed request."""

    ttft_s: float
    stages_s: Mapping[str, float]
    tpot_s: float | None
    tokens: int
    receipt: Receipt


def time_request(
    engine: Engine, method: Method, prompt: Prompt, context: MethodContext
) -> Timed | None:
    """Time one request with nothing cached; None where the method cannot take the prompt.

    Returns
    -------
    Timed
        ``stages_s`` holds ``score``, ``select``, ``prefill`` and ``other`` (tokenization and
        everything else of the method); they add up to ``ttft_s``.
    """
    cold = context.cold()
    sampling = Sampling(max_tokens=TIMED_TOKENS, ignore_eos=True)
    start = perf_counter()
    # Tokenized anew: the prompt arrives as text. The ids are the same as those in the record.
    fresh = replace(prompt, token_ids=context.tokenizer.encode(prompt.text))
    (prepared,) = method.prepare([fresh], cold)
    method_s = perf_counter() - start
    if prepared.receipt.status is Status.UNSUPPORTED:
        return None
    generation = engine.time_one(prepared, sampling)
    if generation.ttft_s is None:
        raise RuntimeError("the engine's time_one gave no ttft_s")
    receipt = generation.receipt or prepared.receipt
    receipt = replace(receipt, counters={**receipt.counters, **generation.counters})
    receipt = check_proof(method, prepared, receipt)
    before, whole = (_scoring(r.stages_s) for r in (prepared.receipt, receipt))
    # A scorer with its own clock (the fake one) may report more than the wall shows.
    method_s = max(method_s, sum(before))
    ttft = method_s + generation.ttft_s
    times = generation.token_times_s
    stages = {
        "score": whole[0],
        "select": whole[1],
        # A strategy may score inside the engine: a draft's pass, a filter's layers.
        "prefill": generation.ttft_s - (sum(whole) - sum(before)),
        "other": method_s - sum(before),
    }
    return Timed(
        ttft_s=ttft,
        stages_s=stages,
        tpot_s=(times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None,
        tokens=len(generation.token_ids),
        receipt=replace(receipt, stages_s=stages),
    )


def _scoring(stages: Mapping[str, float]) -> tuple[float, float]:
    """Seconds of scoring and of selection."""
    return stages.get("score", 0.0), stages.get("select", 0.0)


@dataclass(frozen=True)
class BlockPlan:
    """Blocks of one arm against its reference on one engine.

    ``reference`` is None where the run has none; every slot is the arm's then. ``before`` counts
    the arm's blocks on earlier tasks of its group, so that the orders alternate over the group.
    """

    cell_id: str
    method: Method
    context: MethodContext
    reference: Method | None
    session: str
    before: int = 0


def measure_blocks(
    engine: Engine,
    plan: BlockPlan,
    prompts: Iterable[Prompt],
    done: set[int],
) -> Iterator[list[LatencyRecord]]:
    """Yield the four records of each block that is not done yet.

    A block whose method does not support the prompt yields an empty list. Block i uses prompt i,
    so that no prompt is timed in two blocks of an arm.
    """
    for block, prompt in enumerate(prompts):
        if block not in done:
            yield _measure_block(engine, plan, block, prompt)


def _measure_block(
    engine: Engine, plan: BlockPlan, block: int, prompt: Prompt
) -> list[LatencyRecord]:
    order = ORDERS[(plan.before + block) % 2]
    records = []
    for slot, letter in enumerate(order):
        is_reference = letter == "A" and plan.reference is not None
        method = plan.reference if is_reference and plan.reference else plan.method
        timed = time_request(engine, method, prompt, plan.context)
        if timed is None:
            return []
        records.append(
            LatencyRecord(
                cell_id=plan.cell_id,
                example_id=prompt.example_id,
                block=block,
                slot=slot,
                order=order,
                role="reference" if is_reference else "arm",
                ttft_s=timed.ttft_s,
                stages_s=timed.stages_s,
                tpot_s=timed.tpot_s,
                tokens=timed.tokens,
                original_length=len(prompt.token_ids),
                receipt=timed.receipt,
                session=plan.session,
            )
        )
    return records


def warm_up(engine: Engine, plan: BlockPlan, prompt: Prompt) -> None:
    """Run each arm once on a prompt whose times are thrown away."""
    for method in (plan.reference, plan.method):
        if method is not None:
            time_request(engine, method, prompt, plan.context)
