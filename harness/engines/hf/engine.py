"""The transformers engine: SpecPrefill with plain transformers, on a CPU or a GPU.

The reference that the vLLM engine is compared with, the way to run without vLLM, and the place
of prefill strategies that need a model's insides. One request at a time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from harness.engines.admission import admit, admit_pair
from harness.engines.base import EngineSpec, Generation, LogLikelihood, Sampling
from harness.engines.hf.decode import Decode
from harness.engines.hf.model import (
    Prefilled,
    eos_ids,
    forward,
    load_model,
    new_cache,
    position_range,
)
from harness.engines.vllm.refusals import check_model
from harness.errors import ConfigError
from harness.models.config_facts import read_config
from harness.models.folders import digest_of
from harness.models.tokenizer import Tokenizer
from harness.schema.outside import is_reference, load
from harness.schema.prompts import PreparedPair, PreparedPrompt

if TYPE_CHECKING:
    from pathlib import Path

    import torch


class PrefillStrategy(Protocol):
    """Fills a cache with a prompt. ``prepared.directives`` carry its per-request instructions."""

    def __call__(self, model: Any, prepared: PreparedPrompt) -> Prefilled:
        """Prefill and return the cache, the first token's logits and where decoding goes on."""


def standard_prefill(model: Any, prepared: PreparedPrompt) -> Prefilled:
    """Prefill the prepared tokens in one pass, at their positions."""
    cache = new_cache(model)
    count = len(prepared.token_ids)
    sparse = prepared.positions is not None
    positions = prepared.positions if prepared.positions is not None else range(count)
    logits = forward(model, prepared.token_ids, tuple(positions), cache)
    resume = prepared.original_length if sparse else count
    return Prefilled(cache, logits[-1], resume, {"positions_applied": int(sparse)})


