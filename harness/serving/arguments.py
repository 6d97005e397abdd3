"""The arguments of vLLM's own server: what SpecPrefill sets, completes and refuses."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any

from harness.engines.vllm import flavour
from harness.engines.vllm.cpu import debugging
from harness.engines.vllm.host import HostOptions, engine_arguments
from harness.engines.vllm.refusals import check_model, check_options
from harness.errors import ConfigError
from harness.models.config_facts import position_range, read_config
from harness.serving.options import ServeOptions

_REFUSED: dict[str, Callable[[Any], bool]] = {
    "api_server_count": lambda value: value not in {None, 1},
    "data_parallel_size": lambda value: value not in {None, 1},
    "data_parallel_multi_port_external_lb": bool,
    "pipeline_parallel_size": lambda value: value not in {None, 1},
    "kv_transfer_config": bool,
    "headless": bool,
    "grpc": bool,
    "skip_tokenizer_init": bool,
}


def check_server_options(options: Mapping[str, Any]) -> None:
    """Refuse options of vLLM's server that cannot be honoured.

    Raises
    ------
    HarnessError
        One line that names the option.
    """
    check_options(options)
    for name, wrong in _REFUSED.items():
        if wrong(options.get(name)):
            raise ConfigError(
                f"SpecPrefill's server cannot honour --{name.replace('_', '-')} "
                f"{options[name]}: leave it out"
            )


def parsed(options: ServeOptions) -> Namespace:
    """The arguments of ``harness serve``: ours as vLLM's defaults, the user's own on top.

    Raises
    ------
    HarnessError
        A model or an option does not fit.
    """
    target = options.target_options()
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(FlexibleArgumentParser):  # type: ignore[misc]
        """vLLM's parser, whose faults are one line."""

        def error(self, message: str) -> Any:
            raise ConfigError(f"vLLM's server: {message}")

    parser = make_arg_parser(Parser(prog="harness serve"))
    ours = engine_arguments(target) | {
        "host": options.host,
        "port": options.port,
        "api_key": list(options.api_keys) or None,
        "served_model_name": [options.name],
        "disable_log_stats": False,  # /metrics
        "shutdown_timeout": int(options.join.drain_s),
        "uvicorn_log_level": "info" if debugging() else "warning",
        "disable_uvicorn_access_log": not debugging(),
    }
    parser.set_defaults(**ours)
    args: Namespace = parser.parse_args(list(options.vllm))
    for name in ("model", "worker_cls"):
        if getattr(args, name) != ours[name]:
            raise ConfigError(f"--{name.replace('_', '-')} is set by harness serve: leave it out")
    try:
        validate_parsed_serve_args(args)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"vLLM's server: {str(error).removeprefix('Error: ')}") from error
    check_server_options(vars(args))
    return args


def completed(args: Namespace) -> None:
    """Add to arguments that vLLM's own command line has read what SpecPrefill needs, in place.

    Raises
    ------
    HarnessError
        The model cannot be a target, or an option cannot be honoured.
    """
    check_server_options(vars(args))
    config = read_config(args.model)
    check_model(args.model, config, "target")
    found = flavour.require()
    if args.worker_cls != "auto":
        raise ConfigError("SpecPrefill needs its own --worker-cls: leave yours out")
    args.worker_cls = found.worker_class("target")
    args.async_scheduling = False
    if found.device == "cpu" and args.kv_cache_memory_bytes is None:
        # vLLM's own sizing goes wrong on CPU (docs/adr/0012).
        length = args.max_model_len or position_range(config) or 8192
        dtype = "float32" if "32" in str(args.dtype) else "bfloat16"
        options = HostOptions(args.model, "target", dtype, length, 2 * length)
        args.kv_cache_memory_bytes = engine_arguments(options)["kv_cache_memory_bytes"]
