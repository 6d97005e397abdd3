"""The target of a server: vLLM's ``AsyncLLM``, with a plan before each prompt's prefill."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from vllm.exceptions import VLLMValidationError
from vllm.v1.engine.async_llm import AsyncLLM

from harness.engines.vllm.wire import POSITIONS_KEY, encode_positions, positions_salt
from harness.schema.prompts import PreparedPrompt
from harness.serving.metrics import Metrics
from harness.serving.planner import Planner
from harness.serving.receipts import ServedReceipt
from harness.serving.tickets import Ticket, current_ticket

_POLL_S = 0.05
_END_S = 2.0  # for idle processes to end by themselves


class SpecPrefillLLM(AsyncLLM):  # type: ignore[misc]
    """An engine client that prefills the kept tokens and tells of the whole prompt.

    vLLM's own server calls :meth:`generate` with the rendered prompt and with ``max_tokens``
    already derived from its length; what comes back carries the prompt's own ids again, so that
    usage, echo and token ids are the user's.
    """

    planner: Planner
    metrics: Metrics
    drain_s: float = 0.0
    draining: bool = False
    _in_flight: int = 0

    async def generate(
        self, prompt: Any, sampling_params: Any, request_id: str, **kwargs: Any
    ) -> AsyncGenerator[Any, None]:
        """Plan, prune, generate; see ``AsyncLLM.generate``."""
        self._in_flight += 1
        try:
            outputs = self._generate(prompt, sampling_params, request_id, **kwargs)
            async with aclosing(outputs):
                async for output in outputs:
                    yield output
        finally:
            self._in_flight -= 1

    async def _generate(
        self, prompt: Any, params: Any, request_id: str, **kwargs: Any
    ) -> AsyncGenerator[Any, None]:
        if POSITIONS_KEY in (getattr(params, "extra_args", None) or {}):
            raise VLLMValidationError(f"extra_args.{POSITIONS_KEY} is the server's own")
        ticket = current_ticket.get()
        if ticket is None or not isinstance(prompt, dict) or prompt.get("type") != "token":
            outputs = super().generate(prompt, params, request_id, **kwargs)
            async with aclosing(outputs):
                async for output in outputs:
                    yield output
            return
        receipt = ServedReceipt()
        ticket.receipts.append(receipt)  # before the first wait: receipts stand in prompt order
        ready = await self._plan(prompt, params, request_id, ticket)
        receipt.prepared = ready
        receipt.seconds.update(ready.receipt.stages_s)
        self.metrics.planned(receipt)
        whole: list[int] = prompt["prompt_token_ids"]
        handed = time.perf_counter()
        outputs = super().generate(
            _pruned(prompt, ready), self._positioned(params, ready), request_id, **kwargs
        )
        async with aclosing(outputs):
            async for output in outputs:
                if "prefill" not in receipt.seconds:
                    receipt.seconds["prefill"] = time.perf_counter() - handed
                    self.metrics.first_token(receipt)
                if ready.positions is not None and output.prompt_token_ids is not None:
                    output.prompt_token_ids = whole
                yield output

    async def _plan(
        self, prompt: Any, params: Any, request_id: str, ticket: Ticket
    ) -> PreparedPrompt:
        token_ids = prompt["prompt_token_ids"]
        # vLLM checks what it is given, which would be the kept tokens alone.
        self.renderer.validate_token_ids(token_ids)
        grammar = getattr(params, "structured_outputs", None) is not None
        return await self.planner.plan(
            request_id,
            token_ids,
            prompt.get("prompt"),
            ticket.with_grammar() if grammar else ticket,
            _needs_whole(params),
        )

    def _positioned(self, params: Any, ready: PreparedPrompt) -> Any:
        """The request's parameters with its positions, and an answer inside the range."""
        if ready.positions is None:
            return params
        length, limit = ready.original_length, self.model_config.max_model_len
        room = limit - length
        if room < 1 or (params.max_tokens is not None and params.max_tokens > room):
            raise VLLMValidationError(
                f"{length} prompt tokens and {params.max_tokens} new ones exceed the model's "
                f"{limit} positions"
            )
        own = params.clone()
        if own.max_tokens is None:
            own.max_tokens = room  # vLLM's default would count kept tokens
        positions = encode_positions(ready.positions, length)
        own.extra_args = {**(own.extra_args or {}), POSITIONS_KEY: positions}
        return own

    @property
    def in_flight(self) -> int:
        """Prompts that are being planned or generated for."""
        return self._in_flight

    def shutdown(self, timeout: float | None = None) -> None:
        """Let what is in flight end, within ``drain_s`` seconds, then end both engines.

        vLLM calls this in a thread when the server is told to stop, and once more at the end.
        """
        planner: Planner | None = getattr(self, "planner", None)
        # The second call comes on the event loop, where nothing could end while it waits.
        deadline = time.monotonic() + (0.0 if self.draining else self.drain_s)
        self.draining = True
        while self._in_flight and not self.errored and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        # Nothing is in flight any more, or it has had its time: vLLM's own would wait once more.
        super().shutdown(timeout=_END_S)
        if planner is not None:
            planner.speculator.close()
            planner.close()


def _needs_whole(params: Any) -> str | None:
    """Why a request's answer depends on all of the prompt's tokens; None where it does not."""
    if getattr(params, "prompt_logprobs", None) is not None:
        return "prompt log probabilities need the whole prompt"
    if getattr(params, "repetition_penalty", 1.0) != 1.0:
        return "repetition_penalty counts the whole prompt"
    return None


def _pruned(prompt: Any, ready: PreparedPrompt) -> Any:
    """The prompt as vLLM takes it, with the kept tokens in the place of all."""
    if ready.positions is None:
        return prompt
    salt, user = positions_salt(ready.positions), prompt.get("cache_salt")
    return {
        **prompt,
        "prompt_token_ids": list(ready.token_ids),
        "cache_salt": salt if user is None else f"{user}/{salt}",
    }
