"""The results store: one SQLite file (WAL) in a run's folder, the only thing readers read.

Layout of ``<run>/store.sqlite``, schema version 1: ``meta`` (one row a key), ``cells``,
``examples``, ``quality`` (key: cell, example) and ``latency`` (key: cell, example, block, slot).
Scalars that statistics read are columns; the rest is JSON. Prompt texts are zlib-compressed.
Every write is one transaction, so that a process killed at any moment loses nothing that was
reported as done and doubles nothing.
"""

from __future__ import annotations

import dataclasses
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from harness.errors import StoreBusyError, StoreError
from harness.run import store_schema as schema
from harness.run.store_files import (
    FILE_NAME,
    connect,
    dump,
    open_to_read,
    open_to_write,
    told,
    write_empty,
)
from harness.run.store_reading import StoreReading
from harness.schema.records import (
    CellRecord,
    CellStatus,
    ExampleRecord,
    LatencyRecord,
    QualityRecord,
    RunRecord,
)


class Store(StoreReading):
    """An open results store.

    :meth:`create` makes one, :meth:`resume` opens one to add to it, :meth:`open` to read it.

    Attributes
    ----------
    patience_s
        Seconds that a write waits for another program's lock, beyond the one wait of a statement
        (:data:`harness.run.store_files.LOCK_WAIT_S`).
    say
        Told, in a line, that a write is waiting.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        super().__init__(folder, connection)
        self.patience_s = 0.0
        self.say: Callable[[str], None] = lambda _: None

    # -- opening ---------------------------------------------------------------------------

    @classmethod
    def create(cls, folder: Path, run: RunRecord) -> Self:
        """Make a new store in ``folder``.

        Raises
        ------
        StoreError
            The folder already holds a store, or cannot be written.
        """
        path = folder / FILE_NAME
        if path.exists():
            raise StoreError(f"{path} exists already: resume it, or choose another --out")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot write a results store in {folder}: {error}") from error
        with told(path):
            write_empty(path, run)
            db = connect(path)
            db.execute("PRAGMA journal_mode = WAL")  # it stays with the file
        return cls(folder, db)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the store in a run's folder (or the file itself) to read; nothing is written.

        Raises
        ------
        StoreError
            No store is there, it is damaged, or it has a schema version unknown here.
        """
        file = _file_of(path)
        return cls(file.parent, open_to_read(file))

    @classmethod
    def resume(cls, path: Path) -> Self:
        """Open the store in a run's folder to add to it.

        Raises
        ------
        StoreError
            As :meth:`open`, or it cannot be written just now.
        """
        file = _file_of(path)
        return cls(file.parent, open_to_write(file))

    # -- writing ---------------------------------------------------------------------------

    def update_run(self, run: RunRecord) -> None:
        """Replace the run's record (a resume adds its commit)."""
        body = dump(dataclasses.asdict(run))
        self._write("UPDATE meta SET value = ? WHERE key = 'run'", [(body,)])

    def take_over(self, run: RunRecord, successors: Mapping[str, str]) -> None:
        """Give the records of cells to their successors, in one transaction.

        The old cells go; the successors, by id, are to be added next, in the plan's order.
        """
        moves = [(new, old) for old, new in successors.items()]
        with told(self.folder / FILE_NAME), self._db as db:
            for table in ("quality", "latency"):
                db.executemany(f"UPDATE {table} SET cell_id = ? WHERE cell_id = ?", moves)
            db.executemany("DELETE FROM cells WHERE cell_id = ?", [(old,) for _, old in moves])
            body = dump(dataclasses.asdict(run))
            db.execute("UPDATE meta SET value = ? WHERE key = 'run'", (body,))

    def add_cells(self, cells: Iterable[CellRecord]) -> None:
        """Add cells; those already there stay as they are."""
        rows = [(c.cell_id, str(c.status), c.reason, dump(dataclasses.asdict(c))) for c in cells]
        self._write("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?)", rows)

    def set_cell_status(self, cell_id: str, status: CellStatus, reason: str | None = None) -> None:
        """Record what became of a cell."""
        self.set_cell_statuses([(cell_id, status, reason)])

    def set_cell_statuses(self, found: Iterable[tuple[str, CellStatus, str | None]]) -> None:
        """Record what became of some cells (id, status, reason), in one transaction."""
        rows = [(str(status), reason, cell_id) for cell_id, status, reason in found]
        self._write("UPDATE cells SET status = ?, reason = ? WHERE cell_id = ?", rows)

    def add_examples(self, examples: Iterable[ExampleRecord]) -> None:
        """Add examples; those already there stay as they are."""
        self._add("examples", examples)

    def add_quality(self, records: Iterable[QualityRecord]) -> None:
        """Add quality records, in one transaction; a (cell, example) pair is recorded once."""
        self._add("quality", records)

    def add_latency(self, records: Iterable[LatencyRecord]) -> None:
        """Add the requests of whole latency blocks, in one transaction."""
        self._add("latency", records)

    def _add(
        self, table: str, records: Iterable[ExampleRecord | QualityRecord | LatencyRecord]
    ) -> None:
        rows = [schema.to_row(table, record) for record in records]
        self._write(schema.insert(table, ignore=True), rows)

    def _write(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run one statement over rows in one transaction.

        While another program holds the lock it is tried again for :attr:`patience_s`: what a model
        has generated is worth the wait.

        Raises
        ------
        StoreError
            The disk is full or fails, or the lock is not given up; what was written before is
            whole.
        """
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                with told(self.folder / FILE_NAME), self._db:
                    self._db.executemany(statement, rows)
                return
            except StoreBusyError as error:
                if time.monotonic() >= deadline:
                    raise
                self.say(f"waiting: {error}")


def _file_of(path: Path) -> Path:
    """Return the store's file of a run's folder, or of its own path."""
    file = path if path.name == FILE_NAME else path / FILE_NAME
    if not file.is_file():
        raise StoreError(f"{path} is not a run: it holds no {FILE_NAME} (see harness runs list)")
    return file
