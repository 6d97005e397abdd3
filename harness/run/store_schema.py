"""Tables of the results store, and how records become rows and rows records."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from harness.schema.records import STAGES, ExampleRecord, LatencyRecord, QualityRecord

RECEIPT_COLUMNS = (
    "status",
    "receipt_reason",
    "keep_requested",
    "keep_achieved",
    "budget_kind",
    "prefill_tokens",
    "attention_share",
    "kv_tokens",
    "flops_share",
    "receipt",
)
COLUMNS: dict[str, tuple[str, ...]] = {
    "examples": (
        "example_id",
        "task",
        "length",
        "seed",
        '"index"',
        "text",
        "token_count",
        "content_digest",
        "cluster",
        '"references"',
        "segments",
        "facts",
    ),
    "quality": (
        "cell_id",
        "example_id",
        "text",
        "token_count",
        "output_digest",
        "score",
        "metrics",
        "evidence_kept",
        "finish_reason",
        "reason",
        *RECEIPT_COLUMNS,
    ),
    "latency": (
        "cell_id",
        "example_id",
        "block",
        "slot",
        '"order"',
        "role",
        "ttft_s",
        *(f"{stage}_s" for stage in STAGES),
        "tpot_s",
        "tokens",
        "original_length",
        "session",
        *RECEIPT_COLUMNS,
    ),
}

_TYPES = {
    "length": "INTEGER",
    "seed": "INTEGER",
    '"index"': "INTEGER",
    "token_count": "INTEGER",
    "score": "REAL",
    "evidence_kept": "REAL",
    "keep_requested": "REAL",
    "keep_achieved": "REAL",
    "prefill_tokens": "INTEGER",
    "attention_share": "REAL",
    "kv_tokens": "INTEGER",
    "flops_share": "REAL",
    "block": "INTEGER",
    "slot": "INTEGER",
    "ttft_s": "REAL",
    **{f"{stage}_s": "REAL" for stage in STAGES},
    "tpot_s": "REAL",
    "tokens": "INTEGER",
    "original_length": "INTEGER",
}

NUMBERS = frozenset(_TYPES)
"""Columns that hold numbers; every other one holds text."""

_KEYS = {
    "examples": "example_id",
    "quality": "cell_id, example_id",
    "latency": "cell_id, example_id, block, slot",
}


def _table(name: str) -> str:
    columns = ", ".join(
        f"{c} {'BLOB' if (name, c) == ('examples', 'text') else _TYPES.get(c, 'TEXT')}"
        for c in COLUMNS[name]
    )
    return f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({_KEYS[name]}));"


DDL = "\n".join(
    [
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);",
        "CREATE TABLE cells (cell_id TEXT PRIMARY KEY, status TEXT NOT NULL, reason TEXT,"
        " body TEXT NOT NULL);",
        *map(_table, COLUMNS),
    ]
)

# Schema version → script that brings a store of that version to the next one.
UPGRADES: dict[int, str] = {}


def insert(table: str, *, ignore: bool) -> str:
    """Return the INSERT statement of a table; ``ignore`` keeps a row that is already there."""
    verb = "INSERT OR IGNORE" if ignore else "INSERT"
    marks = ", ".join("?" for _ in COLUMNS[table])
    return f"{verb} INTO {table} ({', '.join(COLUMNS[table])}) VALUES ({marks})"


_RECORDS: dict[str, TypeAdapter[Any]] = {
    "examples": TypeAdapter(ExampleRecord),
    "quality": TypeAdapter(QualityRecord),
    "latency": TypeAdapter(LatencyRecord),
}
_NESTED = frozenset({"references", "segments", "facts", "metrics", "receipt"})
"""Fields that stand as JSON in their column."""


def to_row(table: str, record: ExampleRecord | QualityRecord | LatencyRecord) -> tuple[Any, ...]:
    """Return a record as the row of its table."""
    # Not pydantic's JSON mode, which turns a NaN into a missing value.
    fields: dict[str, Any] = _RECORDS[table].dump_python(record)
    if "receipt" in fields:
        receipt = fields["receipt"]
        # Scalars of the receipt stand in columns of their own, for frames of a million rows.
        own = {name: receipt[name] for name in RECEIPT_COLUMNS if name in receipt}
        fields |= {**own, **receipt["cost"], "receipt_reason": receipt["reason"]}
    stages = fields.get("stages_s", {})
    fields |= {f"{stage}_s": stages.get(stage) for stage in STAGES}
    return tuple(_cell(table, name.strip('"'), fields) for name in COLUMNS[table])


def _cell(table: str, name: str, fields: Mapping[str, Any]) -> Any:
    value = fields[name]
    if value is None:
        return None
    if name in _NESTED:
        # allow_nan=False: a NaN must be noticed where it arises, not in a report.
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    if name == "text":
        # Lone surrogates cannot be stored as UTF-8; tasks refuse them, outputs are cleaned.
        if table == "examples":
            return zlib.compress(value.encode(), 6)
        return value.encode("utf-8", "replace").decode()
    return value


def from_row(table: str, row: Sequence[Any]) -> Any:
    """Inverse of :func:`to_row`."""
    names = [name.strip('"') for name in COLUMNS[table]]
    fields = dict(zip(names, row, strict=True))
    for name in _NESTED & fields.keys():
        fields[name] = None if fields[name] is None else json.loads(fields[name])
    if table == "examples":
        fields["text"] = zlib.decompress(fields["text"]).decode()
    if table == "latency":
        known = {stage: fields[f"{stage}_s"] for stage in STAGES}
        fields["stages_s"] = {stage: s for stage, s in known.items() if s is not None}
    return _RECORDS[table].validate_python(fields)


def cell_fields(body: str) -> dict[str, Any]:
    """Fields of a cell's JSON; those that early stores lack are made of the ones they have."""
    fields: dict[str, Any] = json.loads(body)
    if "base" not in fields:
        at = f"@{fields['engine']}"
        name = fields["arm"].removesuffix(at)
        end = at if name != fields["arm"] else ""
        keep, look_ahead = fields["keep"], fields["look_ahead"]
        stem = name.removesuffix(f"-m{fields['method_seed']}")
        depth = f"-lah{look_ahead}" if stem.endswith(f"-lah{look_ahead}") else ""
        rate = "" if keep is None else f"-k{keep * 100:g}"
        fields["pool"] = stem + end
        fields["base"] = stem.removesuffix(depth).removesuffix(rate)
        fields["series"] = fields["base"] + depth + end
    return fields
