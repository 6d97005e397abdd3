"""Sweep files and presets, and what a sweep would cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import ConfigError, nearest
from harness.paths import package_or_checkout
from harness.run.config import RunConfig, load_config

if TYPE_CHECKING:
    from harness.run.plan import Plan

TARGET_TOKENS_PER_S = 500.0
"""Prefill rate behind a dry run's time estimate, tokens a second: the padded embedded model on two
CPU cores (docs/performance.md). Another machine's times scale with its own rate."""

SCORER_SHARE = 0.25
"""The speculator's time per token as a share of the target's, for the estimate."""


def load_sweep(file: str) -> RunConfig:
    """Read a sweep from a path, or from the presets by name.

    Raises
    ------
    ConfigError
        No such file or preset, or a fault inside it.
    """
    path = Path(file)
    if path.suffix in {".yaml", ".yml"} or path.is_file():
        return load_config(path)
    folder = package_or_checkout("tasks") / "sweeps"
    presets = {p.stem: p for p in folder.glob("*.yaml")}
    if file in presets:
        return load_config(presets[file])
    raise ConfigError(f"no sweep file or preset {file!r}{nearest(file, presets)}")


def print_dry_run(
    config: RunConfig, overrides: Mapping[str, Mapping[str, Any]], *, json_output: bool
) -> None:
    """Print every cell with its prefill tokens and a rough time; no model is loaded."""
    from harness.run.plan import build_plan

    estimate = estimate_plan(build_plan(config, overrides))
    if json_output:
        print(json.dumps(estimate, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("task", "length", "seed", "arm", "engine", "examples", "prefill tokens", "≈ time")
    for cell in estimate["cells"]:
        table.add_row(
            *(str(cell[k]) for k in ("task", "length", "seed", "arm", "engine", "examples")),
            f"{cell['prefill_tokens']:,}",
            _clock(cell["seconds"]),
        )
    console = Console()
    console.print(table)
    console.print(
        f"{len(estimate['cells'])} cells, {estimate['prefill_tokens']:,} prefill tokens, about "
        f"{_clock(estimate['seconds'])} at {TARGET_TOKENS_PER_S:.0f} tokens/s; nothing was started."
    )


def estimate_plan(plan: Plan) -> dict[str, Any]:
    """Cells with the tokens the target prefills (quality and latency) and a rough time.

    The speculator's pass is counted once an example: it serves every keep rate and every smaller
    look-ahead on the same examples.
    """
    from harness.run.cells import by_examples

    cells = []
    for alike in by_examples(plan.cells):
        lengths = [len(e.prompt.token_ids) for e in alike[0].examples.examples]
        scored = False
        for cell in alike:
            record = cell.record
            share = record.keep if record.keep is not None and record.improves_ttft else 1.0
            timed = lengths[: plan.latency_samples(cell)] if record.reference_cell_id else []
            tokens = sum(lengths) * share + sum(timed) * (2 * share + 2)
            scorer = 2.0 * sum(timed) if "scorer" in cell.method.needs else 0.0
            if "scorer" in cell.method.needs and not scored:
                scorer += sum(lengths)
                scored = True
            cells.append(
                {
                    "cell_id": record.cell_id,
                    "task": record.task,
                    "length": record.length,
                    "seed": record.seed,
                    "arm": record.arm,
                    "engine": record.engine,
                    "examples": len(lengths),
                    "prefill_tokens": round(tokens),
                    "seconds": (tokens + SCORER_SHARE * scorer) / TARGET_TOKENS_PER_S,
                }
            )
    return {
        "cells": cells,
        "prefill_tokens": sum(c["prefill_tokens"] for c in cells),
        "seconds": sum(c["seconds"] for c in cells),
    }


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
