"""``harness serve``: vLLM's own server, run in this process with SpecPrefill joined in."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from argparse import Namespace
from typing import Any

from harness.engines.vllm.cpu import debugging, prepare_environment
from harness.engines.vllm.host import start_variables
from harness.errors import ConfigError
from harness.serving.arguments import parsed
from harness.serving.options import ServeOptions


def serve(options: ServeOptions) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises
    ------
    HarnessError
        An option does not fit (before a model is loaded), or an engine does not start.
    """
    if not debugging():
        atexit.register(_silence)
    prepare_environment()
    os.environ.update(start_variables(1))
    # As vLLM's command line does: a forked engine would inherit this process's threads.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    from harness.serving.join import Join, told_in_one_line

    def ready() -> None:
        where = f"http://{args.host}:{args.port}/v1"
        print(f"harness: serving {options.name} on {where}", file=sys.stderr, flush=True)

    with told_in_one_line(not debugging()):  # vLLM talks while it is imported
        args = parsed(options)
        join = Join(options.join, quiet=not debugging(), ready=ready)
        join.options.scorer(int(args.max_model_len), options.dtype)  # the speculator's range
        address, sock = _listen(args)
    import uvloop

    with join.installed():
        uvloop.run(_run(address, sock, args))


def _silence() -> None:
    """Let nothing be printed after the last of our own exit handlers.

    A library in vLLM reports every object that is alive when the interpreter ends.
    """
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _listen(args: Namespace) -> tuple[str, Any]:
    """Take the address before any model is loaded: its text, and the socket."""
    from vllm.entrypoints.launchers.api_server import entry

    try:
        address, sock = entry.setup_server(args, reuse_port=False)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot listen on {args.host}:{args.port}: {error}") from error
    except KeyError as error:
        raise ConfigError(f"vLLM's server: {error.args[0]}") from error
    return address, sock


async def _run(address: str, sock: Any, args: Namespace) -> None:
    """VLLM's ``run_server``, without its prefix on every line of our output."""
    from vllm.entrypoints.launchers.api_server import entry

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt("terminated")

    # Until vLLM's own handlers stand, which let requests end first.
    signal.signal(signal.SIGTERM, interrupt)
    await entry.run_server_worker(address, sock, args)
