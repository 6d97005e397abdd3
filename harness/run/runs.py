"""The runs on this machine: find, describe, compare, remove."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, StoreError, nearest
from harness.paths import runs_dir
from harness.run.store import Store
from harness.run.store_files import FILE_NAME


def find_run(name: str) -> Path:
    """Return a run's folder from its path, or its name (or the name's start) under results/runs.

    Raises
    ------
    StoreError
        No such run, or the start fits several.
    """
    path = Path(name)
    if path.name == FILE_NAME and path.is_file():
        return path.parent
    if (path / FILE_NAME).is_file():
        return path
    known = {p.parent.name: p.parent for p in sorted(runs_dir().glob(f"*/{FILE_NAME}"))}
    fits = [known[k] for k in known if k == name] or [known[k] for k in known if k.startswith(name)]
    if name and len(fits) == 1:
        return fits[0]
    if name and fits:
        raise StoreError(f"{name!r} fits {len(fits)} runs: {', '.join(p.name for p in fits[:5])}")
    raise StoreError(f"{name} is not a run{nearest(name, known)}; `harness runs list` shows them")


def list_runs(folder: Path | None = None) -> list[dict[str, Any]]:
    """Every run under results/runs, oldest first; a damaged store is listed as such."""
    found = []
    for file in sorted((folder or runs_dir()).glob(f"*/{FILE_NAME}")):
        row: dict[str, Any] = {"run": file.parent.name, "path": str(file.parent)}
        try:
            with Store.open(file.parent) as store:
                run = store.run()
                row |= {
                    "created": run.created,
                    "tasks": run.config.get("task"),
                    "arms": sorted({cell.arm for cell in store.cells()}),
                    "records": len(store.done_pairs()),
                    "cells": dict(Counter(str(cell.status) for cell in store.cells())),
                }
        except StoreError as error:
            row["error"] = str(error)
        found.append(row)
    return found


def describe_run(folder: Path) -> dict[str, Any]:
    """Return a run's provenance and cells, with each cell's status, reason and records."""
    with Store.open(folder) as store:
        run = store.run()
        quality = Counter(cell_id for cell_id, _ in store.done_pairs())
        blocks = Counter(cell_id for cell_id, _ in store.done_blocks())
        cells = [
            {
                "cell_id": cell.cell_id,
                "task": cell.task,
                "length": cell.length,
                "seed": cell.seed,
                "arm": cell.arm,
                "engine": cell.engine,
                "dtype": cell.dtype,
                "status": str(cell.status),
                "reason": cell.reason,
                "quality_records": quality[cell.cell_id],
                "latency_blocks": blocks[cell.cell_id],
            }
            for cell in store.cells()
        ]
    return {**asdict(run), "commits": list(run.commits), "path": str(folder), "cells": cells}


def diff_runs(first: Path, second: Path) -> dict[str, Any]:
    """Compare two runs: configuration keys that differ, and mean scores of shared cells.

    Scores are compared over the examples that both runs scored, paired by content.
    """
    with Store.open(first) as a, Store.open(second) as b:
        one, two = a.run(), b.run()
        keys = sorted({*one.config, *two.config})
        changed = {
            key: [one.config.get(key), two.config.get(key)]
            for key in keys
            if one.config.get(key) != two.config.get(key)
        }
        left, right = _scores(a), _scores(b)
    rows = []
    for cell in left:
        if cell not in right:
            continue
        shared = sorted(set(left[cell]) & set(right[cell]))
        changes = [right[cell][key] - left[cell][key] for key in shared]
        task, length, seed, arm = cell
        rows.append(
            {
                "task": task,
                "length": length,
                "seed": seed,
                "arm": arm,
                "n": len(shared),
                "first": _mean([left[cell][key] for key in shared]),
                "second": _mean([right[cell][key] for key in shared]),
                "delta": _mean(changes),
            }
        )
    return {"config": changed, "commits": [list(one.commits), list(two.commits)], "cells": rows}


def remove_run(folder: Path) -> None:
    """Delete a run's folder.

    Raises
    ------
    ConfigError
        The folder holds other things than a run: those would be lost with it.
    """
    foreign = [p.name for p in folder.iterdir() if not p.name.startswith((FILE_NAME, ".lock"))]
    if foreign:
        raise ConfigError(
            f"{folder} also holds {', '.join(sorted(foreign)[:3])}: remove it by hand"
        )
    shutil.rmtree(folder)


def _scores(store: Store) -> dict[tuple[str, int | None, int, str], dict[str, float]]:
    """Scores by cell and content digest."""
    digests = {e.example_id: e.content_digest for e in store.examples()}
    found: dict[tuple[str, int | None, int, str], dict[str, float]] = {}
    for cell in store.cells():
        key = (cell.task, cell.length, cell.seed, cell.arm)
        found[key] = {
            digests[record.example_id]: record.score
            for record in store.quality(cell.cell_id)
            if record.score is not None
        }
    return found


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
