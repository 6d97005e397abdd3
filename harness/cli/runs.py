"""``harness runs``: what was run here."""

from __future__ import annotations

import json as json_module
from typing import Annotated, Any

import typer

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="List, show, compare and remove runs.",
    epilog="Example:  harness runs show 20260102-030405-ruler-1a2b3c4d --json",
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")]


def _table(columns: list[str], rows: list[dict[str, Any]]) -> None:
    from harness.cli.shared import print_table

    cells = [[row.get(column) for column in columns] for row in rows]
    print_table(columns, [["—" if value is None else value for value in line] for line in cells])


@app.command("list", epilog="Example:  harness runs list")
def list_(json: Json = False) -> int:
    """List the runs under results/runs, oldest first."""
    from harness.run.runs import list_runs

    rows = list_runs()
    if json:
        print(json_module.dumps({"runs": rows}, ensure_ascii=False))
    elif not rows:
        print("No runs under results/runs yet: harness run --task ruler --keep 0.1")
    else:
        _table(["run", "created", "tasks", "arms", "records", "cells", "error"], rows)
    return 0


@app.command(epilog="Example:  harness runs show RUN --json")
def show(
    run: Annotated[str, typer.Argument(help="Path, name, or the start of a name.")],
    json: Json = False,
) -> int:
    """Show a run's provenance and cells, with the reason of each that failed."""
    from harness.run.runs import describe_run, find_run

    facts = describe_run(find_run(run))
    if json:
        print(json_module.dumps(facts, ensure_ascii=False))
        return 0
    for key in ("run_id", "path", "created", "command", "commits", "machine", "software", "models"):
        print(f"{key}: {facts[key]}")
    columns = ["task", "length", "seed", "arm", "status", "quality_records", "latency_blocks"]
    _table([*columns, "reason"], facts["cells"])
    return 0


@app.command(epilog="Example:  harness runs diff RUN1 RUN2")
def diff(
    first: Annotated[str, typer.Argument(help="A run.")],
    second: Annotated[str, typer.Argument(help="Another run.")],
    json: Json = False,
) -> int:
    """Compare two runs' configurations, and their scores on shared examples."""
    from harness.run.runs import diff_runs, find_run

    facts = diff_runs(find_run(first), find_run(second))
    if json:
        print(json_module.dumps(facts, ensure_ascii=False))
        return 0
    for key, (old, new) in facts["config"].items():
        print(f"{key}: {old} → {new}")
    _table(["task", "length", "seed", "arm", "n", "first", "second", "delta"], facts["cells"])
    return 0


@app.command(epilog="Example:  harness runs rm RUN --yes")
def rm(
    run: Annotated[str, typer.Argument(help="Path, name, or the start of a name.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> int:
    """Remove a run's folder."""
    from harness.run.runs import find_run, remove_run

    folder = find_run(run)
    if not yes:
        typer.confirm(f"Remove {folder}?", abort=True)
    remove_run(folder)
    print(f"Removed {folder}")
    return 0
