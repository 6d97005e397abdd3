"""What the ``run`` and ``sweep`` verbs share: parse lists, run a plan, show its summary."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from harness.errors import ConfigError, ExitCode
from harness.run.config import RunConfig

if TYPE_CHECKING:
    from harness.run.plan import Plan

Number = TypeVar("Number", int, float)


def words(option: str, text: str) -> list[str]:
    """Split ``a,b`` into its parts.

    Raises
    ------
    ConfigError
        A part is empty.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise ConfigError(f"{option} {text!r}: an empty name; write names with commas between")
    return parts


def numbers(option: str, text: str, kind: Callable[[str], Number]) -> list[Number]:
    """Split ``0.1,0.3`` into numbers.

    Raises
    ------
    ConfigError
        A part is no number of that kind.
    """
    found = []
    for part in words(option, text):
        try:
            found.append(kind(part))
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise ConfigError(f"{option} {part!r} is not {what}") from None
    return found


def run_and_report(
    config: RunConfig,
    overrides: Mapping[str, Mapping[str, Any]],
    *,
    out: Path | None,
    allow_mixed_code: bool,
    fail_fast: bool,
    json_output: bool,
) -> int:
    """Plan, run or resume, and print the summary; return the exit code.

    Standard output carries the table, or with ``json_output`` one JSON object and nothing else:
    whatever libraries or child processes print goes to standard error.
    """
    with result_stream() as result:
        from harness.run.plan import build_plan

        plan = build_plan(config, overrides)
        _announce(plan)
        from harness.analysis.summary import summarize
        from harness.run.folder import open_run
        from harness.run.runner import execute

        with open_run(plan, out, allow_mixed_code=allow_mixed_code) as store:
            outcome = execute(plan, store, fail_fast=fail_fast)
            summary = summarize(store).to_json()
        if json_output:
            print(json.dumps(summary, ensure_ascii=False, allow_nan=False), file=result)
        else:
            _print_table(summary, plan, result)
    if outcome.failed:
        failed = len(outcome.failed)
        first = next(iter(outcome.failed.values()))
        print(
            f"harness: {failed} of {len(plan.cells)} cells failed, the first with: {first}; "
            "`harness runs show` lists them, running the command again with this --out retries",
            file=sys.stderr,
        )
        return int(ExitCode.USAGE)
    return int(ExitCode.PASS)


def _announce(plan: Plan) -> None:
    for line in (plan.models.note, *plan.notices):
        if line:
            print(f"harness: {line}", file=sys.stderr)


def _print_table(summary: Mapping[str, Any], plan: Plan, stream: TextIO) -> None:
    from rich.console import Console

    from harness.report.terminal import render_table

    console = Console(file=stream, width=None if stream.isatty() else 140)
    if plan.models.note:
        console.print(f"Note: {plan.models.note}.", markup=False, highlight=False)
    render_table(summary, console)
    console.print(f"Run written to {summary['path']}", markup=False, highlight=False)


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
