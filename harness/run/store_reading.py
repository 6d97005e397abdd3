"""Reading a results store: records, frames, and what of a run is done."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from harness.run import store_schema as schema
from harness.schema.receipts import PROOFS
from harness.schema.records import (
    CellRecord,
    CellStatus,
    ExampleRecord,
    LatencyRecord,
    QualityRecord,
    RunRecord,
)

if TYPE_CHECKING:
    import pandas as pd


class StoreReading:
    """What every open store can be asked; a context manager.

    Attributes
    ----------
    folder
        The run's folder.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._db = connection

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

    # -- records ---------------------------------------------------------------------------

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

    def content_digests(self) -> dict[str, str]:
        """Digest of each example's content, by its id."""
        return dict(self._db.execute("SELECT example_id, content_digest FROM examples"))

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

    def proofs(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Hooks' counters in the quality records' receipts: cell → counter → counts.

        Returns
        -------
        dict
            For each of :data:`harness.schema.receipts.PROOFS` (due, proven, there): requests that
            needed the counter, those of them that have it, and all that have it.
        """
        parts = []
        for name in PROOFS:
            due = f"coalesce(json_extract(receipt, '$.details.proof') LIKE '%{name}%', 0)"
            there = f"coalesce(json_extract(receipt, '$.counters.{name}') > 0, 0)"
            parts += [f"sum({due})", f"sum({due} AND {there})", f"sum({there})"]
        rows = self._db.execute(f"SELECT cell_id, {', '.join(parts)} FROM quality GROUP BY cell_id")
        return {
            cell_id: {name: tuple(counts[3 * i : 3 * i + 3]) for i, name in enumerate(PROOFS)}
            for cell_id, *counts in rows
        }

    def timed_places(self) -> list[dict[str, Any]]:
        """Where timed requests ran, each place once: empty for a local run's (``ran_on``)."""
        found = self._db.execute(
            "SELECT DISTINCT json_extract(receipt, '$.details.ran_on') FROM latency"
        )
        return [{} if place is None else json.loads(place) for (place,) in found]

    def work_done(self) -> list[dict[str, Any]]:
        """What each node did, as its records say: ``node, device, machine, quality, latency``.

        Records of a local run name no node: the run's own machine made them.
        """
        found: dict[str | None, dict[str, Any]] = {}
        where = "json_extract(receipt, '$.details.ran_on')"
        for table in ("quality", "latency"):
            for place, count in self._db.execute(
                f"SELECT {where}, count(*) FROM {table} GROUP BY 1"
            ):
                row = found.setdefault(place, {**(json.loads(place) if place else {})})
                row[table] = count
        return [{"quality": 0, "latency": 0, **row} for row in found.values()]

    def mean_details(self, cell_ids: Sequence[str], *names: str) -> dict[str, float | None]:
        """Means of receipts' details over the quality records of cells; None where none has it."""
        means = ", ".join(f"avg(json_extract(receipt, '$.details.{name}'))" for name in names)
        cells = ", ".join("?" * len(cell_ids))
        query = f"SELECT {means} FROM quality WHERE cell_id IN ({cells})"
        found = self._db.execute(query, tuple(cell_ids)).fetchone()
        return dict(zip(names, found, strict=True))

    # -- frames ----------------------------------------------------------------------------

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
