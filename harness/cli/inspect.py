"""``harness inspect``: look at what a method keeps."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    epilog="Example:  harness inspect --task ruler_niah_single_2 --keep 0.1 --preset smollm2"
)
def inspect(  # noqa: PLR0917  (Typer passes options by name)
    task: Annotated[str, typer.Option(help="Task, lm-eval task or YAML path.")] = (
        "ruler_niah_single_2"
    ),
    data: Annotated[Path | None, typer.Option(help="JSONL of your own instead of a task.")] = None,
    index: Annotated[int, typer.Option(min=0, help="Which example.")] = 0,
    keep: Annotated[float, typer.Option(help="Keep rate in (0, 1].")] = 0.1,
    method: Annotated[str, typer.Option(help="Method or arm.")] = "specprefill",
    look_ahead: Annotated[int, typer.Option(help="Query rows of the speculator.")] = 8,
    length: Annotated[int, typer.Option(help="Prompt length in tokens.")] = 2048,
    seed: Annotated[int, typer.Option(help="Data seed.")] = 0,
    preset: Annotated[str | None, typer.Option(help="Pair of models by name.")] = None,
    target: Annotated[str | None, typer.Option(help="Target model.")] = None,
    speculator: Annotated[str | None, typer.Option(help="Speculator model.")] = None,
    engine: Annotated[str, typer.Option(help="vllm, hf or fake.")] = "vllm",
    dtype: Annotated[str, typer.Option(help="bfloat16, float16 or float32.")] = "bfloat16",
    engine_args: Annotated[
        str | None, typer.Option(help="Arguments of the target's vLLM, which is not started.")
    ] = None,
    speculator_args: Annotated[
        str | None, typer.Option(help="Arguments of the speculator's vLLM, as max_num_seqs=4.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override an option of the arm.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")] = (
        False
    ),
) -> int:
    """Show one prompt with what the method kept (bright) and dropped (dim), and the receipt."""
    from harness.api.inspecting import inspect as inspect_prompts
    from harness.cli.shared import result_stream

    with result_stream() as stream:
        found = inspect_prompts(
            task,
            keep,
            method,
            index=index,
            look_ahead=look_ahead,
            length=length,
            seed=seed,
            preset=preset,
            target=target,
            speculator=speculator,
            data=data,
            engine=engine,
            dtype=dtype,
            engine_args=engine_args,
            speculator_args=speculator_args,
            set_=set_,
        )
        if json:
            rows = [inspection.to_json() for inspection in found]
            print(json_module.dumps({"inspections": rows}, ensure_ascii=False), file=stream)
            return 0
        from rich.console import Console
        from rich.text import Text

        console = Console(file=stream, highlight=False)
        for inspection in found:
            text = Text()
            for piece, is_kept in inspection.pieces():
                text.append(piece, style="bold" if is_kept else "dim")
            console.print(text, markup=False)
            receipt = inspection.prepared.receipt
            kept, whole = len(inspection.prepared.token_ids), len(inspection.prompt.token_ids)
            console.print(
                f"\n{inspection.arm}: {receipt.status}"
                + (f" ({receipt.reason})" if receipt.reason else "")
                + f", requested {receipt.keep_requested}, achieved {receipt.keep_achieved}, "
                f"{kept} of {whole} tokens",
                markup=False,
            )
    return 0
