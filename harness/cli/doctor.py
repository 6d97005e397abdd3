"""``harness doctor``: say whether this machine is ready."""

from __future__ import annotations

import json as json_module
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)

MARKS = {"ok": "✓", "warn": "!", "missing": "✗"}


@app.command(epilog="Example:  harness doctor --json")
def doctor(
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, nothing else.")
    ] = False,
) -> int:
    """Say what this machine has, what is missing, and the command that mends it.

    Exits 0 where a run can start, 2 where something it needs is missing.
    """
    from harness.cli.doctor_checks import examine, to_json

    findings = examine()
    if json:
        print(json_module.dumps(to_json(findings), ensure_ascii=False))
    else:
        for finding in findings:
            print(f"{MARKS[finding.level]} {finding.what}: {finding.text}")
            if finding.mend:
                print(f"    → {finding.mend}")
    return 0 if to_json(findings)["ok"] else 2
