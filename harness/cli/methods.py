"""``harness methods``: methods and arms with their knobs."""

from __future__ import annotations

import json as json_module
from typing import Annotated, Any

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Example:  harness methods --json")
def methods(
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, nothing else.")
    ] = False,
) -> int:
    """List methods and arms: knobs, what each needs, whether it is here, and its effect on TTFT."""
    from harness.methods.listing import describe_arms, describe_methods

    found = {"methods": describe_methods(), "arms": describe_arms()}
    if json:
        print(json_module.dumps(found, ensure_ascii=False))
        return 0
    _table(
        "Methods",
        ("method", "budget", "TTFT by design", "needs", "here", "knobs"),
        [
            (
                method["name"],
                method["budget_kind"],
                "better" if method["improves_ttft"] else "not better",
                ", ".join(method["needs"]) or "—",
                "yes" if method["available"] else f"no: {method['reason']}",
                ", ".join(f"{k}={v}" for k, v in method["options"].items()) or "—",
            )
            for method in found["methods"]
        ],
    )
    _table(
        "Arms (baselines/*.yaml)",
        ("arm", "method", "here", "description"),
        [
            (
                arm["name"],
                arm["method"],
                "yes" if arm["available"] else f"no: {arm['reason']}",
                arm["description"],
            )
            for arm in found["arms"]
        ],
    )
    return 0


def _table(title: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row))
    Console().print(table)
