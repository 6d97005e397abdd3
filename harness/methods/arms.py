"""Arms: a method with its knobs, one YAML file each under ``baselines/``.

A file has three keys: ``method`` (a name or ``package.module:Class``, see
:mod:`harness.methods.registry`), ``description`` and ``options``. Its name without ``.yaml`` is the
arm's name. Unknown keys and values outside their
range are refused with the likely right name, before any engine starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.errors import ConfigError, nearest
from harness.methods.base import Method
from harness.methods.options import build, defaults_of, first_fault
from harness.methods.registry import method_class
from harness.paths import package_or_checkout
from harness.schema.outside import BUILT_IN
from harness.schema.yaml_files import read_yaml


@dataclass(frozen=True, slots=True)
class Arm:
    """A method with its knobs, under a name; ``origin`` says which file a user's own is."""

    name: str
    method: str
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)
    origin: str = BUILT_IN


class _ArmFile(BaseModel):
    """The schema of a file under ``baselines/``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    description: str
    options: dict[str, Any] = {}


def list_arms() -> list[Arm]:
    """Every arm of ``baselines/``, by name. A damaged file raises, naming itself."""
    folder = package_or_checkout("baselines")
    return [_read(path, BUILT_IN) for path in sorted(folder.glob("*.yaml"))]


def load_arm(name: str) -> Arm:
    """Return one arm, by its name or by the path of a YAML file.

    Raises
    ------
    ConfigError
        No arm of that name (with the nearest names), or its file is not an arm.
    """
    if is_arm_file(name):
        return _read(Path(name), f"file {name}")
    names = arm_names()
    if name not in names:
        raise ConfigError(f"no arm {name!r}{nearest(name, names)}; `harness methods` lists them")
    return _read(package_or_checkout("baselines") / f"{name}.yaml", BUILT_IN)


def is_arm_file(name: str) -> bool:
    """Whether an arm is named by the path of its file, there or not."""
    return Path(name).suffix in {".yaml", ".yml"}


def arm_names() -> list[str]:
    """Names of the arms of ``baselines/``; no file is read."""
    return sorted(path.stem for path in package_or_checkout("baselines").glob("*.yaml"))


def build_method(name: str, options: Mapping[str, Any], *, where: str = "") -> Method:
    """Build a method from its name (:mod:`harness.methods.registry`) and its options.

    Raises
    ------
    ConfigError
        Unknown method or option (with the nearest name), or a value outside its range; ``where``
        says where they stand.
    """
    return build(method_class(name), options, where=where)


def option_defaults(name: str) -> dict[str, Any]:
    """Return the knobs of a method with their defaults, JSON-ready."""
    return defaults_of(method_class(name))


def _read(path: Path, origin: str) -> Arm:
    raw = read_yaml(path)
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
    return Arm(path.stem, arm.method, arm.description, arm.options, origin)
