"""vLLM's ``vllm.general_plugins`` entry point: SpecPrefill in a server that vLLM itself starts.

    SPECPREFILL_MODEL=SPECULATOR vllm serve TARGET

vLLM calls :func:`register` in every process it starts, a server's first while it reads its
command line. ``SPECPREFILL_CONFIG`` may name a configuration file, as for
:mod:`harness.methods.specprefill.vllm.plugin`, which does the same for scripts.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.serving.join import Join

_ENTRY = "vllm.entrypoints.launchers.api_server.entry"
_CLI = "vllm.entrypoints.cli.serve"


def register() -> None:
    """Join the server that is starting in this process, if one is and a speculator is named."""
    speculator = os.environ.get("SPECPREFILL_MODEL")
    entries = [module for module in _modules(_ENTRY) if not hasattr(module, "_specprefill")]
    if not speculator or not entries or _is_child():
        return
    from harness.engines.vllm.cpu import prepare_environment
    from harness.engines.vllm.host import start_variables

    prepare_environment(logging=False)
    os.environ.update(start_variables(1))
    join = _or_exit(lambda: _join(speculator, os.environ.get("SPECPREFILL_CONFIG")))
    for entry in entries:
        join.install(entry)
        entry.build_async_engine_client = _told(join)
        entry._specprefill = join
    for module in _modules(_CLI):
        _check_first(module.ServeSubcommand)
    _say(f"SpecPrefill joins this server, speculator {speculator}")


def _is_child() -> bool:
    import multiprocessing

    return multiprocessing.parent_process() is not None


def _modules(name: str) -> list[Any]:
    """The module of that name, and the one that ``python -m`` runs in its place."""
    found = [sys.modules.get(name)]
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name == name:
        found.append(main)
    return [module for module in found if module is not None]


def _join(speculator: str, config: str | None) -> Join:
    from harness.methods.specprefill.paper_config import read_paper_config
    from harness.serving.join import Join
    from harness.serving.options import JoinOptions

    asked = read_paper_config(config).model_dump(exclude_unset=True)
    del asked["always_keep"]  # a chat needs its template's own tokens, which the paper's code drops
    return Join(JoinOptions(speculator=speculator, knobs=asked))


def _told(join: Join) -> Callable[..., Any]:
    """The join's engine client for arguments that vLLM has read, its faults told in one line."""
    from harness.serving.arguments import completed

    @asynccontextmanager
    async def engine_client(args: Namespace, **kwargs: Any) -> AsyncIterator[Any]:
        _or_exit(lambda: completed(args))
        client = join.engine_client(args, **kwargs)
        try:
            opened = await client.__aenter__()
        except Exception as error:
            _exit(error)
        try:
            yield opened
        finally:
            await client.__aexit__(None, None, None)

    return engine_client


def _check_first(subcommand: Any) -> None:
    """Refuse what one API server cannot do before vLLM starts several, or another kind."""
    from harness.serving.arguments import check_server_options

    original = subcommand.cmd

    def checked(args: Namespace) -> None:
        _or_exit(lambda: check_server_options(vars(args)))
        original(args)

    subcommand.cmd = staticmethod(checked)


def _or_exit(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        _exit(error)


def _exit(error: Exception) -> None:
    from harness.errors import HarnessError

    if not isinstance(error, HarnessError):
        raise error
    _say(str(error))
    raise SystemExit(int(error.code)) from error


def _say(line: str) -> None:
    print(f"harness: {line}", file=sys.stderr, flush=True)
