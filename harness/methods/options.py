"""A method's options: the fields of its dataclass, their defaults, and objects made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from harness.errors import ConfigError, nearest
from harness.methods.base import Method


def defaults_of(cls: type[Method]) -> dict[str, Any]:
    """Return the options of a method with their defaults, JSON-ready."""
    model = _wrapped_config(cls) or cls
    return dict(TypeAdapter(model).dump_python(model(), mode="json"))


def build(cls: type[Method], options: Mapping[str, Any], *, where: str = "") -> Method:
    """Build a method from its options; whatever is left out keeps its default.

    Parameters
    ----------
    where
        Where the options stand (a file, an arm), for the error message.

    Raises
    ------
    ConfigError
        Unknown option (with the nearest name), or a value outside its range.
    """
    model = _wrapped_config(cls)
    prefix = f"{where}: " if where else ""
    known = defaults_of(cls)
    for key in map(str, options):
        if key not in known:
            hint = nearest(key, known)
            raise ConfigError(f"{prefix}method {cls.name} has no option {key!r}{hint}")
    try:
        if model is not None:
            wrapping: Any = cls
            return cast(Method, wrapping(model(**options)))
        # A plain dataclass would check nothing itself.
        return TypeAdapter(cls).validate_python(dict(options))
    except ValidationError as error:
        fault = first_fault(error, model or cls)
        raise ConfigError(f"{prefix}method {cls.name}: {fault}") from error


def first_fault(error: ValidationError, model: Any = None) -> str:
    """Say the first fault of a pydantic error in one line: where, what, and what was given.

    ``model`` is the pydantic model or dataclass that was validated: its nested keys are suggested.
    """
    faults = error.errors(include_url=False)
    # A misspelt key also leaves the right one missing: the misspelling is the cause.
    fault = next((f for f in faults if f["type"] == "extra_forbidden"), faults[0])
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"no option {where!r}{nearest(str(fault['loc'][-1]), _keys(model, fault['loc']))}"
    message = fault["msg"].removeprefix("Value error, ")
    return f"option {where!r}: {message}, not {fault['input']!r}" if where else message


def _keys(model: Any, loc: tuple[int | str, ...]) -> list[str]:
    """Return the keys that a nested option takes: pydantic models and dataclasses list them."""
    for part in loc[:-1]:
        info = getattr(model, "__pydantic_fields__", {}).get(str(part))
        model = None if info is None else info.annotation
    return list(getattr(model, "__pydantic_fields__", {}))


def _wrapped_config(cls: Any) -> type[BaseModel] | None:
    """Return the model whose fields are the knobs, where a method wraps one in ``config``."""
    fields = dataclasses.fields(cls)
    if len(fields) != 1 or fields[0].name != "config":
        return None
    factory, default = fields[0].default_factory, fields[0].default
    model = factory if isinstance(factory, type) else type(default)
    return model if issubclass(model, BaseModel) else None
