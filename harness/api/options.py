"""Options of a run as people write them, from a command line or from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, TypeVar

from harness.errors import ConfigError
from harness.run.arms import asked_arms, parse_overrides
from harness.run.config import RunConfig, parse_config

Number = TypeVar("Number", int, float)
Names = str | Iterable[str]
EngineArguments = str | Mapping[str, Any] | None
Overrides = Mapping[str, Any] | Iterable[str] | None


def words(option: str, value: Names) -> list[str]:
    """Split ``a,b`` into its parts; a list of names stands as it is.

    Raises
    ------
    ConfigError
        A part is empty.
    """
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else list(value)
    if not parts or not all(parts):
        raise ConfigError(f"{option} {value!r}: an empty name; write names with commas between")
    return parts


def numbers(option: str, value: Any, kind: Callable[[Any], Number]) -> list[Number]:
    """Turn ``0.1,0.3``, a number or a list of numbers into numbers.

    Raises
    ------
    ConfigError
        A part is no number of that kind.
    """
    parts: list[Any] = [value]
    if isinstance(value, str):
        parts = [*words(option, value)]
    elif isinstance(value, Iterable):
        parts = [*value]
    found = []
    for part in parts:
        try:
            found.append(kind(part))
        except (TypeError, ValueError):
            what = "a whole number" if kind is int else "a number"
            raise ConfigError(f"{option} {part!r} is not {what}") from None
    return found


def make_config(source: str, **given: Any) -> RunConfig:
    """Resolve options into a configuration; None is an option that was left out.

    Parameters
    ----------
    source
        Who asks, for error messages (``harness run``).
    given
        Fields of :class:`harness.run.config.RunConfig`, with ``method`` in place of ``arms``;
        lists may be written with commas.

    Raises
    ------
    ConfigError
        An option is unknown or has a bad value.
    """
    known = {key: value for key, value in given.items() if value is not None}
    if "task" in known:
        known["task"] = words("--task", known["task"])
    for key, kind in _NUMBERS.items():
        if key in known:
            known[key] = numbers(f"--{key.replace('_', '-')}", known[key], kind)
    if "method" in known:
        method = known.pop("method")
        if isinstance(method, Mapping):
            known["arms"] = method
        else:
            known["arms"] = asked_arms(words("--method", method))
    if isinstance(known.get("data"), PathLike):
        known["data"] = str(known["data"])
    return parse_config(known, source)


def with_arguments(
    config: RunConfig, source: str, engine_args: EngineArguments, speculator_args: EngineArguments
) -> RunConfig:
    """Put arguments of engines in the place of a configuration's own; None leaves those.

    Raises
    ------
    ConfigError
        An argument is unknown, SpecPrefill's own or of a wrong type.
    """
    given = {"engine_args": engine_args, "speculator_args": speculator_args}
    said = {name: value for name, value in given.items() if value is not None}
    if not said:
        return config
    return parse_config({**config.model_dump(exclude_unset=True), **said}, source)


_NUMBERS: Mapping[str, Callable[[Any], Any]] = {
    "keep": float,
    "look_ahead": int,
    "length": int,
    "seed": int,
    "method_seed": int,
}


def make_overrides(given: Overrides) -> dict[str, dict[str, Any]]:
    """Overrides of arms' options: ``["specprefill.chunk=64"]`` or ``{"specprefill": {…}}``.

    Raises
    ------
    ConfigError
        An override is no ARM.OPTION=VALUE.
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(arm): dict(options) for arm, options in given.items()}
    return parse_overrides(list(given))
