"""The results store: one SQLite file (WAL) in a run's folder, the only thing readers read.

Layout of ``<run>/store.sqlite``, schema version 1: ``meta`` (one row a key), ``cells``,
``examples``, ``quality`` (key: cell, example) and ``latency`` (key: cell, example, block, slot).
Scalars that statistics read are columns; the rest is JSON. Prompt texts are zlib-compressed.
Every write is one transaction, so that a process killed at any moment loses nothing that was
reported as done and doubles nothing.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from harness.errors import StoreError
from harness.run import store_schema as schema
from harness.run.store_files import FILE_NAME, connect, dump, write_empty
from harness.schema.records import (
    SCHEMA_VERSION,
    CellRecord,
    CellStatus,
    ExampleRecord,
    LatencyRecord,
    QualityRecord,
    RunRecord,
)

if TYPE_CHECKING:
    import pandas as pd


class Store:
    """An open results store. Use :meth:`create` or :meth:`open`, then as a context manager."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._db = connection

    # -- opening ---------------------------------------------------------------------------

    @classmethod
    def create(cls, folder: Path, run: RunRecord) -> Store:
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
            write_empty(path, run)
            db = connect(path)
            db.execute("PRAGMA journal_mode = WAL")  # it stays with the file
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot write a results store in {folder}: {error}") from error
        return cls(folder, db)

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open the store in a run's folder (or the file itself).

        Raises
        ------
        StoreError
            No store is there, it is damaged, or it has a schema version unknown here.
        """
        file = path if path.name == FILE_NAME else path / FILE_NAME
        if not file.is_file():
            raise StoreError(
                f"{path} is not a run: it holds no {FILE_NAME} (see harness runs list)"
            )
        db: sqlite3.Connection | None = None
        try:
            db = connect(file)
            row = db.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
            check = db.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            if db is not None:
                db.close()
            raise StoreError(f"{file} is damaged or not a results store ({error})") from error
        if row is None or check[0] != "ok":
            db.close()
            raise StoreError(f"{file} is damaged or not a results store")
        store = cls(file.parent, db)
        store._upgrade(row[0])
        return store

    def _upgrade(self, found: str) -> None:
        """Bring an older schema to the current one; refuse an unknown one."""
        version = int(found) if found.isdigit() else -1
        while version in schema.UPGRADES:
            with self._db:
                self._db.executescript(schema.UPGRADES[version])
                version += 1
                self._db.execute(
                    "UPDATE meta SET value = ? WHERE key = 'schema_version'", (str(version),)
                )
        if version != SCHEMA_VERSION:
            self.close()
            raise StoreError(
                f"{self.folder / FILE_NAME} has schema version {found}, this harness reads "
                f"{SCHEMA_VERSION}: use the harness that wrote it"
            )

    def close(self) -> None:
        """Close the connection; the write-ahead log is folded into the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- writing ---------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction; a disk that takes no more is said in one line.

        Raises
        ------
        StoreError
            The disk is full or fails; what was written before is whole.
        """
        try:
            with self._db:
                yield self._db
        except sqlite3.OperationalError as error:
            raise StoreError(
                f"cannot write {self.folder / FILE_NAME}: {error}; what was finished is saved: "
                "make room, and run the same command with this --out to go on"
            ) from error

    def update_run(self, run: RunRecord) -> None:
        """Replace the run's record (a resume adds its commit)."""
        with self._writing() as db:
            db.execute(
                "UPDATE meta SET value = ? WHERE key = 'run'", (dump(dataclasses.asdict(run)),)
            )

    def add_cells(self, cells: Iterable[CellRecord]) -> None:
        """Add cells; those already there stay as they are."""
        rows = [(c.cell_id, str(c.status), c.reason, dump(dataclasses.asdict(c))) for c in cells]
        with self._writing() as db:
            db.executemany("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?)", rows)

    def set_cell_status(self, cell_id: str, status: CellStatus, reason: str | None = None) -> None:
        """Record what became of a cell."""
        self.set_cell_statuses([(cell_id, status, reason)])

    def set_cell_statuses(self, found: Iterable[tuple[str, CellStatus, str | None]]) -> None:
        """Record what became of some cells (id, status, reason), in one transaction."""
        rows = [(str(status), reason, cell_id) for cell_id, status, reason in found]
        with self._writing() as db:
            db.executemany("UPDATE cells SET status = ?, reason = ? WHERE cell_id = ?", rows)

    def add_examples(self, examples: Iterable[ExampleRecord]) -> None:
        """Add examples; those already there stay as they are."""
        rows = (schema.to_row("examples", e) for e in examples)
        with self._writing() as db:
            db.executemany(schema.insert("examples", ignore=True), rows)

    def add_quality(self, records: Iterable[QualityRecord]) -> None:
        """Add quality records, in one transaction; a (cell, example) pair is recorded once."""
        rows = [schema.to_row("quality", r) for r in records]
        with self._writing() as db:
            db.executemany(schema.insert("quality", ignore=True), rows)

    def add_latency(self, records: Iterable[LatencyRecord]) -> None:
        """Add the requests of whole latency blocks, in one transaction."""
        rows = [schema.to_row("latency", r) for r in records]
        with self._writing() as db:
            db.executemany(schema.insert("latency", ignore=True), rows)

    # -- reading records -------------------------------------------------------------------

    def run(self) -> RunRecord:
        """Return the run's record."""
        raw = json.loads(self._db.execute("SELECT value FROM meta WHERE key='run'").fetchone()[0])
        raw["commits"] = tuple(raw["commits"])
        return RunRecord(**raw)

    def cells(self) -> list[CellRecord]:
        """Return every cell, in the order of the plan."""
        rows = self._db.execute("SELECT status, reason, body FROM cells ORDER BY rowid")
        return [
            CellRecord(
                **{**schema.cell_fields(body), "status": CellStatus(status), "reason": reason}
            )
            for status, reason, body in rows
        ]

    def examples(self) -> Iterator[ExampleRecord]:
        """Yield every example with its text."""
        yield from (schema.from_row("examples", row) for row in self._select("examples"))

    def example(self, example_id: str) -> ExampleRecord | None:
        """Return one example, or None."""
        row = self._select("examples", "example_id = ?", (example_id,)).fetchone()
        return None if row is None else schema.from_row("examples", row)

    def quality(self, cell_id: str | None = None) -> Iterator[QualityRecord]:
        """Yield quality records, of one cell or all."""
        yield from (schema.from_row("quality", row) for row in self._of_cell("quality", cell_id))

    def quality_of(self, cell_id: str, example_id: str) -> QualityRecord | None:
        """Return the quality record of one pair, or None."""
        place = "cell_id = ? AND example_id = ?"
        row = self._select("quality", place, (cell_id, example_id)).fetchone()
        return None if row is None else schema.from_row("quality", row)

    def latency(self, cell_id: str | None = None) -> Iterator[LatencyRecord]:
        """Yield latency records, of one cell or all."""
        yield from (schema.from_row("latency", row) for row in self._of_cell("latency", cell_id))

    def done_pairs(self) -> set[tuple[str, str]]:
        """(cell, example) pairs whose quality record is complete."""
        return set(self._db.execute("SELECT cell_id, example_id FROM quality"))

    def done_blocks(self) -> set[tuple[str, int]]:
        """(cell, block) pairs of the latency protocol that are complete."""
        return set(self._db.execute("SELECT DISTINCT cell_id, block FROM latency"))

    def unsupported_reasons(self) -> dict[str, str]:
        """Cells none of whose examples the method supports, with a reason of theirs."""
        rows = self._db.execute(
            "SELECT cell_id, max(receipt_reason) FROM quality GROUP BY cell_id"
            " HAVING sum(status != 'unsupported') = 0"
        )
        return {cell_id: reason or "not supported" for cell_id, reason in rows}

    def kernels(self) -> dict[str, tuple[str, ...]]:
        """Names of the kernels behind each cell's timed requests, where its method names any."""
        found: dict[str, tuple[str, ...]] = {}
        named = "json_extract(receipt, '$.details.kernel')"
        for cell_id, kernel in self._db.execute(
            f"SELECT DISTINCT cell_id, {named} FROM latency WHERE role = 'arm'"
            f" AND {named} IS NOT NULL ORDER BY 1, 2"
        ):
            found[cell_id] = (*found.get(cell_id, ()), str(kernel))
        return found

    def mean_details(self, cell_ids: Sequence[str], *names: str) -> dict[str, float | None]:
        """Means of receipts' details over the quality records of cells; None where none has it."""
        means = ", ".join(f"avg(json_extract(receipt, '$.details.{name}'))" for name in names)
        cells = ", ".join("?" * len(cell_ids))
        query = f"SELECT {means} FROM quality WHERE cell_id IN ({cells})"
        found = self._db.execute(query, tuple(cell_ids)).fetchone()
        return dict(zip(names, found, strict=True))

    # -- reading frames --------------------------------------------------------------------

    def cells_frame(self) -> pd.DataFrame:
        """One row a cell, one column a scalar field."""
        import pandas as pd

        names = [f.name for f in dataclasses.fields(CellRecord) if f.name != "identity"]
        rows = [{n: getattr(cell, n) for n in names} for cell in self.cells()]
        return pd.DataFrame(rows, columns=names)

    def examples_frame(self, *, text: bool = False) -> pd.DataFrame:
        """One row an example; the prompt's text only where asked for."""
        import pandas as pd

        columns = [c for c in schema.COLUMNS["examples"] if text or c != "text"]
        frame = pd.read_sql_query(f"SELECT {', '.join(columns)} FROM examples", self._db)
        if text:
            frame["text"] = [zlib.decompress(blob).decode() for blob in frame["text"]]
        for column in ("references", "facts", "segments"):
            frame[column] = [json.loads(value) if value else None for value in frame[column]]
        return frame

    def quality_frame(self, *, text: bool = False) -> pd.DataFrame:
        """One row a (cell, example) pair, scalars only; the output's text only where asked for."""
        return self._frame("quality", skip=("receipt", "metrics") + (() if text else ("text",)))

    def latency_frame(self) -> pd.DataFrame:
        """One row a timed request, scalars only."""
        return self._frame("latency", skip=("receipt",))

    def _frame(self, table: str, skip: Sequence[str]) -> pd.DataFrame:
        import pandas as pd

        columns = [c for c in schema.COLUMNS[table] if c not in skip]
        query = f"SELECT {', '.join(columns)} FROM {table}"
        # In parts: a million rows of Python objects at once would take gigabytes.
        parts = [
            _typed(part, columns) for part in pd.read_sql_query(query, self._db, chunksize=50_000)
        ]
        return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)

    def _of_cell(self, table: str, cell_id: str | None) -> sqlite3.Cursor:
        if cell_id is None:
            return self._select(table)
        return self._select(table, "cell_id = ?", (cell_id,))

    def _select(self, table: str, where: str = "1", values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        columns = ", ".join(schema.COLUMNS[table])
        return self._db.execute(
            f"SELECT {columns} FROM {table} WHERE {where} ORDER BY rowid", values
        )


def _typed(part: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Give columns that hold nothing but None in this part the dtype of their others."""
    for name, column in zip(part.columns, columns, strict=True):
        if part[name].isna().all():
            part[name] = part[name].astype(float if column in schema.NUMBERS else "str")
    return part
