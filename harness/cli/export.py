"""``harness export``: the door."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Example:  harness export NAME --format lm-eval --out exported")
def export(
    run: Annotated[str, typer.Argument(help="Path, name, or the start of a name.", metavar="RUN")],
    out: Annotated[Path, typer.Option(help="New folder to write into.")],
    format_: Annotated[str, typer.Option("--format", help="lm-eval, parquet or csv.")] = "lm-eval",
) -> int:
    """Write a run's records in the format of another tool.

    lm-eval gives its results and samples files, a folder an arm; Parquet and CSV give the tables
    of cells, examples, quality and latency. For the summary's rows see harness report.
    """
    from harness.report.exports import export as write

    files = write(run, format_, out)
    print(f"wrote {len(files)} files under {out}", file=sys.stderr)
    return 0
