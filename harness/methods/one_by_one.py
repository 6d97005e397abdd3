"""Methods that look at one prompt at a time: most of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from pydantic.dataclasses import dataclass

from harness.errors import ModelError
from harness.methods.base import Method, MethodContext
from harness.methods.layout import LayoutError
from harness.methods.pruning import STRICT, Keep, Stopwatch, unsupported
from harness.schema.prompts import PreparedPrompt, Prompt


class OneByOne(Method):
    """Prepares each prompt on its own; one that it cannot take is ``unsupported``, with why."""

    @abstractmethod
    def prepare_one(
        self, prompt: Prompt, context: MethodContext, watch: Stopwatch
    ) -> PreparedPrompt:
        """Prepare one prompt; ``watch`` runs since the method has seen it.

        Raises
        ------
        LayoutError
            The prompt does not say what the method needs.
        ModelError
            A model that it needs is not on this machine.
        """

    def prepare(
        self, prompts: Sequence[Prompt], context: MethodContext
    ) -> Iterator[PreparedPrompt]:
        """Yield each prompt as :meth:`prepare_one` makes it."""
        for prompt in prompts:
            watch = Stopwatch()
            try:
                yield self.prepare_one(prompt, context, watch)
            except (LayoutError, ModelError) as fault:
                yield unsupported(self, prompt, str(fault))


@dataclass(frozen=True, config=STRICT)
class KeepsShare(OneByOne):
    """A method with a budget: the share ``keep`` of what its ``budget_kind`` counts."""

    keep: Keep = 0.1

    @property
    def requested(self) -> float | None:
        """The share to keep."""
        return self.keep
