"""``harness tasks``: every task, and whether its data are here."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from harness.schema.outside import BUILT_IN

if TYPE_CHECKING:
    from harness.tasks.info import TaskInfo

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Example:  harness tasks ./my-tasks")
def tasks(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Only these: tasks, groups, lm-eval tasks, YAML files, folders."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, nothing else.")
    ] = False,
) -> int:
    """List tasks: group, category, metric, origin, the data each needs, and whether they are here.

    lm-eval's own tasks are not listed unless they are named; harness run --task takes whatever
    can be named here.
    """
    from harness.tasks.catalogue import all_tasks, resolve

    found, broken = (resolve(names), []) if names else all_tasks()
    if json:
        rows = {
            "tasks": [task.to_json() for task in found],
            "broken": [one.to_json() for one in broken],
        }
        print(json_module.dumps(rows, ensure_ascii=False))
        return 0
    from harness.cli.shared import print_table

    columns: dict[str, Callable[[TaskInfo], str]] = {
        "task": lambda task: task.name,
        "group": lambda task: task.group,
        "category": lambda task: task.category,
        "metric": lambda task: task.metric,
        "needs": lambda task: ", ".join(task.needs) or "—",
        "ready": lambda task: "yes" if task.ready else "no",
    }
    if any(task.origin != BUILT_IN for task in found):
        columns["from"] = lambda task: task.origin
    print_table(list(columns), [[show(task) for show in columns.values()] for task in found])
    for one in broken:
        print(f"Broken: {one.reason}")
    return 0
