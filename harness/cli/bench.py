"""``harness bench``: time the method against its physical bound."""

from __future__ import annotations

import json as json_module
import sys
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Time the method against its physical bound."""


@app.command(
    epilog="Example:  harness bench ttft --target-config llama-3.2-1b --load dummy "
    "--length 4096 --keep 0.1 --look-ahead 1,8"
)
def ttft(  # noqa: PLR0917  (Typer passes options by name)
    target_config: Annotated[
        str | None, typer.Option(help="Shape of the target, filled with dummy weights.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Folder of the target instead.")] = None,
    speculator: Annotated[
        str | None, typer.Option(help="Folder of the speculator; the embedded model if left out.")
    ] = None,
    load: Annotated[str, typer.Option(help="How weights are loaded: auto or dummy.")] = "auto",
    length: Annotated[int, typer.Option(help="Prompt length in tokens.")] = 4096,
    keep: Annotated[float, typer.Option(help="Share of the prompt's chunks to keep.")] = 0.1,
    look_ahead: Annotated[
        str, typer.Option(help="Query rows; several as 1,8. No look-ahead is 1.")
    ] = "8",
    rounds: Annotated[int, typer.Option(help="Interleaved rounds after one of warm-up.")] = 5,
    dtype: Annotated[str, typer.Option(help="bfloat16, float16 or float32.")] = "bfloat16",
    engine_args: Annotated[
        str, typer.Option(help="Arguments of the target's vLLM, as tensor_parallel=2.")
    ] = "",
    speculator_args: Annotated[str, typer.Option(help="The same for the speculator's vLLM.")] = "",
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, nothing else.")
    ] = False,
) -> None:
    """Time full prefill, scorer and sparse prefill in one interleaved run.

    Prints the bound, the target's full prefill over the speculator's plain prefill and the
    target's prefill of the kept tokens, all measured in the same rounds, and how much of it is
    reached.
    """
    from harness.engines.vllm.arguments import read_arguments
    from harness.errors import ConfigError
    from harness.run.bench.session import TtftOptions, bench_ttft, to_json, to_text

    try:
        depths = tuple(int(part) for part in look_ahead.split(","))
    except ValueError:
        raise ConfigError(f"--look-ahead takes numbers such as 1,8, not {look_ahead!r}") from None
    options = TtftOptions(
        target,
        target_config,
        speculator,
        load,
        length,
        keep,
        depths,
        rounds,
        dtype,
        read_arguments(engine_args),
        read_arguments(speculator_args, "speculator"),
    )
    measured, results = bench_ttft(options, lambda line: print(line, file=sys.stderr))
    if json:
        print(json_module.dumps(to_json(measured, results)))
    else:
        print(to_text(options, measured, results))


@app.command(
    "draft-verify",
    epilog="Example:  harness bench draft-verify --prompt-lengths 512,1024,2048,4096 "
    "--num-runs 20 --warmup 3",
)
def draft_verify(  # noqa: PLR0917  (Typer passes options by name)
    prompt_lengths: Annotated[
        str, typer.Option(help="Prompt lengths in tokens, with commas.")
    ] = "512,1024,2048,4096",
    num_runs: Annotated[int, typer.Option(help="Measured prompts at each length.")] = 20,
    warmup: Annotated[int, typer.Option(help="Prompts at each length thrown away first.")] = 3,
    thresholds: Annotated[
        str | None,
        typer.Option(
            help="Acceptance thresholds, with commas.", show_default="0.8,0.88,0.92,0.96,0.99"
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Pair of models: speculator drafts, target verifies.")
    ] = None,
    draft: Annotated[str | None, typer.Option(help="Draft model: folder or hub name.")] = None,
    verifier: Annotated[str | None, typer.Option(help="Verifier: folder or hub name.")] = None,
    task: Annotated[
        str, typer.Option(help="Task that the prompts and their quality come from.")
    ] = "ruler_niah_single_1",
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    seed: Annotated[int, typer.Option(help="Data seed.")] = 0,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, nothing else.")
    ] = False,
) -> None:
    """Time draft/verify prefill against full prefill, with acceptance and quality beside it.

    One row a length and threshold: TTFT with intervals, speed-up, acceptance and fallback rates,
    the task's score, and the share of prompts with the same tokens as full prefill.
    """
    from harness.analysis.draft_verify import table, to_row, to_text
    from harness.api.options import numbers
    from harness.run.bench.draft_verify import SWEEP, DraftVerifyOptions, bench_draft_verify

    options = DraftVerifyOptions(
        preset=preset,
        draft=draft,
        verifier=verifier,
        prompt_lengths=tuple(numbers("--prompt-lengths", prompt_lengths, int)),
        num_runs=num_runs,
        warmup=warmup,
        thresholds=tuple(numbers("--thresholds", thresholds, float)) if thresholds else SWEEP,
        task=task,
        dtype=dtype,
        seed=seed,
    )
    rows = []
    for measured in bench_draft_verify(options, lambda line: print(line, file=sys.stderr)):
        found = [to_row(one) for one in measured]
        # A long sweep that is stopped has shown these.
        print("\n".join(table(found)), file=sys.stderr)
        rows += found
    if json:
        print(json_module.dumps({"rows": [row.to_json() for row in rows]}))
    else:
        print(to_text(rows))
