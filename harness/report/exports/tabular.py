"""Parquet and CSV: the store's four tables, one file each.

Parquet keeps every text exactly. CSV is for spreadsheets: text that one would run as a formula is
quoted by an apostrophe (:func:`harness.report.tables.cell`). Nested values are JSON in both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.report.tables import cell as safe_cell
from harness.run.store import Store

if TYPE_CHECKING:
    import pandas as pd

NESTED = ("options", "references", "facts", "segments")


def write_parquet(store: Store, folder: Path) -> None:
    """Write ``cells``, ``examples``, ``quality`` and ``latency`` as Parquet."""
    for name, frame in _tables(store):
        frame.to_parquet(folder / f"{name}.parquet", index=False)


def write_csv(store: Store, folder: Path) -> None:
    """Write the same tables as CSV: UTF-8, missing values empty."""
    for name, frame in _tables(store):
        for column in frame.columns[[_is_text(frame[c]) for c in frame.columns]]:
            frame[column] = frame[column].map(safe_cell, na_action="ignore")
        frame.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")


def _tables(store: Store) -> Iterator[tuple[str, pd.DataFrame]]:
    read: dict[str, Callable[[], pd.DataFrame]] = {
        "cells": store.cells_frame,
        "examples": lambda: store.examples_frame(text=True),
        "quality": lambda: store.quality_frame(text=True),
        "latency": store.latency_frame,
    }
    for name, frame in read.items():
        yield name, _flat(frame())


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    for column in frame.columns.intersection(list(NESTED)):
        frame[column] = [_json(value) for value in frame[column]]
    if "status" in frame:
        frame["status"] = frame["status"].map(str)
    return frame


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _is_text(column: pd.Series) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_string_dtype(column) or pd.api.types.is_object_dtype(column))
