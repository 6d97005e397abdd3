"""The method seam: a method turns prompts into prepared prompts and knows no task or engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from harness.engines.base import EngineSpec
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind

if TYPE_CHECKING:
    from harness.engines.scorer import Scorer
    from harness.models.tokenizer import Tokenizer


@dataclass(frozen=True)
class MethodContext:
    """Handles that a method may use; made once a run, never by the method.

    Attributes
    ----------
    tokenizer
        The target's tokenizer.
    scorer
        The speculator, where the method's ``needs`` names ``scorer``.
    speculator
        Folder or hub name of the speculator model; None where there is none.
    max_positions
        The target's position range: M + max_tokens must not exceed it.
    max_tokens
        Tokens that will be generated after the prompt.
    method_seed
        Seed of stochastic methods (rule 4).
    rates
        Measured tokens per second, ``scorer`` and ``target``, for the break-even guard.
    resources
        Further handles by name (a dense retriever, a compressor), made lazily and kept. Results
        kept per example stand under names that begin with ``cache:``; the latency protocol never
        sees those.
    """

    tokenizer: Tokenizer
    scorer: Scorer | None = None
    speculator: str | None = None
    max_positions: int = 8192
    max_tokens: int = 0
    method_seed: int = 0
    rates: Mapping[str, float] | None = None
    resources: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class Method(Protocol):
    """A frozen dataclass of knobs with two functions.

    Class attributes describe the method for ``harness methods`` and the report: ``name``,
    ``budget_kind``, ``needs`` (``scorer``, ``segments``, ``question``, ``evidence``, an engine
    name …), ``stochastic`` (does ``method_seed`` matter), and ``improves_ttft`` by design.
    """

    name: ClassVar[str]
    budget_kind: ClassVar[BudgetKind]
    needs: ClassVar[frozenset[str]]
    stochastic: ClassVar[bool]
    improves_ttft: ClassVar[bool]

    def engine_spec(self, base: EngineSpec) -> EngineSpec:
        """Return the engine this method needs; prompt-shaping methods return ``base``."""

    def prepare(
        self, prompts: Sequence[Prompt], context: MethodContext
    ) -> Iterator[PreparedPrompt]:
        """Yield one prepared prompt for each prompt, in order, as soon as it is ready."""
