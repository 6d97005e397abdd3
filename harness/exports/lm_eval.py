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
from datetime import datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from harness.records import CellRecord, ExampleRecord, QualityRecord, RunRecord
from harness.store import Store

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


def _write_model(
    store: Store, run: RunRecord, cells: Sequence[CellRecord], folder: Path, name: str
) -> None:
    """Write one "model" of lm-eval: the tasks of one arm at one length and seed."""
    stamp = _file_name(run.created.replace(":", "-"))  # as lm-eval dates its files
    results: dict[str, dict[str, Any]] = {}
    hashes: dict[str, str] = {}
    counts: dict[str, int] = {}
    done = []
    for cell in cells:
        values: dict[str, list[float | None]] = defaultdict(list)
        digest = hashlib.sha256()
        records = list(store.quality(cell.cell_id))
        if not records:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"samples_{_file_name(cell.task)}_{stamp}.jsonl"
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for record in records:
                example = store.example(record.example_id)
                assert example is not None  # a record never stands without its example
                sample = _sample(example, record)
                for part in ("doc_hash", "prompt_hash", "target_hash"):
                    digest.update(sample[part].encode())
                for metric, value in record.metrics.items():
                    values[metric].append(value)
                if not record.metrics:
                    values[cell.metric].append(None)
                file.write(_dump(sample) + "\n")
        results[cell.task] = _aggregate(cell, values, len(records))
        hashes[cell.task] = digest.hexdigest()
        counts[cell.task] = len(records)
        done.append(cell)
    if done:
        body = _results(run, done, name, results, counts) | {"task_hashes": hashes}
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, indent=2)
        (folder / f"results_{stamp}.json").write_text(text + "\n", encoding="utf-8", newline="\n")


def _aggregate(
    cell: CellRecord, values: Mapping[str, Sequence[float | None]], count: int
) -> dict[str, Any]:
    """Means with lm-eval's own standard error, s / √n; a mean over a missing score is null."""
    out: dict[str, Any] = {"name": cell.task, "alias": cell.task, "sample_len": count}
    for metric, scores in values.items():
        known = [score for score in scores if score is not None]
        whole = len(known) == count
        error = stdev(known) / len(known) ** 0.5 if whole and count > 1 else "N/A"
        out[f"{metric},{FILTER}"] = fmean(known) if whole else None
        out[f"{metric}_stderr,{FILTER}"] = error
    return out


def _results(
    run: RunRecord,
    cells: Sequence[CellRecord],
    name: str,
    results: Mapping[str, Any],
    counts: Mapping[str, int],
) -> dict[str, Any]:
    first = cells[0]
    subtasks: dict[str, list[str]] = defaultdict(list)
    for cell in cells:
        subtasks[cell.group].append(cell.task)
    return {
        "results": results,
        "group_subtasks": subtasks,
        "configs": {
            cell.task: {
                "task": cell.task,
                "output_type": "generate_until",
                "num_fewshot": 0,
                "metadata": dict(cell.identity),
            }
            for cell in cells
        },
        "versions": {cell.task: cell.identity.get("task_version") for cell in cells},
        "n-shot": dict.fromkeys(results, 0),
        "higher_is_better": {cell.task: {cell.metric: True} for cell in cells},
        "n-samples": {task: {"original": n, "effective": n} for task, n in counts.items()},
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
        "system_instruction": None,
        "chat_template": None,
        "specprefill": {
            "run": run.run_id,
            "arm": first.arm,
            "method": first.method,
            "options": dict(first.options),
            "keep": first.keep,
            "look_ahead": first.look_ahead,
            "length": first.length,
            "seed": first.seed,
            "cells": {cell.task: cell.cell_id for cell in cells},
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
    return {
        "doc_id": example.index,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": example.text, "arg_1": {}}},
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": FILTER,
        "metrics": list(record.metrics),
        "doc_hash": _sha(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": _sha(example.text),
        "target_hash": _sha(target),
        **record.metrics,
        "specprefill": {
            "receipt": record.receipt.to_json(),
            "evidence_kept": record.evidence_kept,
            "finish_reason": record.finish_reason,
            "reason": record.reason,
        },
    }


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


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
