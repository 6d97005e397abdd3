"""``harness run``: the door."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Example:  harness run --task ruler --keep 0.1,0.3 --length 2048 --limit 5")
def run(  # noqa: PLR0917  (Typer passes options by name)
    task: Annotated[
        str, typer.Option(help="Task, group, lm-eval task or YAML path; several with commas.")
    ] = "ruler",
    keep: Annotated[
        str, typer.Option(help="Keep rates in (0, 1]: the share of prompt tokens to prefill.")
    ] = "0.1",
    method: Annotated[
        str, typer.Option(help="Methods or arms (see harness methods), or all.")
    ] = "full,specprefill",
    look_ahead: Annotated[
        str, typer.Option(help="Query rows of the speculator; 1 is no look-ahead.")
    ] = "8",
    length: Annotated[str, typer.Option(help="Prompt lengths in tokens, template included.")] = "",
    seed: Annotated[str, typer.Option(help="Data seeds: which examples are made.")] = "0",
    method_seed: Annotated[str, typer.Option(help="Seeds of stochastic methods.")] = "0",
    sample_seed: Annotated[int, typer.Option(help="Matters above temperature 0 only.")] = 0,
    limit: Annotated[
        int | None, typer.Option(help="Examples per task, length and seed.  [default: 12 in all]")
    ] = None,
    latency_samples: Annotated[
        int | None,
        typer.Option(
            help="Timed examples per task, length and seed; 0 is none.  [default: 2 a group]"
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Pair of models by name.  [default: smollm2-padded]")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Target model: folder or hub name.")] = None,
    speculator: Annotated[str | None, typer.Option(help="Speculator: folder or hub name.")] = None,
    data: Annotated[Path | None, typer.Option(help="JSONL of your own instead of a task.")] = None,
    query_from: Annotated[
        str | None,
        typer.Option(help="Field of the data that holds the question, if none is known."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="How --data rows are scored: contains, exact_match, f1, choice, rouge_l or number."
            "  [default: contains]"
        ),
    ] = None,
    ruler_official: Annotated[
        bool,
        typer.Option(
            "--ruler-official",
            help="Fill RULER's lengths as NVIDIA's scripts do: new tokens count into them.",
        ),
    ] = False,
    engine: Annotated[str, typer.Option(help="vllm, hf (transformers) or fake (no model).")] = (
        "vllm"
    ),
    dtype: Annotated[str, typer.Option(help="bfloat16, float16 or float32.")] = "bfloat16",
    engine_args: Annotated[
        str | None,
        typer.Option(help="Arguments of the target's vLLM, as tensor_parallel=2,max_num_seqs=4."),
    ] = None,
    speculator_args: Annotated[
        str | None, typer.Option(help="The same for the speculator's vLLM.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override an arm's option, as specprefill.chunk=64."),
    ] = None,
    no_reference: Annotated[
        bool, typer.Option("--no-reference", help="Do not run full prefill beside the arms.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; an existing run there is resumed.")
    ] = None,
    allow_mixed_code: Annotated[
        bool, typer.Option("--allow-mixed-code", help="Resume a run written by other code.")
    ] = False,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop at the first failed cell.")
    ] = False,
    note: Annotated[str | None, typer.Option(help="A line to keep with the run.")] = None,
    executor: Annotated[
        str, typer.Option(help="Where cells run: local, or ray (docs/scale.md).")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Ray cluster's head.  [default: one that is found, or started here]"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Ray workers.  [default: as many as there is room for]"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")] = (
        False
    ),
) -> int:
    """Compare full prefill and SpecPrefill (or rivals): quality, TTFT, and their intervals.

    Quality is measured on every example, in batches; latency on a subset, one request at a time,
    in ABBA blocks. "No look-ahead" is --look-ahead 1.
    """
    from harness.api.options import make_config, make_overrides
    from harness.cli.shared import run_and_report

    config = make_config(
        "harness run",
        task=task,
        keep=keep,
        method=method,
        look_ahead=look_ahead,
        length=length or None,
        seed=seed,
        method_seed=method_seed,
        sample_seed=sample_seed,
        limit=limit,
        latency_samples=latency_samples,
        preset=preset,
        target=target,
        speculator=speculator,
        data=data,
        query_from=query_from,
        metric=metric,
        ruler_official=ruler_official or None,
        engine=engine,
        dtype=dtype,
        engine_args=engine_args,
        speculator_args=speculator_args,
        reference=not no_reference,
        note=note,
    )
    overrides = make_overrides(set_)
    return run_and_report(
        config,
        overrides,
        out=out,
        allow_mixed_code=allow_mixed_code,
        fail_fast=fail_fast,
        executor=executor,
        address=address,
        workers=workers,
        json_output=json,
    )
