"""Where the numbers come from: models and digests, versions, machine, commit, seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.report.source import Report, RunView


@dataclass(frozen=True, slots=True)
class Provenance:
    """One run's provenance: labelled values, warnings, and its whole configuration."""

    run: str
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    config: str


def provenance(report: Report) -> list[Provenance]:
    """Provenance of every run, plus a warning where their times cannot stand side by side."""
    found = [_of_run(run) for run in report.runs]
    classes = {str(run.record.machine.get("class")) for run in report.runs}
    if len(classes) > 1:
        mixed = (
            f"the runs are from different machine classes ({', '.join(sorted(classes))}): their "
            "seconds do not compare, their speed-ups over full prefill do"
        )
        first = found[0]
        found[0] = Provenance(first.run, first.facts, (mixed, *first.warnings), first.config)
    return found


def _of_run(run: RunView) -> Provenance:
    record = run.record
    facts = [
        ("run", record.run_id),
        ("created", record.created),
        ("command", record.command),
        ("commit", ", ".join(record.commits)),
        ("configuration", record.config_hash),
        *_flat("models", record.models),
        *_flat("machine", record.machine),
        *_flat("software", record.software),
        ("engine", _values(f"{cell.engine}, {cell.dtype}" for cell in run.cells)),
        ("data seeds", _values(str(cell.seed) for cell in run.cells)),
        ("method seeds", _values(str(cell.method_seed) for cell in run.cells)),
        ("sample seeds", _values(str(cell.sample_seed) for cell in run.cells)),
    ]
    if record.note:
        facts.append(("note", record.note))
    warnings = []
    if len(record.commits) > 1:
        warnings.append(f"{len(record.commits)} versions of the code wrote to this run")
    if any("-dirty" in commit for commit in record.commits):
        warnings.append("the code had uncommitted changes")
    config = json.dumps(dict(record.config), indent=2, ensure_ascii=False, sort_keys=True)
    return Provenance(record.run_id, tuple(facts), tuple(warnings), config)


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}: {key}", value)
        elif value not in (None, "", [], ()):
            shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            yield f"{prefix}: {key}", shown


def _values(parts: Iterator[str]) -> str:
    return "; ".join(dict.fromkeys(parts))
