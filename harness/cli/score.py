"""``harness score``: score predictions that were made elsewhere."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Example:  harness score predictions.jsonl --json")
def score(
    file: Annotated[Path, typer.Argument(help="JSONL with one prediction a row.")],
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, nothing else.")
    ] = False,
) -> int:
    """Score rows of {"task" (or "suite" and "dataset"), "prediction", "answers", "all_classes"}."""
    from harness.analysis.predictions import score_file

    found = score_file(file)
    if json:
        print(json_module.dumps(found, ensure_ascii=False))
        return 0
    from harness.cli.shared import print_table

    print_table(
        ("task", "n", "mean", "95 % interval"),
        [
            (name, t["n"], f"{t['mean']:.4f}", _interval(t["low"], t["high"], t.get("reason")))
            for name, t in found["tasks"].items()
        ],
    )
    return 0


def _interval(low: float | None, high: float | None, reason: str | None) -> str:
    return f"—  ({reason})" if low is None or high is None else f"{low:.4f} to {high:.4f}"
