"""``harness sweep``: a file of many cells."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    epilog="Example:  harness sweep quick --dry-run    or    harness sweep my-sweep.yaml --out D"
)
def sweep(  # noqa: PLR0917  (Typer passes options by name)
    file: Annotated[str, typer.Argument(help="A YAML file, or the name of a preset sweep.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cells and their cost, start nothing.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override an arm's option, as specprefill.chunk=64."),
    ] = None,
    engine_args: Annotated[
        str | None, typer.Option(help="Arguments of the target's vLLM, in place of the file's.")
    ] = None,
    speculator_args: Annotated[
        str | None, typer.Option(help="The same for the speculator's vLLM.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; an existing run there is resumed.")
    ] = None,
    allow_mixed_code: Annotated[
        bool, typer.Option("--allow-mixed-code", help="Resume a run written by other code.")
    ] = False,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop at the first failed cell.")
    ] = False,
    executor: Annotated[
        str, typer.Option(help="Where cells run: local, or ray (docs/scale.md).")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Ray cluster's head.  [default: one that is found, or started here]"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Ray workers.  [default: as many as there is room for]"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")] = (
        False
    ),
) -> int:
    """Run tasks × arms × keep rates × look-aheads × seeds × lengths from a file.

    One speculator pass per example serves every keep rate and every smaller look-ahead. A failed
    cell is recorded and the sweep goes on; the exit code then says so, and a resume tries only
    the failed cells.
    """
    from harness.api.options import make_overrides, with_arguments
    from harness.cli.shared import run_and_report
    from harness.run.sweeps import load_sweep, print_dry_run

    config = with_arguments(load_sweep(file), "harness sweep", engine_args, speculator_args)
    overrides = make_overrides(set_)
    if dry_run:
        print_dry_run(config, overrides, json_output=json)
        return 0
    return run_and_report(
        config,
        overrides,
        out=out,
        allow_mixed_code=allow_mixed_code,
        fail_fast=fail_fast,
        executor=executor,
        address=address,
        workers=workers,
        json_output=json,
    )
