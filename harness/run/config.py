"""What a run or sweep is asked to do; a resolved configuration has one canonical hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from harness.engines.vllm.arguments import read_arguments
from harness.errors import ConfigError, nearest
from harness.schema.yaml_files import read_yaml
from harness.tasks.scoring.answers import ANSWER_METRICS

DEFAULT_PRESET = "smollm2-padded"
DEFAULT_LENGTH = 2048
DEFAULT_EXAMPLES = 12
"""Examples over all tasks, lengths and seeds of a run without a limit, at least one of each: with
full prefill beside SpecPrefill on the padded embedded model a few minutes on two CPU cores."""
DEFAULT_BLOCKS = 6
"""Latency blocks over the tasks of a group at one length: the fewest that give an interval."""
FIRST_LOOK_S = 240.0
"""A first look (nobody said how much to run) begins no further latency block of an arm after this,
once the arm has one of each order (ABBA, BAAB). Quality is run whole, however long it takes."""


def _as_list(value: Any) -> Any:
    """Let one value stand for a list of one."""
    return value if isinstance(value, (list, tuple)) else [value]


Keep = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Keeps = Annotated[tuple[Keep, ...], BeforeValidator(_as_list), Field(min_length=1)]
Ints = Annotated[tuple[int, ...], BeforeValidator(_as_list), Field(min_length=1)]
Names = Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1)]
LookAheads = Annotated[
    tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(_as_list), Field(min_length=1)
]
Lengths = Annotated[
    tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(_as_list), Field(min_length=1)
]


class RunConfig(BaseModel):
    """One run: task × length × arm (× keep × look-ahead) × seeds.

    The command line and sweep files both become this. ``arms`` maps an arm's display name to its
    options; the key ``method`` in them names the method or arm file it stands on (default: the
    name itself). ``limit`` and ``latency_samples`` count examples per task, length and seed; left
    out, they are what a first look takes (:data:`DEFAULT_EXAMPLES`, :data:`DEFAULT_BLOCKS`).
    ``engine_args`` and ``speculator_args`` are arguments of vLLM's engines
    (:mod:`harness.engines.vllm.arguments`); they are part of a cell's identity.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Names = ("ruler",)
    data: str | None = None
    length: Lengths = (DEFAULT_LENGTH,)
    arms: Mapping[str, Mapping[str, Any]] = Field(default_factory=lambda: {"specprefill": {}})
    keep: Keeps = (0.1,)
    look_ahead: LookAheads = (8,)
    seed: Ints = (0,)
    method_seed: Ints = (0,)
    sample_seed: int = 0
    limit: int | None = Field(default=None, ge=1)
    latency_samples: int | None = Field(default=None, ge=0)
    preset: str | None = None
    target: str | None = None
    speculator: str | None = None
    engine: Literal["vllm", "hf", "fake"] = "vllm"
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    engine_args: Mapping[str, Any] = Field(default_factory=dict)
    speculator_args: Mapping[str, Any] = Field(default_factory=dict)
    reference: bool = True
    query_from: str | None = None
    metric: str | None = None
    ruler_official: bool = False
    note: str | None = None

    @field_validator("arms", mode="before")
    @classmethod
    def _arms_by_name(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = [value]
        if isinstance(value, (list, tuple)):
            return {str(name): {} for name in value}
        if isinstance(value, Mapping):
            return {str(name): dict(options or {}) for name, options in value.items()}
        return value

    @field_validator("task", "length", "keep", "look_ahead", "seed", "method_seed")
    @classmethod
    def _no_repeats(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(set(value)) != len(value):
            raise ValueError("a value stands twice")
        return value

    @field_validator("engine_args", "speculator_args", mode="before")
    @classmethod
    def _arguments(cls, value: Any, info: ValidationInfo) -> Any:
        """Type an engine's arguments, written ``a=1,b=2`` or as a mapping, by vLLM's own types."""
        if not isinstance(value, (str, Mapping)):
            raise ValueError("write name=value,… or a mapping")
        engine = info.data.get("engine", "vllm")
        role = "speculator" if info.field_name == "speculator_args" else "target"
        try:
            if engine == "vllm":
                return read_arguments(value, role)
            if value:
                raise ConfigError(f"the {engine} engine takes none: they are vLLM's")
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return {}

    @model_validator(mode="after")
    def _metric(self) -> RunConfig:
        if self.metric is not None and self.metric not in ANSWER_METRICS:
            raise ValueError(
                f"unknown metric {self.metric!r}{nearest(self.metric, ANSWER_METRICS)}"
            )
        if self.metric is not None and self.data is None:
            raise ValueError("metric is for rows of your own (data); a task has its own")
        return self

    @model_validator(mode="after")
    def _models(self) -> RunConfig:
        if self.preset and (self.target or self.speculator):
            raise ValueError("give either preset, or target and speculator, not both")
        if self.speculator and not self.target:
            raise ValueError("speculator is given without target")
        return self

    @property
    def digest(self) -> str:
        """sha256 of the canonical JSON of what shapes results (``note`` does not).

        Arguments of engines that nobody has given are left out: older runs know of none.
        """
        unsaid = {name for name in ("engine_args", "speculator_args") if not getattr(self, name)}
        return canonical_digest(self.model_dump(mode="json", exclude={"note", *unsaid}))


def canonical_digest(value: Any) -> str:
    """sha256 of JSON with sorted keys and no white space; equal configurations hash equal."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def parse_config(raw: Mapping[str, Any], source: str) -> RunConfig:
    """Validate a mapping; every fault becomes one line that names its place.

    Raises
    ------
    ConfigError
        Unknown key (with the likely right name) or a bad value.
    """
    try:
        return RunConfig.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(_first_fault(error, source)) from error


def load_config(path: Path) -> RunConfig:
    """Read a sweep file (YAML).

    Raises
    ------
    ConfigError
        The file is absent, is no YAML, or holds a key twice, an unknown key or a bad value.
    """
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: a sweep file is a mapping of option to value")
    return parse_config(raw, str(path))


def _first_fault(error: ValidationError, source: str) -> str:
    fault = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        hint = nearest(str(fault["loc"][-1]), RunConfig.model_fields)
        return f"{source}: unknown key '{place}'{hint}"
    message = fault["msg"].removeprefix("Value error, ")
    where = f"{source}: {place}" if place else source
    return f"{where}: {message} (got {fault['input']!r:.80})" if place else f"{where}: {message}"
