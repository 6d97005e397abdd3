"""From a command's options to open engines, and back to a report."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.engines.base import EngineSpec
from harness.errors import ConfigError
from harness.run.bench.shapes import write_shape
from harness.run.bench.ttft import Result, Round, Say, look_ahead_cost, run_rounds, summarize


@dataclass(frozen=True)
class TtftOptions:
    """What ``harness bench ttft`` was asked for.

    ``target`` is a model folder; None where ``target_config`` names a shape for dummy weights.
    """

    target: str | None
    target_config: str | None
    speculator: str | None
    load: str
    length: int
    keep: float
    look_aheads: tuple[int, ...]
    rounds: int
    dtype: str
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    speculator_args: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raise ConfigError, one line, for values that cannot be measured."""
        if (self.target is None) == (self.target_config is None):
            raise ConfigError("give either --target or --target-config")
        if self.target_config is not None and self.load != "dummy":
            raise ConfigError("--target-config names a shape without weights: add --load dummy")
        if not 0 < self.keep <= 1:
            raise ConfigError(f"--keep must be in (0, 1], not {self.keep}")
        if min(self.look_aheads) < 1 or self.rounds < 1 or self.length < 2:
            raise ConfigError("--look-ahead and --rounds must be at least 1, --length 2")


def bench_ttft(options: TtftOptions, say: Say) -> tuple[list[Round], list[Result]]:
    """Open target and speculator together, measure, close both."""
    from harness.engines.vllm.engine import VllmEngine
    from harness.methods.specprefill.vllm.scorer import VllmScorer
    from harness.models.embedded import prepare_smollm2

    options.check()
    speculator = options.speculator or str(prepare_smollm2())
    room = options.length + max(options.look_aheads) + 1
    batch = {"max_num_batched_tokens": max(options.length, 2048), "kv_tokens": 2 * room}
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as scratch:
        target = options.target
        if options.target_config is not None:
            target = str(write_shape(options.target_config, Path(speculator), Path(scratch)))
        say("starting the target")
        own = {**batch, "load_format": options.load, **options.engine_args}
        spec = EngineSpec("vllm", str(target), options.dtype, room, options=tuple(own.items()))
        with VllmEngine.open(spec) as engine:
            say("starting the speculator")
            own = {**batch, **options.speculator_args}
            spec = EngineSpec("vllm", speculator, options.dtype, room, options=tuple(own.items()))
            with VllmScorer.open(spec) as scorer:
                rounds = run_rounds(
                    engine,
                    scorer,
                    length=options.length,
                    keep=options.keep,
                    look_aheads=options.look_aheads,
                    rounds=options.rounds,
                    say=say,
                )
    return rounds, [summarize(rounds, depth) for depth in options.look_aheads]


def to_json(rounds: Sequence[Round], results: Sequence[Result]) -> dict[str, Any]:
    """The deepest look-ahead's numbers on top, every depth's below."""
    deepest = max(results, key=lambda result: result.look_ahead)
    return {
        **deepest.to_json(),
        "look_ahead_cost": look_ahead_cost(rounds),
        "depths": [result.to_json() for result in results],
    }


def to_text(options: TtftOptions, rounds: Sequence[Round], results: Sequence[Result]) -> str:
    """The report for a terminal."""
    first = results[0]
    name = options.target_config or options.target
    lines = [
        f"{name} ({options.load} weights, {options.dtype}), {options.length} tokens, keep "
        f"{options.keep:g}; {first.rounds} interleaved rounds, medians (best in brackets)",
        f"full prefill {first.full_s:.3f} s   speculator's plain prefill "
        f"{first.speculator_s:.3f} s   target's prefill of the kept {first.kept_s:.3f} s   "
        f"kept {first.kept:.4f}",
        "",
        "look-ahead  scorer_s  sparse_s  total_s  speed-up         bound  share of bound",
    ]
    lines += [
        f"{r.look_ahead:>10}  {r.scorer_s:>8.3f}  {r.sparse_s:>8.3f}  {r.total_s:>7.3f}  "
        f"{r.speedup:>5.2f}x ({r.best_speedup:.2f}x)  {r.bound:>5.2f}x  "
        f"{r.share_of_bound:.1%} ({r.best_share_of_bound:.1%})"
        for r in results
    ]
    cost = look_ahead_cost(rounds)
    if cost is not None:
        lines += ["", f"scoring at the deepest look-ahead costs {cost:.3f} times look-ahead 1"]
    if any(r.inconsistent for r in results):
        lines += [
            "",
            "A share above 100 % is a disturbed measurement: the parts alone took longer than "
            "together. Repeat it on a quiet machine, or with more --rounds.",
        ]
    return "\n".join(lines)
