"""``harness calibrate``: choose a keep rate; judged on held-out examples only."""

from __future__ import annotations

import json
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Example: harness calibrate results/runs/R --margin 0.05")
def calibrate(  # noqa: PLR0917  (Typer passes options by name)
    run: Annotated[str, typer.Argument(help="Folder or name of a run with several keep rates.")],
    margin: Annotated[
        float | None, typer.Option(help="Tolerated loss against full prefill.")
    ] = None,
    speed_up: Annotated[
        float | None, typer.Option(help="TTFT of full prefill over the arm's, at least.")
    ] = None,
    ttft_target: Annotated[
        float | None, typer.Option(help="TTFT of the arm in seconds, at most.")
    ] = None,
    arm: Annotated[
        str | None, typer.Option(help="Arm without its keep rate, as specprefill-lah8.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Tasks to use, comma-separated.")] = None,
    length: Annotated[int | None, typer.Option(help="Prompt length to use.")] = None,
    every_task: Annotated[
        bool, typer.Option("--every-task", help="Each task must keep the margin.")
    ] = False,
    split_seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Choose a keep rate on half of the contexts, and report it on the other half only.

    Keep rates are tested from high to low, each at 5 %, up to the first failure. For a TTFT
    target alone they are tested from low to high. A failure on the held-out half is reported,
    never retuned. Exit codes: 0 confirmed, 1 a loss above the margin is shown, 3 not confirmed.
    """
    from harness.analysis.calibrate.choose import Goal
    from harness.analysis.calibrate.choose import calibrate as choose
    from harness.analysis.calibrate.keep_rates import read_keep_rates
    from harness.analysis.calibrate.render import as_text, to_json
    from harness.run.runs import find_run
    from harness.run.store import Store

    goal = Goal(margin, speed_up, ttft_target, every_task, split_seed)
    tasks = None if task is None else task.split(",")
    with Store.open(find_run(run)) as store:
        found = choose(read_keep_rates(store, arm, tasks, length), goal)
    if as_json:
        typer.echo(json.dumps(to_json(found), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(as_text(found))
    raise typer.Exit(int(found.exit_code))
