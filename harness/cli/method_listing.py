"""What ``harness methods`` says of each method and arm, and whether it can run here."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from harness.methods import METHODS
from harness.methods.arms import build_method, list_arms, method_class, option_defaults
from harness.methods.base import Method

PACKAGE = "package:"
"""Prefix of a need that an optional Python package fills."""


def describe_methods() -> list[dict[str, Any]]:
    """Every method of the registry, JSON-ready, in its order."""
    return [_describe(name) for name in METHODS]


def describe_arms() -> list[dict[str, Any]]:
    """Every arm of ``baselines/``, JSON-ready, by name."""
    found = []
    for arm in list_arms():
        method = build_method(arm.method, arm.options)
        facts = {
            "name": arm.name,
            "method": arm.method,
            "description": arm.description,
            "options": dict(arm.options),
            "budget_kind": str(method.budget_kind),
            "improves_ttft": method.improves_ttft,
            "needs": sorted(method.needs),
        }
        found.append({**facts, **_availability(method)})
    return found


def missing(method: Method) -> str | None:
    """Say what a method lacks on this machine; None where it can run.

    A method whose needs depend on its knobs says so itself, in ``missing``.
    """
    for need in sorted(method.needs):
        package = need.removeprefix(PACKAGE)
        if package != need and find_spec(package) is None:
            return f"pip install 'specprefill-harness[{package}]'"
    return method.missing()


def _describe(name: str) -> dict[str, Any]:
    cls = method_class(name)
    return {
        "name": name,
        "description": (cls.__doc__ or "").strip().splitlines()[0],
        "budget_kind": str(cls.budget_kind),
        "improves_ttft": cls.improves_ttft,
        "stochastic": cls.stochastic,
        "needs": sorted(cls.needs),
        "options": option_defaults(name),
        "arms": [arm.name for arm in list_arms() if arm.method == name],
        **_availability(build_method(name, {})),
    }


def _availability(method: Method) -> dict[str, Any]:
    reason = missing(method)
    return {"available": reason is None, "reason": reason}
