"""``harness lm-eval``: lm-eval's command line with this project's model and tasks."""

from __future__ import annotations

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Example:  harness lm-eval --tasks arc_easy --limit 10 "
    "--model_args preset=smollm2,keep=0.3,engine=hf",
)
def lm_eval(context: typer.Context) -> int:
    """Hand arguments on to lm-eval, with --model specprefill and our tasks known to it.

    --model_args takes preset, or target and speculator; method, keep, look_ahead, engine, dtype;
    and the method's own options.
    """
    from harness.run.lm_eval_model import run_lm_eval

    run_lm_eval(context.args)
    return 0
