"""``harness gate``: compare a run with a committed baseline, or write the baseline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup


class _RunOrUpdate(TyperGroup):
    """Let ``harness gate RUN`` stand for ``harness gate check RUN``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.commands, "--help"}:
            args = ["check", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunOrUpdate,
    help="Compare a run with a committed baseline: harness gate RUN --baseline FILE.",
    epilog="Example: harness gate results/runs/R --baseline results/gate/cpu-x86_64-2/ruler.json",
    add_completion=False,
    rich_markup_mode=None,
)

Run = Annotated[str, typer.Argument(help="Folder or name of the run under test.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command(epilog="Example: harness gate RUN --baseline FILE --baseline-ref origin/main --github")
def check(  # noqa: PLR0917  (Typer passes options by name)
    run: Run,
    baseline: Annotated[Path, typer.Option(help="Baseline file.")],
    baseline_ref: Annotated[
        str | None,
        typer.Option(help="Read the baseline at this git ref: the change cannot edit it."),
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Tolerated loss (default: the baseline's own).")
    ] = None,
    ttft_margin: Annotated[
        float, typer.Option(help="Tolerated slow-down relative to full prefill.")
    ] = 0.1,
    ttft: Annotated[bool, typer.Option(help="Gate TTFT too.")] = True,
    any_machine: Annotated[
        bool, typer.Option("--any-machine", help="Compare scores across machine classes.")
    ] = False,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Write annotations and the step summary.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Judge every arm against the baseline (the default of harness gate).

    Exit codes: 0 pass, 1 regression, 2 bad input, 3 inconclusive, 4 not comparable.
    """
    from harness.analysis.gate import github as actions
    from harness.analysis.gate.junit import write_junit
    from harness.analysis.gate.render import as_text
    from harness.api.result import load

    report = load(run).gate(
        baseline,
        baseline_ref=baseline_ref,
        margin=margin,
        ttft_margin=ttft_margin,
        ttft=ttft,
        any_machine=any_machine,
    )
    if junit is not None:
        write_junit(report, junit)
    if github:
        for line in actions.workflow_commands(report):
            typer.echo(line, err=as_json)
        actions.write_summary(report)
    if as_json:
        typer.echo(json.dumps(report.to_json(), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(as_text(report))
    raise typer.Exit(report.exit_code)


@app.command(epilog="Example: harness gate update RUN --baseline results/gate/CLASS/ruler.json")
def update(
    run: Run,
    baseline: Annotated[Path, typer.Option(help="Baseline file to write.")],
    margin: Annotated[
        float | None, typer.Option(help="Margin to record (default: see docs/gate.md).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Take a run as the baseline; prints what changes and the smallest resolvable margin."""
    from harness.analysis.gate.collect import collect
    from harness.analysis.gate.report import GateOptions
    from harness.analysis.gate.update import change_to_json, describe, update_baseline
    from harness.run.runs import find_run
    from harness.run.store import Store

    GateOptions(margin)  # refuses a margin that is none
    with Store.open(find_run(run)) as store:
        changes = update_baseline(collect(store), baseline, margin)
    if as_json:
        cells = [change_to_json(change) for change in changes]
        typer.echo(json.dumps({"baseline": str(baseline), "cells": cells}, ensure_ascii=False))
        return
    for change in changes:
        typer.echo(describe(change))
    typer.echo(f"baseline: {baseline}")
