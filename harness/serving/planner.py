"""From a prompt's token ids to what the target prefills: guards, scores, selection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from harness.methods.base import MethodContext
from harness.methods.pruning import Stopwatch
from harness.methods.specprefill.config import SpecPrefillConfig
from harness.methods.specprefill.guards import Skip
from harness.methods.specprefill.method import Pending, SpecPrefill
from harness.schema.prompts import PreparedPrompt, Prompt, Segments, Span
from harness.schema.receipts import Status
from harness.serving.speculator import Speculator, SpeculatorUnavailableError
from harness.serving.tickets import Ticket

T = TypeVar("T")


@dataclass
class Planner:
    """Plans the prompts of one server.

    Attributes
    ----------
    config
        What holds where a request says nothing.
    context
        The target's tokenizer; measured rates; the speculator's name where it has another
        tokenizer, else None.
    """

    config: SpecPrefillConfig
    context: MethodContext
    speculator: Speculator
    # One thread: a fast tokenizer must not be used by two at once, and the event loop that
    # streams other requests' tokens must not wait for a long prompt's selection.
    _thread: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="specprefill-plan")
    )

    async def plan(
        self,
        name: str,
        token_ids: Sequence[int],
        text: str | None,
        ticket: Ticket,
        unsupported: str | None = None,
    ) -> PreparedPrompt:
        """Decide what the target prefills of a prompt; a speculator that is lost means all of it.

        Parameters
        ----------
        text
            The prompt's text, where vLLM has it.
        unsupported
            Why the request needs its whole prompt, where it does.
        """
        method = SpecPrefill(self.config.model_copy(update=ticket.settings()))
        context = replace(self.context, memo={})
        positions = self.speculator.max_positions
        prompt = Prompt(name, text or "", tuple(token_ids), _segments(text, ticket.question))
        if unsupported is not None and method.config.enabled:
            pending = Pending(prompt, Stopwatch(), Skip(Status.UNSUPPORTED, unsupported))
            return method.finish(pending, context)
        if context.speculator is not None and text is None:
            # Another tokenizer's speculator reads the text; ids alone came from the client.
            prompt = replace(
                prompt, text=self.context.tokenizer.decode(token_ids, skip_special_tokens=False)
            )
        pending = await self._aside(
            lambda: method.admit(prompt, context, positions or 2**31, ticket.facts)
        )
        if pending.request is not None:
            try:
                pending.scores = await self.speculator.score(pending.request)
            except SpeculatorUnavailableError as error:
                pending.skip = Skip(Status.FAILED, str(error))
        return await self._aside(lambda: method.finish(pending, context))

    async def _aside(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """Let the thread go. Idempotent."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _segments(text: str | None, question: str | None) -> Segments | None:
    """The last message as the prompt's last segment, where the template has kept its text."""
    if not text or not question:
        return None
    start = text.rfind(question.strip())
    if start < 0:
        return None
    return Segments(question=(Span(start, start + len(question.strip())),))
