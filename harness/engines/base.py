"""The engine seam: an engine turns prepared prompts into tokens and knows no method or task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from harness.schema.prompts import PreparedPair, PreparedPrompt
from harness.schema.receipts import Receipt


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Which engine an arm needs; arms with equal specs share one engine.

    Attributes
    ----------
    engine
        Key of :data:`harness.engines.registry.ENGINES`.
    target
        Folder or hub name of the target model.
    dtype
        ``bfloat16``, ``float16`` or ``float32``.
    max_model_len
        Highest position + 1 that a request may reach, in *original* positions.
    attention
        ``dense``, or another attention path: ``minference``, or ``package.module:Class``.
    prefill
        ``standard``, or another prefill strategy: ``draft_verify``, ``snapkv``, ``gemfilter``, or
        ``package.module:Class``.
    options
        Sorted ``(name, value)`` pairs for the engine; hashable, so that specs can be compared.
    """

    engine: str
    target: str
    dtype: str = "bfloat16"
    max_model_len: int = 8192
    attention: str = "dense"
    prefill: str = "standard"
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it is full prefill's own engine: where that does not start, nothing can run."""
        return (self.attention, self.prefill) == ("dense", "standard")


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn, and what ends a text.

    Attributes
    ----------
    stop
        Texts that end the generation where they appear; they are not part of it.
    temperature
        0 is greedy; ``seed``, ``top_k``, ``top_p`` and ``min_p`` matter only above it.
    top_k, top_p, min_p
        Draw among the k likeliest tokens; the likeliest that hold a share of the probability;
        those with at least a share of the likeliest one's. None is no bound.
    repetition_penalty
        Divides positive and multiplies negative logits of tokens that the prefilled prompt or the
        text holds already (arXiv 1909.05858); 1 is none. It counts in greedy decoding too.
    end_tokens
        Token ids that end the text as the model's own end token does.
    min_tokens
        Tokens before which no end token is drawn.
    """

    max_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int | None = None
    ignore_eos: bool = False
    logprobs: bool = False
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    end_tokens: tuple[int, ...] = ()
    min_tokens: int = 0

    @property
    def draws(self) -> bool:
        """Whether the same prompt may be answered in several ways."""
        return self.temperature > 0

    def __post_init__(self) -> None:
        bounds = {
            "temperature": (self.temperature, self.temperature >= 0),
            "seed": (self.seed, self.seed is None or isinstance(self.seed, int)),
            "top_k": (self.top_k, self.top_k is None or int(self.top_k) == self.top_k >= 1),
            "top_p": (self.top_p, self.top_p is None or 0 < self.top_p <= 1),
            "min_p": (self.min_p, self.min_p is None or 0 <= self.min_p <= 1),
            "repetition_penalty": (self.repetition_penalty, self.repetition_penalty > 0),
        }
        wrong = next((f"{name} {value!r}" for name, (value, ok) in bounds.items() if not ok), None)
        if wrong is not None:
            raise ValueError(f"{wrong} is out of range")


@dataclass(frozen=True, slots=True)
class Generation:
    """What an engine generated for one prepared prompt.

    Attributes
    ----------
    ttft_s
        Seconds from the engine's taking of the prompt to the first token; None where requests
        ran in a batch and the number would not mean a latency. The latency protocol adds the
        method's own time (harness.run.latency).
    token_times_s
        Seconds from the same start to each token; empty where not measured.
    logprobs
        Log probability of each generated token, where asked for.
    counters
        Hook counters of the engine (``positions_applied``: steps in which positions were edited).
    receipt
        The method's receipt as the engine's attention path or prefill strategy completed it (what
        it kept, what it cost); None where the receipt of the prepared prompt stands.
    """

    example_id: str
    token_ids: tuple[int, ...]
    text: str
    finish_reason: str
    ttft_s: float | None = None
    token_times_s: tuple[float, ...] = ()
    logprobs: tuple[float, ...] | None = None
    stages_s: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True)
class LogLikelihood:
    """Sum of the continuation's log probabilities, and whether greedy decoding gives it.

    ``receipt`` is the context's as the engine completed it, or None, and ``counters`` are the
    hooks', as in :class:`Generation`.
    """

    example_id: str
    logprob: float
    is_greedy: bool
    token_logprobs: tuple[float, ...] = ()
    receipt: Receipt | None = None
    counters: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class Engine(Protocol):
    """An open engine. Use it as a context manager; closing it ends every process it started."""

    @classmethod
    def check(cls, spec: EngineSpec) -> None:
        """Refuse what this engine cannot run rightly, before anything heavy is loaded.

        Raises
        ------
        HarnessError
            In one line: :class:`~harness.errors.EngineRefusedError` for a model that is out of
            reach, :class:`~harness.errors.ConfigError` for an option.
        """

    @classmethod
    def open(cls, spec: EngineSpec) -> Self:
        """Check ``spec``, then start the engine that it describes."""

    @property
    def identity(self) -> Mapping[str, str]:
        """Engine name, version, dtype, device and model digest, for the records."""

    def generate(
        self, prompts: Iterable[PreparedPrompt], sampling: Sampling
    ) -> Iterator[Generation]:
        """Generate for each prompt, pulling prompts as it goes; yields in completion order."""

    def loglikelihood(self, pairs: Iterable[PreparedPair]) -> Iterator[LogLikelihood]:
        """Score continuations; yields in the order of ``pairs``."""

    def time_one(self, prompt: PreparedPrompt, sampling: Sampling) -> Generation:
        """Generate for one prompt alone, with a cold cache, filling ``ttft_s`` and times."""

    def close(self) -> None:
        """End the engine. Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
