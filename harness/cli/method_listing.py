"""What ``harness methods`` says of each method and arm, and whether it can run here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from harness.errors import ConfigError
from harness.methods import METHODS
from harness.methods.arms import Arm, arm_names, build_method, is_arm_file, list_arms, load_arm
from harness.methods.base import Method
from harness.methods.options import build, defaults_of
from harness.methods.registry import method_class, missing, origin_of, outside_methods
from harness.schema.outside import Broken, guarded, is_reference


def describe(given: Sequence[str] = ()) -> dict[str, list[dict[str, Any]]]:
    """Every method and arm there is, or those that are given; JSON-ready.

    Parameters
    ----------
    given
        Methods by name or ``package.module:Class``, arms by name or by the path of their file.

    Returns
    -------
    dict
        ``methods``, ``arms``, and ``broken``: offers of installed packages that cannot be used.

    Raises
    ------
    ConfigError
        A given method or arm does not exist or is broken.
    """
    if given:
        are_arms = [is_arm_file(name) or name in {*arm_names()} - {*METHODS} for name in given]
        arms = [load_arm(name) for name, is_arm in zip(given, are_arms, strict=True) if is_arm]
        names = [name for name, is_arm in zip(given, are_arms, strict=True) if not is_arm]
        methods = [_method(name) for name in dict.fromkeys([*names, *(a.method for a in arms)])]
        return {"methods": methods, "arms": [_arm(arm) for arm in arms], "broken": []}
    methods = [_method(name) for name in METHODS]
    usable, broken = outside_methods()
    for offer in usable:
        try:
            methods.append(guarded(str(offer), "describing it", partial(_method, offer.name)))
        except ConfigError as error:
            broken.append(Broken(offer.name, offer.origin, str(error)))
    return {
        "methods": methods,
        "arms": [_arm(arm) for arm in list_arms()],
        "broken": [one.to_json() for one in broken],
    }


def _method(name: str) -> dict[str, Any]:
    cls = method_class(name)
    return {
        "name": cls.name,
        "from": origin_of(cls),
        **({"reference": name} if is_reference(name) else {}),
        "description": (cls.__doc__ or "").strip().partition("\n")[0],
        "budget_kind": str(cls.budget_kind),
        "improves_ttft": cls.improves_ttft,
        "stochastic": cls.stochastic,
        "needs": sorted(cls.needs),
        "options": defaults_of(cls),
        "arms": [arm.name for arm in list_arms() if arm.method == name],
        **_availability(build(cls, {})),
    }


def _arm(arm: Arm) -> dict[str, Any]:
    method = build_method(arm.method, arm.options)
    return {
        "name": arm.name,
        "from": arm.origin,
        "method": method.name,
        "description": arm.description,
        "options": dict(arm.options),
        "budget_kind": str(method.budget_kind),
        "improves_ttft": method.improves_ttft,
        "needs": sorted(method.needs),
        **_availability(method),
    }


def _availability(method: Method) -> dict[str, Any]:
    reason = missing(method)
    return {"available": reason is None, "reason": reason}
