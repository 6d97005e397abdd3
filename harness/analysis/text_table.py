"""Aligned plain text for terminals and logs."""

from __future__ import annotations

import io
from collections.abc import Sequence


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a head line and a line a row, columns aligned, nothing cut or wrapped.

    Cells are shown as they are, never read as mark-up.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    lines = [tuple(head), *map(tuple, rows)]
    for _ in head:
        table.add_column(no_wrap=True)
    for line in lines:
        table.add_row(*(Text(" ".join(cell.split())) for cell in line))
    width = sum(max(cell_len(line[i]) for line in lines) + 2 for i in range(len(head)))
    console = Console(file=io.StringIO(), width=width + 2, color_system=None)
    with console.capture() as shown:
        console.print(table)
    return [line.rstrip() for line in shown.get().splitlines()]
