"""The method seam: a method turns prompts into prepared prompts and knows no task or engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from harness.engines.base import EngineSpec
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind

if TYPE_CHECKING:
    from harness.engines.scorer import Scorer
    from harness.models.tokenizer import Tokenizer

Handle = TypeVar("Handle")


@dataclass(frozen=True)
class MethodContext:
    """What a method may use; made by whoever runs it, never by the method.

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
    handles
        What methods open for themselves and share (a retriever, a compressor, the target's
        shape), by name; they live as long as the engine. See :meth:`handle`.
    memo
        What is kept per example for other cells on the same examples (scores, evidence), by name.
        It lives as long as a pool of cells, and a latency measurement never sees it
        (:meth:`cold`): only what may be paid once a run belongs into ``handles``.
    """

    tokenizer: Tokenizer
    scorer: Scorer | None = None
    speculator: str | None = None
    max_positions: int = 8192
    max_tokens: int = 0
    method_seed: int = 0
    rates: Mapping[str, float] | None = None
    handles: dict[str, Any] = field(default_factory=dict)
    memo: dict[str, Any] = field(default_factory=dict)

    def handle(self, name: str, make: Callable[[], Handle]) -> Handle:
        """Return the handle of that name, made on first use. What ``make`` raises is raised."""
        if name not in self.handles:
            self.handles[name] = make()
        return cast(Handle, self.handles[name])

    def cold(self) -> MethodContext:
        """Return the same handles with nothing remembered of any example (rule 3)."""
        return replace(self, memo={})


class Method(ABC):
    """A frozen dataclass of knobs with one function that matters, :meth:`prepare`.

    Everything that a method may be asked for stands here with its default, so that whoever asks
    never has to guess. Subclasses are dataclasses whose fields are the options of an arm; only
    ``name`` and :meth:`prepare` must be given.

    Attributes
    ----------
    name
        The method's name in tables and records, a word without blanks.
    budget_kind
        What ``keep`` counts: prompt tokens, attention pairs, cache entries, or nothing. Arms are
        compared within one kind only.
    needs
        What must be there: ``scorer``, ``speculator``, ``question``, ``documents``, ``evidence``,
        an engine (``engine:hf``) or an optional package (``package:llmlingua``).
    stochastic
        Whether ``method_seed`` changes what is kept.
    improves_ttft
        Whether the method is meant to; those that are not are timed all the same.
    requested
        The share that was asked for, in receipts; None where none was.
    version
        Raised when the same knobs give other results than before: part of a cell's identity.
    wants_rates
        Whether ``context.rates`` must be measured before :meth:`prepare` can decide as asked.
    own_models
        Folders or hub names of models that only this method uses; their digests are part of a
        cell's identity.
    """

    name: ClassVar[str] = ""
    budget_kind: ClassVar[BudgetKind] = BudgetKind.TOKENS
    needs: ClassVar[frozenset[str]] = frozenset()
    stochastic: ClassVar[bool] = False
    improves_ttft: ClassVar[bool] = True
    version: ClassVar[int] = 1

    @property
    def requested(self) -> float | None:
        """No share of anything."""
        return None

    @property
    def wants_rates(self) -> bool:
        """No rates are asked for."""
        return False

    @property
    def own_models(self) -> tuple[str, ...]:
        """No models beside target and speculator."""
        return ()

    def missing(self) -> str | None:
        """Say what this machine lacks under these knobs, beyond ``needs``; None where nothing."""
        return None

    def engine_spec(self, base: EngineSpec) -> EngineSpec:
        """Return the engine that runs what is prepared: ``base``, for methods that shape prompts.

        Others replace ``attention``, ``prefill`` or ``engine``.
        """
        return base

    @abstractmethod
    def prepare(
        self, prompts: Sequence[Prompt], context: MethodContext
    ) -> Iterator[PreparedPrompt]:
        """Yield one prepared prompt for each prompt, in order, as soon as it is ready.

        A prompt that the method cannot take is yielded under the status ``unsupported`` with a
        reason (:func:`harness.methods.pruning.unsupported`); nothing falls back silently.
        """
