"""The vLLM engine: sparse requests at their original positions, in unmodified vLLM."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from harness.engines.admission import admit, admit_pair
from harness.engines.base import EngineSpec, Generation, LogLikelihood, Sampling
from harness.engines.vllm import contract, flavour
from harness.engines.vllm.attention import AttentionPath, load_path
from harness.engines.vllm.host import Host, HostOptions, config_of
from harness.engines.vllm.refusals import check_model
from harness.engines.vllm.wire import (
    POSITIONS_KEY,
    encode_positions,
    positions_salt,
    unique_salt,
)
from harness.errors import ConfigError
from harness.models.config_facts import model_digest
from harness.schema.prompts import PreparedPair, PreparedPrompt
from harness.schema.receipts import Receipt


@dataclass(frozen=True)
class _Request:
    """What the engine is asked for.

    ``resume`` is the position where decoding goes on; the last ``continuation`` tokens are
    scored rather than given.
    """

    prepared: PreparedPrompt
    token_ids: tuple[int, ...]
    positions: tuple[int, ...] | None
    resume: int
    continuation: int = 0

    @property
    def example_id(self) -> str:
        return self.prepared.example_id


@dataclass(frozen=True)
class _Done:
    """A finished request: its number among those of the same call, its id in the workers."""

    number: int
    request: _Request
    internal: str
    output: Any


class VllmEngine:
    """A target model in vLLM (implements ``harness.engines.base.Engine``)."""

    def __init__(self, host: Host, path: AttentionPath | None = None) -> None:
        self._host = host
        self._path = path
        self._numbers = itertools.count()

    @classmethod
    def open(cls, spec: EngineSpec) -> Self:
        """Start the engine that ``spec`` asks for; tens of seconds on a CPU.

        ``spec.options`` may set what :class:`HostOptions` has (``kv_tokens``, ``max_num_seqs``,
        ``max_num_batched_tokens``, ``prefix_caching``, ``tensor_parallel``, ``load_format`` …) and
        whatever else vLLM's ``EngineArgs`` take (:mod:`harness.engines.vllm.arguments`).

        Raises
        ------
        EngineRefusedError
            The target reads positions in a way that SpecPrefill cannot serve.
        HarnessError
            The model, its range or an option does not fit; nothing is left running.
        """
        cls.check(spec)
        path = load_path(spec)
        if path is None:
            return cls(Host.start(HostOptions.from_spec(spec, "target")))
        started = path.options(flavour.require().device)
        options = HostOptions.from_spec(spec, "target", **started)
        return cls(Host.start(options), path)

    @classmethod
    def check(cls, spec: EngineSpec) -> None:
        """Refuse what this engine cannot serve, from ``config.json`` and vLLM's text alone.

        Raises
        ------
        EngineRefusedError
            Sliding-window, M-RoPE, MLA and hybrid targets (ALGORITHM.md, Prefill).
        ConfigError
            A prefill strategy, which only the transformers engine has; a vLLM that the hooks are
            not written for.
        """
        if spec.prefill != "standard":
            raise ConfigError(
                f"the vllm engine has no prefill strategy {spec.prefill!r}: use --engine hf"
            )
        check_model(spec.target, config_of(spec.target, spec.options), "target")
        if flavour.installed() is not None:  # a plan can be made without
            contract.check()

    @property
    def identity(self) -> Mapping[str, str]:
        """Engine, version, dtype, device and model digest, for the records."""
        found = flavour.require()
        return {
            "engine": "vllm",
            "version": f"{found.distribution} {found.version}",
            "dtype": self._host.options.dtype,
            "device": found.device,
            "model_digest": model_digest(self._host.options.model),
        }

    def generate(
        self, prompts: Iterable[PreparedPrompt], sampling: Sampling
    ) -> Iterator[Generation]:
        """Generate for each prompt; yields in completion order.

        Prompts are pulled while earlier ones run in the engine's own process, so that whatever
        makes the prompts (the speculator) works at the same time.
        """
        requests = (self._admit(prompt, sampling.max_tokens) for prompt in prompts)
        for done in self._run(requests, self._params(sampling)):
            generation = _generation(done.output, done.request)
            yield self._completed(generation, done.internal, done.request)

    def loglikelihood(self, pairs: Iterable[PreparedPair]) -> Iterator[LogLikelihood]:
        """Score continuations at their original positions; yields in the order of ``pairs``."""
        from vllm import SamplingParams

        params = SamplingParams(
            max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False, **_final_only()
        )
        ready: dict[int, LogLikelihood] = {}
        number = 0
        for done in self._run((self._admit_pair(pair) for pair in pairs), params):
            receipt, found = self._of_path(done.internal, done.request)
            counters = {**self._steps(done.internal, done.request), **found}
            scored = _loglikelihood(done.output, done.request, receipt)
            ready[done.number] = replace(scored, counters=counters)
            while number in ready:
                yield ready.pop(number)
                number += 1

    def time_one(self, prompt: PreparedPrompt, sampling: Sampling) -> Generation:
        """Generate for one prompt alone, with a cold cache, filling ``ttft_s`` and times."""
        from vllm.sampling_params import RequestOutputKind

        request = self._admit(prompt, sampling.max_tokens)
        params = self._params(sampling)
        params.output_kind = RequestOutputKind.CUMULATIVE
        began = time.perf_counter()
        _, internal = self._add(request, params, salt=unique_salt())
        times: list[float] = []
        finished = None
        try:
            while finished is None:
                for output in self._host.step():
                    now = time.perf_counter() - began
                    times += [now] * (len(output.outputs[0].token_ids) - len(times))
                    finished = output if output.finished else None
        finally:
            if finished is None:
                self._host.abort([internal])
        return self._completed(_generation(finished, request, tuple(times)), internal, request)

    def _run(self, requests: Iterator[_Request], params: Any) -> Iterator[_Done]:
        """Keep the engine fed and yield requests as they finish; abort the rest at the end."""
        live: dict[str, tuple[int, _Request, str]] = {}
        exhausted = False
        numbers = itertools.count()
        try:
            while not exhausted or live:
                while not exhausted and self._has_room(live):
                    request = next(requests, None)
                    if request is None:
                        exhausted = True
                    else:
                        name, internal = self._add(request, params)
                        live[name] = (next(numbers), request, internal)
                for output in self._host.step() if live else ():
                    if output.finished and output.request_id in live:
                        yield _Done(*live.pop(output.request_id), output)
        finally:
            self._host.abort([internal for _, _, internal in live.values()])

    def _has_room(self, live: Mapping[str, Any]) -> bool:
        """Whether to pull another prompt before looking at outputs."""
        if not live:
            return True
        return len(live) < self._host.options.max_num_seqs and not self._host.has_outputs()

    def _add(self, request: _Request, params: Any, salt: str | None = None) -> tuple[str, str]:
        """Queue a request; its name in outputs and its id in the workers."""
        extra: dict[str, Any] = {}
        if request.positions is not None:
            extra[POSITIONS_KEY] = encode_positions(request.positions, request.resume)
            salt = salt or positions_salt(request.positions)
        if self._path is not None and request.prepared.directives:
            extra.update(self._path.extra_args(request.prepared))
        if extra:
            params = params.clone()
            params.extra_args = extra
        name = f"r{next(self._numbers)}"
        return name, self._host.add(name, request.token_ids, params, salt)

    def _completed(self, generation: Generation, internal: str, request: _Request) -> Generation:
        """Add what the workers know of a finished request."""
        receipt, found = self._of_path(internal, request)
        counters = {**self._steps(internal, request), **found}
        return replace(generation, receipt=receipt, counters=counters)

    def _steps(self, internal: str, request: _Request) -> Mapping[str, int]:
        """Steps in which the target's hook wrote the request's positions."""
        if request.positions is None:
            return {}
        # Several ranks edit alike; the least of them is what all have done.
        ranks = self._host.rpc("specprefill_take_steps", [internal])
        return {"positions_applied": min(rank[internal] for rank in ranks)}

    def _of_path(
        self, internal: str, request: _Request
    ) -> tuple[Receipt | None, Mapping[str, int]]:
        """Receipt as the attention path completed it, and the path's counters."""
        if self._path is None or not request.prepared.directives:
            return None, {}
        ranks = self._host.rpc(self._path.collect, [internal])
        return self._path.finish(request.prepared, [rank[internal] for rank in ranks])

    def _admit(self, prompt: PreparedPrompt, max_tokens: int) -> _Request:
        """Check a prompt against the target's range, in *original* positions."""
        resume = admit(prompt, max_tokens, self._host.options.max_model_len)
        return _Request(prompt, prompt.token_ids, prompt.positions, resume)

    def _admit_pair(self, pair: PreparedPair) -> _Request:
        start = admit_pair(pair, self._host.options.max_model_len)
        resume = start + len(pair.continuation)
        positions = pair.context.positions
        if positions is not None:
            positions = (*positions, *range(start, resume))
        tokens = (*pair.context.token_ids, *pair.continuation)
        return _Request(pair.context, tokens, positions, resume, len(pair.continuation))

    def _params(self, sampling: Sampling) -> Any:
        from vllm import SamplingParams

        return SamplingParams(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_k=sampling.top_k or 0,
            top_p=1.0 if sampling.top_p is None else sampling.top_p,
            min_p=sampling.min_p or 0.0,
            repetition_penalty=sampling.repetition_penalty,
            stop=list(sampling.stop),
            stop_token_ids=list(sampling.end_tokens),
            min_tokens=sampling.min_tokens,
            seed=sampling.seed,
            ignore_eos=sampling.ignore_eos,
            logprobs=0 if sampling.logprobs else None,
            **_final_only(),
        )

    def close(self) -> None:
        """End the engine and its processes. Idempotent."""
        self._host.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _final_only() -> dict[str, Any]:
    from vllm.sampling_params import RequestOutputKind

    return {"output_kind": RequestOutputKind.FINAL_ONLY}


