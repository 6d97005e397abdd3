"""``harness serve``: vLLM's OpenAI-compatible server with SpecPrefill inside."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    epilog="Example:  harness serve --preset smollm2-padded --keep 0.2 --port 8000\n\n"
    "Options of vLLM's own server follow after --:  harness serve --preset smollm2 -- "
    "--enable-auto-tool-choice --tool-call-parser hermes"
)
def serve(  # noqa: PLR0917  (Typer passes options by name)
    vllm: Annotated[
        list[str] | None, typer.Argument(help="Options of vLLM's own server, after --.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Pair of models by name.  [default: smollm2-padded]")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Target model: folder or hub name.")] = None,
    speculator: Annotated[str | None, typer.Option(help="Speculator: folder or hub name.")] = None,
    keep: Annotated[float, typer.Option(help="Share of a prompt's tokens to prefill.")] = 0.1,
    look_ahead: Annotated[
        int, typer.Option(help="Query rows of the speculator; 1 is no look-ahead.")
    ] = 8,
    min_tokens: Annotated[
        int, typer.Option(help="Prompts shorter than this are prefilled whole.")
    ] = 512,
    tool_guard: Annotated[
        bool,
        typer.Option(help="Prefill requests with tools, structured output or tools' words whole."),
    ] = True,
    break_even: Annotated[
        bool, typer.Option(help="Prefill whole where scoring would cost more than it saves.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override an option, as specprefill.chunk=64."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    api_key: Annotated[
        list[str] | None,
        typer.Option(help="Key that clients must send; several by repeating.  [$VLLM_API_KEY]"),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What clients call the model.  [default: the target's name]")
    ] = None,
    dtype: Annotated[str, typer.Option(help="bfloat16 or float32.")] = "bfloat16",
    max_model_len: Annotated[
        int | None, typer.Option(help="Tokens of prompt and answer.  [default: the target's range]")
    ] = None,
    kv_tokens: Annotated[
        int | None, typer.Option(help="Tokens in the target's cache.  [default: 2 × max-model-len]")
    ] = None,
    max_num_seqs: Annotated[int, typer.Option(help="Requests that run at once.")] = 32,
    max_body_mb: Annotated[float, typer.Option(help="Size of a request's body, in MiB.")] = 16.0,
    speculator_kv_tokens: Annotated[
        int | None, typer.Option(help="Tokens in the speculator's cache.")
    ] = None,
    engine_args: Annotated[
        str, typer.Option(help="Arguments of the target's vLLM engine: name=value,…")
    ] = "",
    speculator_args: Annotated[
        str, typer.Option(help="Arguments of the speculator's vLLM engine: name=value,…")
    ] = "",
    speculator_timeout: Annotated[
        float, typer.Option(help="Seconds a prompt waits for its scores, then goes whole.")
    ] = 60.0,
    drain: Annotated[
        float, typer.Option(help="Seconds that requests in flight have on SIGTERM.")
    ] = 30.0,
) -> None:
    """Serve a pair of models over HTTP, as vLLM does, with speculative prefill inside.

    A request may set speculative_prefill (false switches it off), keep and look_ahead; every
    response carries timings.specprefill.
    """
    from harness.api.options import make_overrides
    from harness.errors import ConfigError, nearest
    from harness.models.presets import resolve
    from harness.serving.options import JoinOptions, ServeOptions
    from harness.serving.server import serve as run

    models = resolve(preset, target, speculator)
    overrides = make_overrides(set_)
    for arm in overrides.keys() - {"specprefill"}:
        raise ConfigError(f"--set {arm}.…: the server has one arm{nearest(arm, ['specprefill'])}")
    knobs = {
        "keep": keep,
        "look_ahead": look_ahead,
        "min_tokens": min_tokens,
        "tool_guard": tool_guard,
        "break_even": break_even,
        **overrides.get("specprefill", {}),
    }
    join = JoinOptions(
        speculator=str(models.speculator),
        knobs=knobs,
        kv_tokens=speculator_kv_tokens,
        engine=speculator_args,
        timeout_s=speculator_timeout,
        drain_s=drain,
        max_body=int(max_body_mb * 2**20),
    )
    run(
        ServeOptions(
            target=str(models.target),
            name=name or models.target_name,
            join=join,
            host=host,
            port=port,
            api_keys=tuple(api_key or ()),
            dtype=dtype,
            max_model_len=max_model_len,
            kv_tokens=kv_tokens,
            max_num_seqs=max_num_seqs,
            engine=engine_args,
            vllm=tuple(vllm or ()),
        )
    )
