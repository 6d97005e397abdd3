"""Evaluation and benchmarking harness for Speculative Prefill.

The front door for Python (docs/python.md)::

    run = harness.run(task="ruler", keep=0.1)
    run.rows()

Everything is imported on use, so that ``import harness`` costs nothing.
"""

from __future__ import annotations

import sys
from pkgutil import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.api.comparing import compare
    from harness.api.inspecting import inspect
    from harness.api.result import Run, load
    from harness.api.running import run, sweep
    from harness.errors import HarnessError
    from harness.methods.specprefill.vllm.drop_in import disable_prefill_spec, enable_prefill_spec

    __version__: str

__all__ = [
    "HarnessError",
    "Run",
    "__version__",
    "compare",
    "disable_prefill_spec",
    "enable_prefill_spec",
    "inspect",
    "load",
    "run",
    "sweep",
]

_HOMES = {
    "HarnessError": "harness.errors",
    "Run": "harness.api.result",
    "compare": "harness.api.comparing",
    "disable_prefill_spec": "harness.methods.specprefill.vllm.drop_in",
    "enable_prefill_spec": "harness.methods.specprefill.vllm.drop_in",
    "inspect": "harness.api.inspecting",
    "load": "harness.api.result",
    "sweep": "harness.api.running",
}
"""Exported name → the module that defines it; ``run`` is below."""


def __getattr__(name: str) -> Any:
    """Import on use."""
    if name in _HOMES:
        return resolve_name(f"{_HOMES[name]}:{name}")
    if name == "run":
        import harness.run as room

        return room
    if name == "__version__":
        from harness.run.provenance import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _CallableRoom(ModuleType):
    """The room ``harness.run``, which is also the function ``harness.run()``.

    Importing any module of that room sets the attribute ``run`` of this package, whatever stood
    there before; a room that can be called is both.
    """

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Compare full prefill and SpecPrefill: see :func:`harness.api.running.run`."""
        from harness.api.running import run

        return run(*args, **named)

    @property
    def __signature__(self) -> Any:
        """Signature of the function, for ``help`` and notebooks."""
        import inspect

        from harness.api.running import run

        return inspect.signature(run)


class _Package(ModuleType):
    """Makes the room ``run`` callable as it is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "run" and isinstance(value, ModuleType):
            value.__class__ = _CallableRoom
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
