"""lm-eval's own result files: ``results_*.json`` and ``samples_<task>_*.jsonl``, a folder an arm.

The fields are those of lm-eval 0.4.13 (``lm_eval/result_schema.py``). lm-eval knows one model and
one prompt length a result, so arms, lengths and data seeds each get a folder. What lm-eval cannot
say (receipts, intervals, references by example) stands under keys of our own, ``specprefill``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from harness.run.store import Store
from harness.schema.records import CellRecord, ExampleRecord, QualityRecord, RunRecord
from harness.tasks.info import FOREIGN

FILTER = "none"


def write_lm_eval(store: Store, folder: Path) -> None:
    """Write the run of a store into ``folder``."""
    run = store.run()
    groups: dict[tuple[str, int | None, int], list[CellRecord]] = defaultdict(list)
    for cell in store.cells():
        groups[(cell.arm, cell.length, cell.seed)].append(cell)
    several = {
        "length": len({length for _, length, _ in groups}) > 1,
        "seed": len({seed for _, _, seed in groups}) > 1,
    }
    for (arm, length, seed), cells in groups.items():
        name = arm
        if several["length"] and length is not None:
            name += f"-{length}"
        if several["seed"]:
            name += f"-seed{seed}"
        _write_model(store, run, cells, folder / _file_name(name), name)


@dataclass(frozen=True, slots=True)
class _Task:
    """One task of a model: its samples are written, its means are known."""

    cell: CellRecord
    count: int
    output_type: str
    metrics: Mapping[str, Any]
    task_hash: str


def _write_model(
    store: Store, run: RunRecord, cells: Sequence[CellRecord], folder: Path, name: str
) -> None:
    """Write one "model" of lm-eval: the tasks of one arm at one length and seed."""
    stamp = _file_name(run.created.replace(":", "-"))  # as lm-eval dates its files
    tasks = []
    for cell in cells:
        records = list(store.quality(cell.cell_id))
        if records:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"samples_{_file_name(cell.task)}_{stamp}.jsonl"
            tasks.append(_write_samples(store, cell, records, path))
    if tasks:
        text = json.dumps(_results(run, tasks, name), ensure_ascii=False, allow_nan=False, indent=2)
        (folder / f"results_{stamp}.json").write_text(text + "\n", encoding="utf-8", newline="\n")


def _write_samples(
    store: Store, cell: CellRecord, records: Sequence[QualityRecord], path: Path
) -> _Task:
    digest = hashlib.sha256()
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in records:
            example = store.example(record.example_id)
            assert example is not None  # a record never stands without its example
            sample = _sample(example, record)
            for part in ("doc_hash", "prompt_hash", "target_hash"):
                digest.update(sample[part].encode())
            file.write(json.dumps(sample, ensure_ascii=False, allow_nan=False) + "\n")
    likelihood = any(record.finish_reason == "loglikelihood" for record in records)
    return _Task(
        cell,
        len(records),
        "loglikelihood" if likelihood else "generate_until",
        _aggregate(cell, records),
        digest.hexdigest(),
    )


def _aggregate(cell: CellRecord, records: Sequence[QualityRecord]) -> dict[str, Any]:
    """Means with lm-eval's own standard error, s / √n; a mean over a missing score is null."""
    out: dict[str, Any] = {"name": cell.task, "alias": cell.task, "sample_len": len(records)}
    names = dict.fromkeys([cell.metric, *(name for r in records for name in r.metrics)])
    for metric in names:
        scores = [record.metrics.get(metric) for record in records]
        known = [score for score in scores if score is not None]
        whole = len(known) == len(records)
        error = stdev(known) / len(known) ** 0.5 if whole and len(known) > 1 else "N/A"
        name, pipeline = _split(metric)
        out[f"{name},{pipeline}"] = fmean(known) if whole else None
        out[f"{name}_stderr,{pipeline}"] = error
    return out


