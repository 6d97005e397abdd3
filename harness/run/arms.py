"""From the arms a configuration names to the arms and method objects that a plan runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import ConfigError, nearest
from harness.methods import METHODS
from harness.methods.arms import arm_names, is_arm_file, load_arm
from harness.methods.base import Method
from harness.methods.options import build, defaults_of
from harness.methods.registry import method_class, method_names
from harness.run.config import RunConfig
from harness.schema.arm import Arm
from harness.schema.outside import is_reference
from harness.schema.yaml_files import parse_yaml

ALSO = {"rag": ("rag-bm25-relevance",)}
"""Arms that ``all`` takes beside a method's own: retrieval is reported in both orders."""

REFERENCE = "full"
"""The method that deltas and speed-ups refer to."""


@dataclass(frozen=True, slots=True)
class PlannedArm:
    """An arm with the method object that runs it."""

    arm: Arm
    method: Method


def asked_arms(given: list[str]) -> list[str]:
    """Arms for ``--method``: names as they stand; ``all`` is every method that is built in.

    Retrieval comes twice, with the passages in the prompt's order and by relevance.
    """
    if given == ["all"]:
        return [arm for name in METHODS for arm in (name, *ALSO.get(name, ()))]
    if "all" in given:
        raise ConfigError("--method all stands alone: it already names every method")
    return given


def parse_overrides(settings: list[str]) -> dict[str, dict[str, Any]]:
    """Turn ``["specprefill.order=lowest"]`` into ``{"specprefill": {"order": "lowest"}}``.

    Values are read as YAML, so that numbers, booleans and ``{first: 4}`` mean what they say.
    A dotted key reaches into a nested option (``specprefill.always_keep.last=2``).
    """
    found: dict[str, dict[str, Any]] = {}
    for setting in settings:
        path, equals, raw = setting.partition("=")
        arm, _, key = path.partition(".")
        if not equals or not arm or not key:
            raise ConfigError(f"--set {setting!r}: write ARM.OPTION=VALUE, as specprefill.chunk=64")
        value = parse_yaml(raw, f"--set {setting!r}")
        slot = found.setdefault(arm, {})
        *outer, last = key.split(".")
        for part in outer:
            slot = slot.setdefault(part, {})
        slot[last] = value
    return found


def expand_arms(
    config: RunConfig, overrides: Mapping[str, Mapping[str, Any]] | None = None
) -> list[PlannedArm]:
    """Every arm of the configuration at every keep rate, look-ahead and method seed it takes.

    An arm file that fixes ``keep`` or ``look_ahead`` keeps what it fixes. Full prefill comes
    first and once where ``config.reference`` asks for it.

    Raises
    ------
    ConfigError
        Unknown arm, method or option, or a value outside its range.
    """
    overrides = overrides or {}
    arms = dict(config.arms)
    if config.reference:
        arms = {REFERENCE: arms.pop(REFERENCE, {}), **arms}
    found: list[PlannedArm] = []
    used: set[str] = set()
    told: dict[str, str] = {}
    for asked, given in arms.items():
        name, cls, fixed = _base(asked, given)
        if told.setdefault(name, asked) != asked:
            raise ConfigError(f"two arms are called {name!r}: {told[name]} and {asked}")
        fixed = {**fixed, **{k: v for k, v in given.items() if k != "method"}}
        for key in dict.fromkeys((cls.name, name)):
            if key in overrides:
                used.add(key)
                fixed = _merge(fixed, overrides[key])
        found += _expand(name, cls, fixed, config)
    for key in overrides:
        if key not in used:
            raise ConfigError(f"--set {key}.…: this run has no arm {key!r}{nearest(key, arms)}")
    return found


def _base(name: str, given: Mapping[str, Any]) -> tuple[str, type[Method], dict[str, Any]]:
    """Return an arm's name, the method it stands on, and the options its arm file fixes.

    What ships with the harness comes first, so that no installed package changes what a name
    means. An arm file given by its path is called as the file is, a class as it calls itself.
    """
    base = str(given.get("method", name))
    own_name = "method" not in given
    if base not in METHODS and (base in arm_names() or is_arm_file(base)):
        arm = load_arm(base)
        return arm.name if own_name else name, method_class(arm.method), dict(arm.options)
    known = method_names()
    if base not in known and not is_reference(base):
        raise ConfigError(f"no method or arm {base!r}{nearest(base, [*known, *arm_names()])}")
    cls = method_class(base)
    return cls.name if own_name else name, cls, {}


def _expand(
    name: str, cls: type[Method], fixed: Mapping[str, Any], config: RunConfig
) -> list[PlannedArm]:
    defaults = defaults_of(cls)
    keeps = _axis("keep", config.keep, defaults, fixed)
    look_aheads = _axis("look_ahead", config.look_ahead, defaults, fixed)
    probe = build(cls, fixed, where=name)
    seeds = config.method_seed if probe.stochastic else config.method_seed[:1]
    taken = {axis for axis in ("keep", "look_ahead") if axis in defaults and axis not in fixed}
    varied = frozenset(taken | ({"method_seed"} if len(seeds) > 1 else set()))
    found = []
    for keep in keeps:
        for look_ahead in look_aheads:
            chosen: dict[str, Any] = {"keep": keep, "look_ahead": look_ahead}
            options: dict[str, Any] = {**fixed, **{axis: chosen[axis] for axis in sorted(taken)}}
            method = build(cls, options, where=name)
            resolved = {**defaults, **options}
            facts = (resolved, resolved.get("keep"), resolved.get("look_ahead"))
            found += [
                PlannedArm(Arm(name, cls.name, *facts, seed, varied), method) for seed in seeds
            ]
    return found


def _axis(
    key: str, values: tuple[Any, ...], defaults: Mapping[str, Any], fixed: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Values an arm takes on one axis: its own where it fixes one, else the run's."""
    if key in fixed or key not in defaults:
        return (fixed.get(key),)
    return values


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = (
            _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return merged
