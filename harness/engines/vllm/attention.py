"""Attention paths of the vLLM engine: other ways through a prompt than vLLM's own dense one.

An engine whose spec names an ``attention`` other than ``dense`` (a name from here, or
``package.module:Class``) starts the path's worker and gives it each prompt's directives; a prompt
without directives is prefilled as ever, so that full prefill is timed on the same engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from harness.engines.base import EngineSpec
from harness.errors import ConfigError
from harness.schema.outside import is_reference, load
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt

PATHS: dict[str, str] = {"minference": "harness.methods.minference.in_vllm:MInferencePath"}
"""Name in :class:`~harness.engines.base.EngineSpec` → ``module:Class``."""

Counters = Mapping[str, int]


class AttentionPath(Protocol):
    """What the engine asks of a path."""

    def __init__(self, spec: EngineSpec) -> None:
        """Refuse a spec that the path cannot work with (ConfigError)."""

    def options(self, device: str) -> Mapping[str, Any]:
        """Return options that the engine starts with on ``cpu`` or ``cuda``, ``worker_cls`` too.

        The spec's own come first.
        """

    def extra_args(self, prepared: PreparedPrompt) -> dict[str, Any]:
        """Return what travels to the worker beside the request, in ``extra_args``."""

    @property
    def collect(self) -> str:
        """Name of the worker's method that gives, by request, what it reports."""

    def finish(self, prepared: PreparedPrompt, ranks: Sequence[Any]) -> tuple[Receipt, Counters]:
        """Complete a receipt from what each rank reported of the request."""


def load_path(spec: EngineSpec) -> AttentionPath | None:
    """Return the path that a spec names; None for ``dense``.

    Raises
    ------
    ConfigError
        There is no such path, or it cannot work under the spec's options.
    """
    name = spec.attention
    if name == "dense":
        return None
    if name not in PATHS and not is_reference(name):
        raise ConfigError(
            f"the vllm engine has no attention path {name!r}: it has dense, {', '.join(PATHS)}, "
            "and takes package.module:Class"
        )
    return cast(AttentionPath, load(PATHS.get(name, name), f"attention path {name}")(spec))
