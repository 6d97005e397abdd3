"""``harness report``: the door."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_EPILOG = "Example:  harness report results/runs/NAME --format html --out report.html"


@app.command(epilog=_EPILOG)
def report(
    runs: Annotated[
        list[str], typer.Argument(help="Runs: path, name, or the start of a name.", metavar="RUN")
    ],
    format_: Annotated[str, typer.Option("--format", help="md, html, json or csv.")] = "md",
    out: Annotated[
        Path | None,
        typer.Option(help="File to write.  [default: standard output; HTML: RUN/report.html]"),
    ] = None,
    compare: Annotated[
        str | None, typer.Option(help="Put published figures beside the run's: paper.")
    ] = None,
    interval: Annotated[
        str,
        typer.Option(
            help="Intervals of scores and differences: jackknife, or bca (bootstrap, for display)."
        ),
    ] = "jackknife",
) -> int:
    """Render runs from their stores alone: no model, no network.

    Markdown is for a pull request; HTML is one self-contained file with figures and samples; JSON
    is what harness run --json prints; CSV is the summary's rows. Records: see harness export.
    """
    from harness.report.render import render, write_text

    text = render(runs, format_, compare, interval)
    if out is None and format_ == "html":
        from harness.run.runs import find_run

        out = find_run(runs[0]) / "report.html"
    if out is None:
        sys.stdout.write(text)
        return 0
    write_text(out, text)
    print(f"wrote {out}", file=sys.stderr)
    return 0