class HfEngine:
    """A target model in transformers (implements ``harness.engines.base.Engine``)."""

    def __init__(self, spec: EngineSpec, model: Any, prefill: PrefillStrategy) -> None:
        self.spec = spec
        self.model = model
        self._strategy = prefill
        self.tokenizer = Tokenizer.load(spec.target)
        self._eos = eos_ids(model)
        self._limit = position_range(model, spec)

    @classmethod
    def open(cls, spec: EngineSpec) -> Self:
        """Load the model; seconds on a CPU.

        Raises
        ------
        EngineRefusedError
            The target reads positions in a way that SpecPrefill cannot serve.
        ConfigError
            There is no such prefill strategy or option.
        """
        from harness.engines.vllm.cpu import prepare_environment

        prepare_environment()
        cls.check(spec)
        return cls(spec, load_model(spec), _strategy(spec))

    @classmethod
    def check(cls, spec: EngineSpec) -> None:
        """Refuse what this engine cannot serve, from ``config.json`` alone."""
        check_model(spec.target, read_config(spec.target), "target")

    @property
    def identity(self) -> Mapping[str, str]:
        """Engine, version, dtype, device and model digest, for the records."""
        import transformers

        return {
            "engine": "hf",
            "version": f"transformers {transformers.__version__}",
            "dtype": self.spec.dtype,
            "device": str(self.model.device),
            "model_digest": digest_of(_path(self.spec.target)),
        }

    def generate(
        self, prompts: Iterable[PreparedPrompt], sampling: Sampling
    ) -> Iterator[Generation]:
        """Generate for each prompt, one after another, in their order."""
        for prompt in prompts:
            yield self._generate(prompt, sampling).finish(timed=False)

    def time_one(self, prompt: PreparedPrompt, sampling: Sampling) -> Generation:
        """Generate for one prompt, filling ``ttft_s`` and times; no cache outlives a request."""
        return self._generate(prompt, sampling).finish(timed=True)

    def loglikelihood(self, pairs: Iterable[PreparedPair]) -> Iterator[LogLikelihood]:
        """Score continuations; a context that repeats in a row is prefilled once.

        The first token's probability comes from the last kept context token, the continuation
        stands whole at its original positions.
        """
        import torch

        known: PreparedPrompt | None = None
        context: Prefilled | None = None
        for pair in pairs:
            admit_pair(pair, self._limit)
            with torch.inference_mode():
                if context is None or pair.context is not known:
                    known, context = pair.context, self._prefill(pair.context)
                logits = self._continuation_logits(context, pair.continuation)
                result = _likelihood(pair, logits, context)
            yield result  # outside, or the caller's code would run in inference mode too

    def _continuation_logits(self, context: Prefilled, tokens: Sequence[int]) -> torch.Tensor:
        """Logits that predict each continuation token: float32 [len, vocabulary]."""
        import torch

        first = context.logits[None, :]
        if len(tokens) < 2:
            return first[: len(tokens)]
        length = context.cache.get_seq_length()
        ids = tokens[:-1]
        positions = range(context.next_position, context.next_position + len(ids))
        rest = forward(self.model, ids, positions, context.cache, last=len(ids))
        context.cache.crop(length)  # ready for the context's next continuation
        return torch.cat([first, rest])

    def _generate(self, prompt: PreparedPrompt, sampling: Sampling) -> Decode:
        import torch

        admit(prompt, sampling.max_tokens, self._limit)
        decode = Decode(prompt, sampling, self.tokenizer, self._eos)
        with torch.inference_mode():
            state = self._prefill(prompt)
            decode.counters = {"positions_applied": 0, **state.facts}
            decode.receipt = state.receipt
            logits, position = state.logits, state.next_position
            while decode.take(logits):
                logits = forward(self.model, decode.tokens[-1:], (position,), state.cache)[-1]
                position += 1
                if prompt.positions is not None:
                    decode.counters["positions_applied"] += 1
        return decode

    def _prefill(self, prompt: PreparedPrompt) -> Prefilled:
        """Prefill by the engine's strategy; a prompt without instructions for it is not its own.

        The reference (full prefill) is timed on its arm's engine, inside the arm's blocks.
        """
        prefill = self._strategy if prompt.directives else standard_prefill
        began = time.perf_counter()
        state = prefill(self.model, prompt)
        _wait(self.model.device)
        receipt = state.receipt or prompt.receipt
        # Stages that a strategy timed itself, such as a draft's pass, are not prefill.
        own = sum(receipt.stages_s.values()) - sum(prompt.receipt.stages_s.values())
        seconds = time.perf_counter() - began - own
        stages = {**receipt.stages_s, "prefill": seconds}
        return state._replace(receipt=replace(receipt, stages_s=stages))

    def close(self) -> None:
        """Let go of the model. Idempotent."""
        self.model = None
        import gc

        import torch

        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _wait(device: torch.device) -> None:
    """Let a GPU finish what it was given, so that seconds are its own."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _likelihood(pair: PreparedPair, logits: torch.Tensor, context: Prefilled) -> LogLikelihood:
    import torch

    wanted = torch.tensor(pair.continuation, dtype=torch.long, device=logits.device)
    chosen = logits.log_softmax(-1).gather(1, wanted[:, None])[:, 0]
    return LogLikelihood(
        example_id=pair.context.example_id,
        logprob=float(chosen.sum()),
        is_greedy=bool((logits.argmax(-1) == wanted).all()),
        token_logprobs=tuple(chosen.tolist()),
        receipt=context.receipt,
        counters=context.facts,
    )


def _strategy(spec: EngineSpec) -> PrefillStrategy:
    """Return the prefill that a spec names: its strategy, else its attention path."""
    name = spec.prefill if spec.prefill != "standard" else spec.attention
    if name == "dense":
        return standard_prefill
    from harness.engines.hf.strategies import STRATEGIES

    if name not in STRATEGIES and not is_reference(name):
        raise ConfigError(
            f"the hf engine has no prefill {name!r}: it has standard, {', '.join(STRATEGIES)}, and "
            "takes package.module:Class"
        )
    return cast(PrefillStrategy, load(STRATEGIES.get(name, name), f"prefill {name}")())


def _path(model: str) -> Path:
    from harness.errors import ModelError
    from harness.models.folders import locate

    path = locate(model)
    if path is None:
        raise ModelError(f"the model '{model}' is neither a folder nor in the local hub cache")
    return path