def _generation(output: Any, request: _Request, times: tuple[float, ...] = ()) -> Generation:
    completion = output.outputs[0]
    tokens = tuple(completion.token_ids)
    logprobs = None
    if completion.logprobs is not None:
        chosen = zip(tokens, completion.logprobs, strict=True)
        logprobs = tuple(float(step[token].logprob) for token, step in chosen)
    return Generation(
        example_id=request.example_id,
        token_ids=tokens,
        text=completion.text,
        finish_reason=completion.finish_reason or "unknown",
        ttft_s=times[0] if times else None,
        token_times_s=times,
        logprobs=logprobs,
        stages_s={"prefill": times[0]} if times else {},
    )


def _loglikelihood(output: Any, request: _Request, receipt: Receipt | None) -> LogLikelihood:
    """Sum over the continuation's tokens; rank 1 is the greedy choice."""
    first = len(request.token_ids) - request.continuation
    tokens, steps = request.token_ids[first:], output.prompt_logprobs[first:]
    chosen = [step[token] for token, step in zip(tokens, steps, strict=True)]
    values = tuple(float(item.logprob) for item in chosen)
    return LogLikelihood(
        example_id=request.example_id,
        logprob=sum(values),
        is_greedy=all(item.rank == 1 for item in chosen),
        token_logprobs=values,
        receipt=receipt,
    )
