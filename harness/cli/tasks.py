"""``harness tasks``: every task, and whether its data are here."""

from __future__ import annotations

import json as json_module
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Example:  harness tasks --json")
def tasks(
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, nothing else.")
    ] = False,
) -> int:
    """List tasks: group, category, metric, the data each needs, and whether they are here.

    lm-eval's own tasks are not listed; harness run --task takes their names too, and a path to
    a task's YAML.
    """
    from harness.tasks.catalogue import list_tasks

    found = list_tasks()
    if json:
        print(json_module.dumps({"tasks": [task.to_json() for task in found]}, ensure_ascii=False))
        return 0
    from harness.cli.shared import print_table

    print_table(
        ("task", "group", "category", "metric", "needs", "ready"),
        [
            (
                task.name,
                task.group,
                task.category,
                task.metric,
                ", ".join(task.needs) or "—",
                "yes" if task.ready else "no",
            )
            for task in found
        ],
    )
    return 0
