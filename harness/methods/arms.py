"""Arms: a method with its knobs, one YAML file each under ``baselines/``.

A file has three keys: ``method`` (a key of :data:`harness.methods.METHODS`), ``description`` and
``options``. Its name without ``.yaml`` is the arm's name. Unknown keys and values outside their
range are refused with the likely right name, before any engine starts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from harness.errors import ConfigError, nearest
from harness.methods import METHODS
from harness.methods.base import Method
from harness.paths import package_or_checkout


@dataclass(frozen=True, slots=True)
class Arm:
    """A method with its knobs, under a name."""

    name: str
    method: str
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)


class _ArmFile(BaseModel):
    """The schema of a file under ``baselines/``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    description: str
    options: dict[str, Any] = {}


def list_arms() -> list[Arm]:
    """Every arm of ``baselines/``, by name. A damaged file raises, naming itself."""
    folder = package_or_checkout("baselines")
    return [_read(path) for path in sorted(folder.glob("*.yaml"))]


def load_arm(name: str) -> Arm:
    """Return one arm, by its name or by the path of a YAML file.

    Raises
    ------
    ConfigError
        No arm of that name (with the nearest names), or its file is not an arm.
    """
    given = Path(name)
    if given.suffix in {".yaml", ".yml"} and given.is_file():
        return _read(given)
    folder = package_or_checkout("baselines")
    path = folder / f"{name}.yaml"
    if path.name == f"{name}.yaml" and path.is_file():
        return _read(path)
    known = [p.stem for p in folder.glob("*.yaml")]
    raise ConfigError(f"no arm {name!r}{nearest(name, known)}; `harness methods` lists them")


def build_method(name: str, options: Mapping[str, Any], *, where: str = "") -> Method:
    """Build a method from its registry name and its options.

    Parameters
    ----------
    name
        Key of :data:`harness.methods.METHODS`.
    options
        The method's knobs; whatever is left out keeps its default.
    where
        Where the options stand (a file, a flag), for the error message.

    Raises
    ------
    ConfigError
        Unknown method or option (with the nearest name), or a value outside its range.
    """
    cls = method_class(name)
    model = _wrapped_config(cls)
    prefix = f"{where}: " if where else ""
    known = option_defaults(name)
    for key in map(str, options):
        if key not in known:
            raise ConfigError(f"{prefix}method {name} has no option {key!r}{nearest(key, known)}")
    try:
        built = cls(**options) if model is None else cls(model(**options))
    except ValidationError as error:
        raise ConfigError(f"{prefix}method {name}: {first_fault(error, model or cls)}") from error
    return cast(Method, built)


def method_class(name: str) -> Any:
    """Import and return the class behind a registry name.

    Raises
    ------
    ConfigError
        No method of that name.
    """
    if name not in METHODS:
        raise ConfigError(f"no method {name!r}{nearest(name, METHODS)}")
    return resolve_name(METHODS[name])


def option_defaults(name: str) -> dict[str, Any]:
    """Return the knobs of a method with their defaults, JSON-ready."""
    cls = method_class(name)
    model = _wrapped_config(cls)
    defaults = TypeAdapter(model or cls).dump_python((model or cls)(), mode="json")
    return dict(defaults)


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


def _read(path: Path) -> Arm:
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path.name}: not readable as YAML: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path.name}: an arm has the keys method, description and options")
    for key in raw:
        if key not in _ArmFile.model_fields:
            hint = nearest(str(key), _ArmFile.model_fields)
            raise ConfigError(f"{path.name}: unknown key {key!r} at the top{hint}")
    try:
        arm = _ArmFile(**raw)
    except ValidationError as error:
        raise ConfigError(f"{path.name}: {first_fault(error, _ArmFile)}") from error
    build_method(arm.method, arm.options, where=path.name)
    return Arm(path.stem, arm.method, arm.description, arm.options)


def _wrapped_config(cls: Any) -> type[BaseModel] | None:
    """Return the model whose fields are the knobs, where a method wraps one in ``config``."""
    fields = dataclasses.fields(cls)
    if len(fields) != 1 or fields[0].name != "config":
        return None
    factory, default = fields[0].default_factory, fields[0].default
    return cast("type[BaseModel]", factory if isinstance(factory, type) else type(default))
