"""Plain tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None
) -> None:
    """Print rows; cells are shown as they are, never read as mark-up."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for rank, name in enumerate(columns):
        table.add_column(name, no_wrap=rank == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row))
    Console().print(table)
