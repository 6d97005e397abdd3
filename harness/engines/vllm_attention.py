"""Attention paths of the vLLM engine: other ways through a prompt than vLLM's own dense one.

An engine whose spec names an ``attention`` other than ``dense`` starts the path's worker and
gives it each prompt's directives; a prompt without directives is prefilled as ever, so that full
prefill is timed on the same engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from harness.errors import ConfigError
from harness.prompts import PreparedPrompt
from harness.receipts import Receipt

if TYPE_CHECKING:
    from harness.specprefill.vllm.host import HostOptions

PATHS: dict[str, str] = {"minference": "harness.methods.minference.in_vllm:MInferencePath"}
"""Name in :class:`~harness.engines.base.EngineSpec` → ``module:Class``."""


class AttentionPath(Protocol):
    """What the engine asks of a path. It is made with the options that the engine starts with."""

    def __init__(self, options: HostOptions) -> None:
        """Refuse options that the path cannot work with (ConfigError)."""

    def worker_class(self, device: str) -> str:
        """Qualified name for ``worker_cls`` on ``cpu`` or ``cuda`` (ConfigError where none)."""

    def extra_args(self, prepared: PreparedPrompt) -> dict[str, Any]:
        """Return what travels to the worker beside the request, in ``extra_args``."""

    @property
    def collect(self) -> str:
        """Name of the worker's method that gives, by request, what it reports."""

    def finish(self, prepared: PreparedPrompt, ranks: Sequence[Any]) -> tuple[Receipt, Counters]:
        """Complete a receipt from what each rank reported of the request."""


Counters = Mapping[str, int]


def load_path(name: str, options: HostOptions) -> AttentionPath | None:
    """Return the path called ``name``; None for ``dense``.

    Raises
    ------
    ConfigError
        There is no such path.
    """
    if name == "dense":
        return None
    if name not in PATHS:
        raise ConfigError(
            f"the vllm engine has no attention path {name!r}: it has dense, {', '.join(PATHS)}"
        )
    module, attribute = PATHS[name].split(":")
    return cast(AttentionPath, getattr(import_module(module), attribute)(options))
