"""``harness methods``: methods and arms with their knobs."""

from __future__ import annotations

import json as json_module
from textwrap import fill
from typing import Annotated, Any

import typer

from harness.schema.outside import BUILT_IN

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Example:  harness methods my_package.my_module:MyMethod my-arm.yaml")
def methods(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Only these: methods, arms, package.module:Class, arm files."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, nothing else.")
    ] = False,
) -> int:
    """List methods and arms: where they come from, knobs, needs, and whether those are here."""
    from harness.cli.method_listing import describe

    found = describe(names or [])
    if json:
        print(json_module.dumps(found, ensure_ascii=False))
        return 0
    for method in found["methods"]:
        ttft = "improves TTFT by design" if method["improves_ttft"] else "no gain in TTFT by design"
        print(f"{method['name']}: {method['description']}")
        print(f"    budget {method['budget_kind']}; {ttft}")
        _line("from", method["from"])
        _line("here", _here(method))
        _line("needs", ", ".join(method["needs"]))
        _line("knobs", ", ".join(f"{k}={v}" for k, v in method["options"].items()))
        _line("arms", ", ".join(method["arms"]))
    if found["arms"]:
        print("\nArms (baselines/*.yaml, and files of your own):")
    width = max((len(arm["name"]) for arm in found["arms"]), default=0)
    for arm in found["arms"]:
        note = "" if arm["available"] else f" [{_here(arm)}]"
        note += "" if arm["from"] == BUILT_IN else f" ({arm['from']})"
        print(f"    {arm['name']:<{width}}  {arm['description']}{note}")
    for one in found["broken"]:
        print(f"\nBroken: {one['reason']}")
    return 0


def _here(entry: dict[str, Any]) -> str:
    return "yes" if entry["available"] else f"no: {entry['reason']}"


def _line(name: str, text: str) -> None:
    """Print one fact, wrapped under its name."""
    if text:
        indent = " " * 4
        print(
            fill(
                f"{name}: {text}",
                100,
                initial_indent=indent,
                subsequent_indent=indent * 2,
                break_on_hyphens=False,
            )
        )