def _split(metric: str) -> tuple[str, str]:
    """A metric's name and its filter's: records join them as lm-eval's results do."""
    name, _, pipeline = metric.partition(",")
    return name, pipeline or FILTER


def _results(run: RunRecord, tasks: Sequence[_Task], name: str) -> dict[str, Any]:
    first = tasks[0].cell
    subtasks: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        subtasks[task.cell.group].append(task.cell.task)
    by_task = {task.cell.task: task for task in tasks}
    return {
        "results": {name: task.metrics for name, task in by_task.items()},
        "group_subtasks": subtasks,
        "configs": {
            name: {
                "task": name,
                "output_type": task.output_type,
                "metadata": dict(task.cell.identity),
            }
            for name, task in by_task.items()
        },
        "versions": {n: task.cell.identity.get("task_version") for n, task in by_task.items()},
        # Our own tasks are zero-shot; what a foreign task's YAML asks for is not in the store.
        "n-shot": {n: 0 for n, task in by_task.items() if task.cell.group != FOREIGN},
        "higher_is_better": {n: {_split(t.cell.metric)[0]: True} for n, t in by_task.items()},
        "n-samples": {
            name: {"original": task.count, "effective": task.count}
            for name, task in by_task.items()
        },
        "task_hashes": {name: task.task_hash for name, task in by_task.items()},
        "config": {
            "model": "specprefill",
            "model_args": _model_args(first),
            "model_dtype": first.dtype,
            "batch_size": None,
            "limit": run.config.get("limit"),
            "random_seed": first.seed,
        },
        "git_hash": run.commits[-1] if run.commits else None,
        "date": _timestamp(run.created),
        "transformers_version": run.software.get("transformers"),
        "lm_eval_version": run.software.get("lm-eval"),
        "model_source": "specprefill",
        "model_name": name,
        "model_name_sanitized": _file_name(name),
        "specprefill": {
            "run": run.run_id,
            "arm": first.arm,
            "method": first.method,
            "options": dict(first.options),
            "keep": first.keep,
            "look_ahead": first.look_ahead,
            "length": first.length,
            "seed": first.seed,
            "cells": {name: task.cell.cell_id for name, task in by_task.items()},
        },
    }


def _model_args(cell: CellRecord) -> str:
    parts: dict[str, str | float | None] = {
        "pretrained": cell.target,
        "speculator": cell.speculator,
        "method": cell.method,
        "keep": cell.keep,
        "look_ahead": cell.look_ahead,
        "engine": cell.engine,
    }
    return ",".join(f"{key}={value}" for key, value in parts.items() if value is not None)


def _sample(example: ExampleRecord, record: QualityRecord) -> dict[str, Any]:
    doc = {
        "example_id": example.example_id,
        "references": list(example.references),
        "facts": dict(example.facts),
    }
    references = example.references
    target = references[0] if len(references) == 1 else str(list(references))
    answer = record.text or ""
    # lm-eval writes a sample a filter; the primary metric's is the first.
    pipeline = _split(next(iter(record.metrics), ""))[1]
    named = ((*_split(metric), value) for metric, value in record.metrics.items())
    metrics = {name: value for name, filtered_by, value in named if filtered_by == pipeline}
    return {
        "doc_id": example.index,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": example.text, "arg_1": {}}},
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": pipeline,
        "metrics": list(metrics),
        "doc_hash": _sha(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": _sha(example.text),
        "target_hash": _sha(target),
        **metrics,
        "specprefill": {
            "receipt": record.receipt.to_json(),
            "evidence_kept": record.evidence_kept,
            "finish_reason": record.finish_reason,
            "reason": record.reason,
        },
    }


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _file_name(text: str) -> str:
    """Make a file name of a name: what could leave the folder becomes ``_``."""
    return re.sub(r"[^\w.@-]", "_", text).lstrip(".") or "_"


def _timestamp(created: str) -> float | None:
    try:
        return datetime.fromisoformat(created).timestamp()
    except ValueError:
        return None
