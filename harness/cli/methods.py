"""``harness methods``: methods and arms with their knobs."""

from __future__ import annotations

import json as json_module
from textwrap import fill
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
    from harness.cli.method_listing import describe_arms, describe_methods

    found = {"methods": describe_methods(), "arms": describe_arms()}
    if json:
        print(json_module.dumps(found, ensure_ascii=False))
        return 0
    for method in found["methods"]:
        ttft = "improves TTFT by design" if method["improves_ttft"] else "no gain in TTFT by design"
        print(f"{method['name']}: {method['description']}")
        print(f"    budget {method['budget_kind']}; {ttft}")
        _line("here", _here(method))
        _line("needs", ", ".join(method["needs"]))
        _line("knobs", ", ".join(f"{k}={v}" for k, v in method["options"].items()))
        _line("arms", ", ".join(method["arms"]))
    print("\nArms (baselines/*.yaml):")
    width = max(len(arm["name"]) for arm in found["arms"])
    for arm in found["arms"]:
        note = "" if arm["available"] else f" [{_here(arm)}]"
        print(f"    {arm['name']:<{width}}  {arm['description']}{note}")
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
