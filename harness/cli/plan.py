"""``harness plan``: how many examples a margin needs, and what margin a number resolves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Example: harness plan results/runs/R --margin 0.02 --n 200")
def plan(  # noqa: PLR0917  (Typer passes options by name)
    run: Annotated[str | None, typer.Argument(help="Pilot: folder or name of a run.")] = None,
    margin: Annotated[float, typer.Option(help="Loss to resolve.")] = 0.02,
    n: Annotated[int | None, typer.Option(help="Examples at hand (default: the pilot's).")] = None,
    power: Annotated[float, typer.Option(help="Chance of a conclusion.")] = 0.8,
    true_loss: Annotated[
        float, typer.Option(help="Loss that is there in truth and may be: below the margin.")
    ] = 0.0,
    baseline: Annotated[
        Path | None, typer.Option(help="Plan the gate: differences of RUN to this baseline.")
    ] = None,
    sd: Annotated[
        float | None, typer.Option(help="Without a pilot: spread of one difference.")
    ] = None,
    cluster_size: Annotated[float, typer.Option(help="With --sd: examples per context.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say how many examples a margin needs, from a pilot's variance."""
    from harness.analysis.gate.baseline import load_baseline
    from harness.analysis.gate.collect import collect
    from harness.analysis.power import (
        Aim,
        as_text,
        pilots_of_baseline,
        pilots_of_run,
        plan_from_spread,
        plan_rows,
    )
    from harness.errors import ConfigError
    from harness.run.runs import find_run
    from harness.run.store import Store

    aim = Aim(margin, n, power, true_loss)
    if (run is None) == (sd is None):
        raise ConfigError("give a pilot RUN or --sd, one of them; see harness plan --help")
    if run is None:
        rows = [plan_from_spread(sd or 0.0, cluster_size, aim)]
    else:
        with Store.open(find_run(run)) as store:
            pilots = (
                pilots_of_run(store)
                if baseline is None
                else pilots_of_baseline(collect(store), load_baseline(baseline))
            )
        rows = plan_rows(pilots, aim)
    if as_json:
        facts = {
            "margin": aim.margin,
            "power": aim.power,
            "true_loss": aim.true_loss,
            "rows": [r.to_json() for r in rows],
        }
        typer.echo(json.dumps(facts, ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(as_text(rows, aim))
