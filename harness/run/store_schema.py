"""Tables of the results store, and how records become rows and rows records."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from harness.schema.receipts import Receipt
from harness.schema.records import ExampleRecord, LatencyRecord, QualityRecord

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
STAGES = ("score", "select", "prefill", "other")

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


def _json(value: Any) -> str:
    # allow_nan=False: a NaN must be noticed where it arises, not in a report.
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _receipt_values(receipt: Receipt) -> tuple[Any, ...]:
    cost = receipt.cost
    return (
        str(receipt.status),
        receipt.reason,
        receipt.keep_requested,
        receipt.keep_achieved,
        str(receipt.budget_kind),
        cost.prefill_tokens,
        cost.attention_share,
        cost.kv_tokens,
        cost.flops_share,
        _json(receipt.to_json()),
    )


def _receipt(text: str) -> Receipt:
    return Receipt.from_json(json.loads(text))


def cell_fields(body: str) -> dict[str, Any]:
    """Fields of a cell's JSON; those that early stores lack are made of the ones they have."""
    fields: dict[str, Any] = json.loads(body)
    if "series" not in fields:
        at = f"@{fields['engine']}"
        name = fields["arm"].removesuffix(at)
        end = at if name != fields["arm"] else ""
        keep, look_ahead = fields["keep"], fields["look_ahead"]
        stem = name.removesuffix(f"-m{fields['method_seed']}")
        depth = f"-lah{look_ahead}" if stem.endswith(f"-lah{look_ahead}") else ""
        rate = "" if keep is None else f"-k{keep * 100:g}"
        fields["pool"] = stem + end
        fields["series"] = stem.removesuffix(depth).removesuffix(rate) + depth + end
    return fields


def example_row(e: ExampleRecord) -> tuple[Any, ...]:
    """Return the row of an example."""
    return (
        e.example_id,
        e.task,
        e.length,
        e.seed,
        e.index,
        # Lone surrogates cannot be stored as UTF-8; tasks refuse them, outputs are cleaned.
        zlib.compress(e.text.encode(), 6),
        e.token_count,
        e.content_digest,
        e.cluster,
        _json(list(e.references)),
        None if e.segments is None else _json(e.segments),
        _json(dict(e.facts)),
    )


def read_example(row: Sequence[Any]) -> ExampleRecord:
    """Inverse of :func:`example_row`."""
    return ExampleRecord(
        example_id=row[0],
        task=row[1],
        length=row[2],
        seed=row[3],
        index=row[4],
        text=zlib.decompress(row[5]).decode(),
        token_count=row[6],
        content_digest=row[7],
        cluster=row[8],
        references=tuple(json.loads(row[9])),
        segments=None if row[10] is None else json.loads(row[10]),
        facts=json.loads(row[11]),
    )


def quality_row(r: QualityRecord) -> tuple[Any, ...]:
    """Return the row of a quality record."""
    text = None if r.text is None else r.text.encode("utf-8", "replace").decode()
    return (
        r.cell_id,
        r.example_id,
        text,
        r.token_count,
        r.output_digest,
        r.score,
        _json(dict(r.metrics)),
        r.evidence_kept,
        r.finish_reason,
        r.reason,
        *_receipt_values(r.receipt),
    )


def read_quality(row: Sequence[Any]) -> QualityRecord:
    """Inverse of :func:`quality_row`."""
    return QualityRecord(
        cell_id=row[0],
        example_id=row[1],
        text=row[2],
        token_count=row[3],
        output_digest=row[4],
        score=row[5],
        metrics=json.loads(row[6]),
        evidence_kept=row[7],
        finish_reason=row[8],
        reason=row[9],
        receipt=_receipt(row[-1]),
    )


def latency_row(r: LatencyRecord) -> tuple[Any, ...]:
    """Return the row of a latency record."""
    return (
        r.cell_id,
        r.example_id,
        r.block,
        r.slot,
        r.order,
        r.role,
        r.ttft_s,
        *(r.stages_s.get(stage) for stage in STAGES),
        r.tpot_s,
        r.tokens,
        r.original_length,
        r.session,
        *_receipt_values(r.receipt),
    )


def read_latency(row: Sequence[Any]) -> LatencyRecord:
    """Inverse of :func:`latency_row`."""
    stages = {s: v for s, v in zip(STAGES, row[7:11], strict=True) if v is not None}
    return LatencyRecord(
        cell_id=row[0],
        example_id=row[1],
        block=row[2],
        slot=row[3],
        order=row[4],
        role=row[5],
        ttft_s=row[6],
        stages_s=stages,
        tpot_s=row[11],
        tokens=row[12],
        original_length=row[13],
        session=row[14],
        receipt=_receipt(row[-1]),
    )
