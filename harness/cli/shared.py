"""What verbs share: run a configuration and print its table, keep standard output clean."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from harness.errors import ExitCode

if TYPE_CHECKING:
    from harness.api.result import Run
    from harness.run.config import RunConfig
    from harness.run.plan import Plan


def run_and_report(
    config: RunConfig,
    overrides: Mapping[str, Mapping[str, Any]],
    *,
    out: Path | None,
    allow_mixed_code: bool,
    fail_fast: bool,
    executor: str,
    address: str | None,
    workers: int | None,
    json_output: bool,
) -> int:
    """Plan, run or resume, and print the summary; return the exit code.

    Standard output carries the table, or with ``json_output`` one JSON object and nothing else:
    whatever libraries or child processes print goes to standard error.
    """
    from harness.api.running import run_config

    def announce(plan: Plan) -> None:
        for line in (plan.models.note, *plan.notices):
            if line:
                print(f"harness: {line}", file=sys.stderr)

    with result_stream() as result:
        run = run_config(
            config,
            overrides,
            out=out,
            allow_mixed_code=allow_mixed_code,
            fail_fast=fail_fast,
            executor=executor,
            address=address,
            workers=workers,
            announce=announce,
        )
        if json_output:
            print(run.summary.dumps(), file=result)
        else:
            _print_table(run, result)
    if run.failed:
        first = next(iter(run.failed.values()))
        print(
            f"harness: {len(run.failed)} of {run.cell_count} cells failed, the first with: "
            f"{first}; `harness runs show` lists them, running the command again with this --out "
            "retries",
            file=sys.stderr,
        )
        return int(ExitCode.USAGE)
    return int(ExitCode.PASS)


def _print_table(run: Run, stream: TextIO) -> None:
    from rich.console import Console

    from harness.report.terminal import render_table

    console = Console(file=stream, width=None if stream.isatty() else 140)
    note = run.record.models.get("note")
    if note:
        console.print(f"Note: {note}.", markup=False, highlight=False)
    render_table(run.summary, console)
    console.print(f"Run written to {run.path}", markup=False, highlight=False)


@contextmanager
def result_stream() -> Iterator[TextIO]:
    """Point file descriptor 1 at standard error; hand out the real standard output.

    Standard output then carries the result alone, whatever libraries and child processes print.
    """
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(saved), "w", encoding="utf-8", errors="replace") as stream:
            yield stream
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)


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
