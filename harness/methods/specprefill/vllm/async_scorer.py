"""The speculator as a second asynchronous vLLM engine: many requests, each on its own.

For a server. :class:`harness.methods.specprefill.vllm.scorer.VllmScorer` scores in groups, in
order, for one caller; here every request enters the running batch when it comes, and leaves it
at once when its caller has gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Sequence
from typing import Any

from harness.engines.scorer import ScoreRequest, Scores
from harness.engines.vllm.host import HostOptions, engine_arguments, engine_length
from harness.engines.vllm.refusals import check_model, refused
from harness.errors import HarnessError
from harness.methods.specprefill.vllm.passes import (
    Ended,
    Pass,
    Speculating,
    following,
    merge_ranks,
)
from harness.methods.specprefill.windows import WindowPlan
from harness.models.config_facts import bos_token_id, read_config

_END_S = 2.0  # for the engine's processes to end by themselves


class AsyncVllmScorer:
    """Scores prompts with a speculator in an ``AsyncLLM``.

    Every method but :meth:`open` runs on one event loop.
    """

    def __init__(self, engine: Any, options: HostOptions) -> None:
        self.engine = engine
        self.options = options
        self._numbers = itertools.count()
        bos = bos_token_id(read_config(options.model))
        self._facts = Speculating(engine_length(options) - 1, bos)
        self._checked = False
        self._background: set[asyncio.Future[Any]] = set()

    @classmethod
    def open(cls, options: HostOptions) -> AsyncVllmScorer:
        """Start the engine; tens of seconds, in any thread.

        Raises
        ------
        HarnessError
            The model cannot be scored, or its configuration or range does not fit.
        """
        check_model(options.model, read_config(options.model), "speculator")
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = AsyncEngineArgs(**engine_arguments(options), enable_log_requests=False)
        engine = AsyncLLM.from_engine_args(arguments, usage_context=UsageContext.ENGINE_CONTEXT)
        return cls(engine, options)

    @property
    def max_positions(self) -> int:
        """The speculator's position range."""
        return self._facts.max_positions

    @property
    def alive(self) -> bool:
        """Whether the engine's processes are there, as far as vLLM knows."""
        return not self.engine.errored

    @property
    def processes(self) -> list[Any]:
        """The engine's own processes (``multiprocessing``), not those below them."""
        manager = self.engine.engine_core.resources.engine_manager
        return [] if manager is None else list(manager.processes)

    async def score(self, request: ScoreRequest) -> Scores:
        """Score one prompt. Cancelling frees everything the engine holds for it.

        Raises
        ------
        HarnessError
            The prompt cannot be scored, or the engine ended it without scores.
        vllm.v1.engine.exceptions.EngineDeadError
            The engine has died.
        """
        await self._check_layers()
        plan = self._facts.plan(request)
        began = time.perf_counter()
        if plan is not None:
            return await self._score_windows(request, plan, began)
        config = request.config
        (ended,) = await self._run([Pass(request.token_ids, config, config.look_ahead)])
        rows = merge_ranks([rank["rows"] for rank in ended.ranks], len(request.token_ids))
        return Scores(
            example_id=request.example_id,
            rows=rows,
            look_ahead_tokens=ended.tokens[: len(rows) - 1],
            seconds=time.perf_counter() - began,
            counters={"rows_captured": ended.captured},
        )

    async def _check_layers(self) -> None:
        """Refuse, once the engine answers, a model whose loaded layers cannot be scored."""
        if self._checked:
            return
        why = next(filter(None, await self._rpc("specprefill_refusal")), None)
        if why is not None:
            raise refused(self.options.model, "speculator", why)
        self._checked = True

    async def _score_windows(self, request: ScoreRequest, plan: WindowPlan, began: float) -> Scores:
        name = f"prompt-{next(self._numbers)}"
        passes = self._facts.passes(request, plan, name)
        try:
            (last,) = await self._run(passes[-1:])
            ahead = last.tokens[: len(last.tokens) - 1]
            others = await self._run(following(passes[:-1], ahead))
            merged = await self._rpc("specprefill_merge", name)
        except BaseException:
            await self._forget("specprefill_drop", name)
            raise
        return Scores(
            example_id=request.example_id,
            rows=merge_ranks(merged, len(request.token_ids)),
            look_ahead_tokens=ahead,
            windows=len(plan.windows),
            seconds=time.perf_counter() - began,
            counters={"rows_captured": last.captured + sum(e.captured for e in others)},
        )

    async def _run(self, passes: Sequence[Pass]) -> list[Ended]:
        """Run passes as one batch and collect what the workers kept, in order."""
        queues: list[Any] = []
        try:
            for item in passes:
                queues.append(await self._add(item))
            tokens = [await _last_tokens(queue) for queue in queues]
            names = [queue.request_id for queue in queues]
            ranks = await self._rpc("specprefill_take_scores", names)
        except BaseException:
            await self._give_up([queue.request_id for queue in queues])
            raise
        unscored = sum(any(name not in rank for rank in ranks) for name in names)
        if unscored:
            raise HarnessError(
                f"the speculator {self.options.model} ended {unscored} of {len(names)} requests "
                "without scores: they were aborted"
            )
        return [
            Ended(ids, tuple(rank[name] for rank in ranks))
            for name, ids in zip(names, tokens, strict=True)
        ]

    async def _add(self, item: Pass) -> Any:
        """Queue a pass; returns vLLM's collector of its outputs, which knows its inner id."""
        from vllm.inputs import tokens_input

        name = f"score-{next(self._numbers)}"
        return await self.engine.add_request(name, tokens_input(list(item.fed)), item.params())

    async def prefill_seconds(self, token_ids: Sequence[int]) -> float:
        """Seconds of the plain prefill of a prompt: nothing captured, one token."""
        from vllm import SamplingParams
        from vllm.inputs import tokens_input

        params = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True, detokenize=False)
        name = f"prefill-{next(self._numbers)}"
        began = time.perf_counter()
        async for _ in self.engine.generate(tokens_input(list(token_ids)), params, name):
            pass
        return time.perf_counter() - began

    async def _rpc(self, method: str, *args: Any) -> list[Any]:
        results: list[Any] = await self.engine.collective_rpc(method, args=args)
        return results

    async def _give_up(self, names: Sequence[str]) -> None:
        """Abort requests and free what the workers keep of them, also while being cancelled.

        Aborting alone is not enough: where a request has just ended, its scores would wait in
        the workers for somebody to take them.
        """
        if not names or self.engine.errored:
            return
        with contextlib.suppress(Exception):  # the engine itself may be what went wrong
            await asyncio.shield(self.engine.abort(list(names), internal=True))
        await self._forget("specprefill_discard", list(names))

    async def _forget(self, method: str, what: Any) -> None:
        """Tell the workers to let go, without waiting for a busy engine to hear it."""
        if self.engine.errored:
            return
        task = asyncio.ensure_future(self._rpc(method, what))
        self._background.add(task)
        task.add_done_callback(self._forgotten)

    def _forgotten(self, task: asyncio.Future[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # of no interest: what dies with the engine need not be freed

    def close(self) -> None:
        """End the engine and its processes. Idempotent."""
        self.engine.shutdown(timeout=_END_S)


async def _last_tokens(queue: Any) -> tuple[int, ...]:
    """Wait for a request's end; the tokens that it generated."""
    while True:
        output = queue.get_nowait() or await queue.get()
        if output.finished:
            return tuple(output.outputs[0].token_ids)
