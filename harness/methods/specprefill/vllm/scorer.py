"""The speculator as a second vLLM engine."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

from harness.engines.base import EngineSpec
from harness.engines.scorer import ScoreRequest, Scores
from harness.engines.vllm import flavour
from harness.engines.vllm.host import Host, HostOptions, config_of, engine_length
from harness.engines.vllm.refusals import check_model
from harness.errors import HarnessError
from harness.methods.specprefill.vllm.passes import (
    Ended,
    Pass,
    Speculating,
    following,
    merge_ranks,
)
from harness.methods.specprefill.windows import WindowPlan
from harness.models.config_facts import bos_token_id, model_digest, read_config


class VllmScorer:
    """Scores prompts with a speculator in vLLM (implements ``harness.engines.scorer``).

    Requests are taken in groups that fit the KV cache; a group's prompts run as one batch.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._numbers = itertools.count()
        bos = bos_token_id(read_config(host.options.model))
        self._facts = Speculating(engine_length(host.options) - 1, bos)

    @classmethod
    def open(cls, spec: EngineSpec) -> Self:
        """Start the speculator's engine; ``spec.target`` names its model.

        ``spec.max_model_len`` is the speculator's range: a longer prompt is scored in windows.
        ``spec.options`` as for the target (:class:`HostOptions`). Prefix caching, which re-uses
        the keys of common prefixes (multi-turn serving), is off unless asked for: a latency
        measurement must never find a prompt's keys there.

        Raises
        ------
        HarnessError
            The model cannot be loaded or an option does not fit; nothing is left running.
        """
        cls.check(spec)
        worker = flavour.require().worker_class("speculator", __package__)
        defaults = {"prefix_caching": False, "max_num_seqs": 4, "worker_cls": worker}
        return cls(Host.start(HostOptions.from_spec(spec, "speculator", **defaults)))

    @classmethod
    def check(cls, spec: EngineSpec) -> None:
        """Refuse a model that cannot be scored, from ``config.json`` alone.

        Raises
        ------
        EngineRefusedError
            Its attention is not where the scores are taken from.
        """
        check_model(spec.target, config_of(spec.target, spec.options), "speculator")

    @property
    def identity(self) -> dict[str, str]:
        """Engine, version, dtype and model digest, for the records."""
        found = flavour.require()
        return {
            "engine": "vllm",
            "version": f"{found.distribution} {found.version}",
            "device": found.device,
            "dtype": self._host.options.dtype,
            "model_digest": model_digest(self._host.options.model),
        }

    @property
    def max_positions(self) -> int:
        """The speculator's position range."""
        return self._facts.max_positions

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[Scores]:
        """Score prompts; yields in the order of ``requests``, group by group."""
        for group in self._groups(requests):
            if len(group) == 1 and self._facts.plan(group[0]) is not None:
                yield self._score_windows(group[0])
            else:
                yield from self._score_group(group)

    def _groups(self, requests: Iterable[ScoreRequest]) -> Iterator[list[ScoreRequest]]:
        """Take requests while they fit the batch and the KV cache; a windowed one stands alone."""
        group: list[ScoreRequest] = []
        tokens = 0
        options = self._host.options
        for request in requests:
            alone = self._facts.plan(request) is not None
            need = len(request.token_ids) + request.config.look_ahead
            full = len(group) == options.max_num_seqs or tokens + need > options.kv_tokens
            if group and (full or alone):
                yield group
                group, tokens = [], 0
            if alone:
                yield [request]
                continue
            group.append(request)
            tokens += need
        if group:
            yield group

    def _score_group(self, group: Sequence[ScoreRequest]) -> Iterator[Scores]:
        began = time.perf_counter()
        passes = [Pass(r.token_ids, r.config, r.config.look_ahead) for r in group]
        results = self._run(passes)
        seconds = time.perf_counter() - began
        total = sum(len(request.token_ids) for request in group)
        for request, ended in zip(group, results, strict=True):
            rows = merge_ranks([rank["rows"] for rank in ended.ranks], len(request.token_ids))
            yield Scores(
                example_id=request.example_id,
                rows=rows,
                look_ahead_tokens=ended.tokens[: len(rows) - 1],
                seconds=seconds * len(request.token_ids) / total,
                counters={"rows_captured": ended.captured},
            )

    def _score_windows(self, request: ScoreRequest) -> Scores:
        """Score a prompt beyond the range: the last window decodes, the others follow it."""
        began = time.perf_counter()
        plan = self._facts.plan(request)
        assert plan is not None
        name = f"prompt-{next(self._numbers)}"
        try:
            ahead, captured = self._run_windows(request, plan, name)
            merged = self._host.rpc("specprefill_merge", name)
        except BaseException:
            with contextlib.suppress(HarnessError):
                self._host.rpc("specprefill_drop", name)
            raise
        return Scores(
            example_id=request.example_id,
            rows=merge_ranks(merged, len(request.token_ids)),
            look_ahead_tokens=ahead,
            windows=len(plan.windows),
            seconds=time.perf_counter() - began,
            counters={"rows_captured": captured},
        )

    def _run_windows(
        self, request: ScoreRequest, plan: WindowPlan, name: str
    ) -> tuple[tuple[int, ...], int]:
        """Run all windows; the look-ahead tokens of the last, and how many rows were captured."""
        passes = self._facts.passes(request, plan, name)
        (last,) = self._run(passes[-1:])
        ahead = last.tokens[: len(last.tokens) - 1]
        others = following(passes[:-1], ahead)
        return ahead, last.captured + sum(ended.captured for ended in self._run(others))

    def time_prefill(self, token_ids: Sequence[int]) -> float:
        """Seconds of the speculator's plain prefill of a prompt: nothing captured, one token."""
        from vllm import SamplingParams

        params = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True, detokenize=False)
        name = f"prefill-{next(self._numbers)}"
        began = time.perf_counter()
        names: dict[str, str] = {}
        with self._given_up_on_error(names):
            names[name] = self._host.add(name, token_ids, params)
            self._finish(names)
        return time.perf_counter() - began

    def _run(self, passes: Sequence[Pass]) -> list[Ended]:
        """Run passes as one batch and collect what the workers kept, in order."""
        names: dict[str, str] = {}
        with self._given_up_on_error(names):
            for item in passes:
                name, internal = self._add(item)
                names[name] = internal
            tokens = self._finish(names)
            ranks = self._host.rpc("specprefill_take_scores", list(names.values()))
        unscored = sum(any(name not in rank for rank in ranks) for name in names.values())
        if unscored:
            raise HarnessError(
                f"the speculator {self._host.options.model} ended {unscored} of {len(names)} "
                "requests without scores: they were aborted"
            )
        return [
            Ended(tokens[name], tuple(rank[internal] for rank in ranks))
            for name, internal in names.items()
        ]

    @contextlib.contextmanager
    def _given_up_on_error(self, names: Mapping[str, str]) -> Iterator[None]:
        """Give up ``names`` where anything goes wrong, Ctrl-C included."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(HarnessError):  # the engine itself may be what went wrong
                self._give_up(list(names.values()))
            raise

    def _give_up(self, internal: Sequence[str]) -> None:
        """Abort requests and free what the workers keep of them.

        Aborting alone is not enough: the engine does not hear of it where a request has just
        ended, and its scores would wait in the workers for somebody to take them.
        """
        self._host.abort(internal)
        self._host.rpc("specprefill_discard", list(internal))

    def _add(self, item: Pass) -> tuple[str, str]:
        """Queue a pass; its name in outputs and its id in the workers."""
        name = f"score-{next(self._numbers)}"
        return name, self._host.add(name, item.fed, item.params())

    def _finish(self, names: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
        """Step until all of ``names`` have ended; their generated tokens."""
        ended: dict[str, tuple[int, ...]] = {}
        while len(ended) < len(names):
            for output in self._host.step():
                if output.finished and output.request_id in names:
                    ended[output.request_id] = tuple(output.outputs[0].token_ids)
        return ended

    def close(self) -> None:
        """End the speculator. Idempotent."""
        self._host.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
