"""The file behind a results store: made whole, opened, set aside when damaged."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.run import store_schema as schema
from harness.schema.records import SCHEMA_VERSION, RunRecord

FILE_NAME = "store.sqlite"


def set_aside(folder: Path) -> Path:
    """Rename a damaged store so that nothing overwrites it; return its new name."""
    file = folder / FILE_NAME
    kept = folder / f"{FILE_NAME}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 0
    while kept.exists():
        number += 1
        kept = kept.with_name(f"{kept.name}-{number}")
    file.rename(kept)
    for suffix in ("-wal", "-shm"):
        beside = folder / f"{FILE_NAME}{suffix}"
        if beside.exists():
            beside.rename(kept.with_name(kept.name + suffix))
    return kept


def write_empty(path: Path, run: RunRecord) -> None:
    """Write a store with a run and no records, under a temporary name first.

    A process killed here leaves the temporary file and no half-made store.
    """
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    db = connect(new)
    try:
        with db:
            db.executescript(schema.DDL)
            db.execute("INSERT INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))
            db.execute("INSERT INTO meta VALUES ('run', ?)", (dump(dataclasses.asdict(run)),))
    finally:
        db.close()
    new.replace(path)


def connect(path: Path) -> sqlite3.Connection:
    """Open a database file as stores are opened: waiting for other writers."""
    db = sqlite3.connect(path, timeout=30)
    db.execute("PRAGMA synchronous = NORMAL")
    return db


def dump(value: Mapping[str, Any]) -> str:
    """Canonical JSON: sorted keys, text as it is."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
