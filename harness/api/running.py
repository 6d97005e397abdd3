"""``harness.run`` and ``harness.sweep``: plan, execute, and hand back the result."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.api.options import (
    EngineArguments,
    Names,
    Overrides,
    make_config,
    make_overrides,
)
from harness.api.result import Run

if TYPE_CHECKING:
    from harness.run.config import RunConfig
    from harness.run.plan import Plan


class FailedCellsWarning(UserWarning):
    """Some cells of a run failed; the others are in the result."""


def run(
    task: Names = "ruler",
    keep: float | str | Iterable[float] = 0.1,
    method: Names | Mapping[str, Mapping[str, Any]] = "full,specprefill",
    *,
    look_ahead: int | str | Iterable[int] = 8,
    length: int | str | Iterable[int] | None = None,
    seed: int | str | Iterable[int] = 0,
    method_seed: int | str | Iterable[int] = 0,
    sample_seed: int = 0,
    limit: int | None = None,
    latency_samples: int | None = None,
    preset: str | None = None,
    target: str | None = None,
    speculator: str | None = None,
    data: str | PathLike[str] | None = None,
    query_from: str | None = None,
    metric: str | None = None,
    ruler_official: bool = False,
    engine: str = "vllm",
    dtype: str = "bfloat16",
    engine_args: EngineArguments = None,
    speculator_args: EngineArguments = None,
    set_: Overrides = None,
    reference: bool = True,
    out: str | PathLike[str] | None = None,
    allow_mixed_code: bool = False,
    fail_fast: bool = False,
    note: str | None = None,
    quiet: bool = False,
    executor: str = "local",
    address: str | None = None,
    workers: int | None = None,
) -> Run:
    """Compare full prefill and SpecPrefill (or rivals): quality, TTFT, and their intervals.

    The same options and defaults as the command ``harness run``; lists may be given as lists or
    with commas. A run whose folder exists is resumed.

    Parameters
    ----------
    task
        Task, group, lm-eval task, or path of a task's YAML or folder.
    keep
        Keep rates in (0, 1]: the share of prompt tokens to prefill.
    method
        Methods or arms by name, ``"all"``, or a mapping of arm names to options.
    look_ahead
        Query rows of the speculator; 1 is no look-ahead.
    length
        Prompt lengths in tokens, template included; 2,048 where a task is made to a length.
    seed, method_seed, sample_seed
        Data seeds, seeds of stochastic methods, and the sampling seed (above temperature 0).
    limit, latency_samples
        Examples and timed examples per task, length and seed; None is a first look.
    preset, target, speculator
        A pair by name, or two models by folder or hub name.
    data
        Rows of your own instead of a task.
    query_from
        Field of the data that holds the question, where none is known.
    metric
        How rows of your own are scored: ``contains`` (default), ``exact_match``, ``f1``,
        ``choice``, ``rouge_l`` or ``number``.
    ruler_official
        Fill RULER's lengths as NVIDIA's scripts do: prompt and new tokens together, in steps.
    engine, dtype
        ``vllm``, ``hf`` or ``fake``; ``bfloat16``, ``float16`` or ``float32``.
    engine_args, speculator_args
        Arguments of the target's and the speculator's vLLM: ``"tensor_parallel=2"`` or a mapping.
    set_
        Overrides of arms' options: ``["specprefill.chunk=64"]`` or
        ``{"specprefill": {"chunk": 64}}``.
    reference
        Run full prefill beside the arms.
    out
        Folder of the run.
    allow_mixed_code
        Resume a run that other code wrote.
    fail_fast
        Stop at the first failed cell, with its own error.
    note
        A line to keep with the run.
    quiet
        Show no progress.
    executor
        ``local``, or ``ray``: the cells run on the nodes of a Ray cluster (docs/scale.md).
    address, workers
        With ``ray``: the cluster's head (left out, one that is found or started here), and how
        many workers to use (left out, as many as there is room for).

    Returns
    -------
    Run
        The finished run. Cells that failed are in :attr:`Run.failed`, with a warning.

    Raises
    ------
    HarnessError
        Whatever is wrong with the options, data or models, in one line.
    """
    config = make_config(
        "harness.run",
        task=task,
        keep=keep,
        method=method,
        look_ahead=look_ahead,
        length=length,
        seed=seed,
        method_seed=method_seed,
        sample_seed=sample_seed,
        limit=limit,
        latency_samples=latency_samples,
        preset=preset,
        target=target,
        speculator=speculator,
        data=data,
        query_from=query_from,
        metric=metric,
        ruler_official=ruler_official or None,
        engine=engine,
        dtype=dtype,
        engine_args=engine_args,
        speculator_args=speculator_args,
        reference=reference,
        note=note,
    )
    return _warned(
        run_config(
            config,
            make_overrides(set_),
            out=out,
            allow_mixed_code=allow_mixed_code,
            fail_fast=fail_fast,
            quiet=quiet,
            executor=executor,
            address=address,
            workers=workers,
        )
    )


def sweep(
    file: str | PathLike[str],
    *,
    set_: Overrides = None,
    out: str | PathLike[str] | None = None,
    allow_mixed_code: bool = False,
    fail_fast: bool = False,
    quiet: bool = False,
    executor: str = "local",
    address: str | None = None,
    workers: int | None = None,
) -> Run:
    """Run tasks × arms × keep rates × look-aheads × seeds × lengths from a file.

    Parameters
    ----------
    file
        A YAML file, or the name of a preset sweep; the other options are those of :func:`run`.

    Raises
    ------
    HarnessError
        Whatever is wrong with the file, the data or the models, in one line.
    """
    from harness.run.sweeps import load_sweep

    return _warned(
        run_config(
            load_sweep(str(file)),
            make_overrides(set_),
            out=out,
            allow_mixed_code=allow_mixed_code,
            fail_fast=fail_fast,
            quiet=quiet,
            executor=executor,
            address=address,
            workers=workers,
        )
    )


def run_config(
    config: RunConfig,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    out: str | PathLike[str] | None = None,
    allow_mixed_code: bool = False,
    fail_fast: bool = False,
    quiet: bool = False,
    executor: str = "local",
    address: str | None = None,
    workers: int | None = None,
    announce: Callable[[Plan], None] = lambda _: None,
) -> Run:
    """Plan a configuration, run or resume it, and return it; ``announce`` sees the plan first."""
    # OpenMP reads this when torch is imported. Threads that spin while they wait slow down the
    # other engine that shares the cores (docs/performance.md).
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from harness.run.executors import make_executor
    from harness.run.folder import open_run
    from harness.run.plan import build_plan
    from harness.run.runner import execute

    where = make_executor(executor, address=address, workers=workers)
    plan = build_plan(config, overrides or {})
    announce(plan)
    folder = None if out is None else Path(out)
    with open_run(plan, folder, allow_mixed_code=allow_mixed_code) as store:
        execute(plan, store, executor=where, fail_fast=fail_fast, quiet=quiet)
        path = store.folder
    return Run(path)


def _warned(run: Run) -> Run:
    if run.failed:
        first = next(iter(run.failed.values()))
        warnings.warn(
            f"{len(run.failed)} of {run.cell_count} cells failed, the first with: {first}; "
            "run it again with out=run.path to try them anew",
            FailedCellsWarning,
            stacklevel=3,
        )
    return run
