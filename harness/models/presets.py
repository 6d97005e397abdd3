"""Named pairs of target and speculator, and what a pair resolves to on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from harness.errors import ConfigError, ModelError
from harness.models.folders import digest_of, locate, max_positions
from harness.models.prepared import Progress

DEFAULT_PRESET = "smollm2-padded"


@dataclass(frozen=True)
class Embedded:
    """A model made from an installed wheel: who makes it, and the folder's name in the cache."""

    make: str
    folder: str


EMBEDDED: dict[str, Embedded] = {
    "SmolLM2-135M-Instruct": Embedded(
        "harness.models.embedded:prepare_smollm2", "smollm2-135m-instruct"
    ),
    "SmolLM2-135M-Instruct-padded4x": Embedded(
        "harness.models.padded:prepare_padded", "smollm2-135m-instruct-padded4x"
    ),
}

_UNTESTED = "this pair has not been run by the project: untested"


@dataclass(frozen=True)
class Preset:
    """A pair by name. A model is a key of :data:`EMBEDDED` or a hub name.

    ``note`` is one line that everything printed about the pair must carry.
    """

    target: str
    speculator: str
    description: str
    note: str | None = None

    @property
    def embedded(self) -> bool:
        """Whether no model hub is needed."""
        return self.target in EMBEDDED and self.speculator in EMBEDDED


PRESETS: dict[str, Preset] = {
    "smollm2-padded": Preset(
        target="SmolLM2-135M-Instruct-padded4x",
        speculator="SmolLM2-135M-Instruct",
        description="the embedded model with its depth padded to 4x, scored by the unpadded one",
        note=(
            "the target is SmolLM2-135M with its depth padded to 4x by identity blocks: the same "
            "logits at four times the compute, standing in for the cost ratio of a real pair such "
            "as 3B and 12B"
        ),
    ),
    "smollm2": Preset(
        target="SmolLM2-135M-Instruct",
        speculator="SmolLM2-135M-Instruct",
        description="the embedded model as its own speculator: quality only, no speed-up",
        note="target and speculator are the same model: the scorer costs as much as full prefill",
    ),
    "smollm2-1.7b": Preset(
        target="HuggingFaceTB/SmolLM2-1.7B-Instruct",
        speculator="HuggingFaceTB/SmolLM2-135M-Instruct",
        description="SmolLM2 1.7B with 135M",
        note=_UNTESTED,
    ),
    "qwen2.5-7b": Preset(
        target="Qwen/Qwen2.5-7B-Instruct",
        speculator="Qwen/Qwen2.5-0.5B-Instruct",
        description="Qwen2.5 7B with 0.5B",
        note=_UNTESTED,
    ),
    "llama-3.1-70b": Preset(
        target="meta-llama/Llama-3.1-70B-Instruct",
        speculator="meta-llama/Llama-3.1-8B-Instruct",
        description="Llama-3.1 70B with 8B, the paper's main pair",
        note=_UNTESTED,
    ),
    "llama-3.1-405b-fp8": Preset(
        target="meta-llama/Llama-3.1-405B-Instruct-FP8",
        speculator="meta-llama/Llama-3.1-8B-Instruct",
        description="Llama-3.1 405B FP8 with 8B, the paper's largest pair",
        note=_UNTESTED,
    ),
}


@dataclass(frozen=True)
class ResolvedModels:
    """A pair as folders on this machine.

    Attributes
    ----------
    preset
        Name in :data:`PRESETS`; None for a pair given by path.
    target, speculator
        Hugging Face folders.
    target_name, speculator_name
        What to call them in records and tables.
    digests
        :func:`harness.models.folders.digest_of` by role.
    max_positions, speculator_max_positions
        Position ranges: M + new tokens must not exceed the target's.
    speculator_options
        How the speculator's engine is started, as of
        :class:`~harness.engines.base.EngineSpec.options`.
    """

    preset: str | None
    target: Path
    speculator: Path
    target_name: str
    speculator_name: str
    note: str | None
    digests: Mapping[str, str]
    max_positions: int
    speculator_max_positions: int
    speculator_options: tuple[tuple[str, Any], ...] = ()


def resolve(
    preset: str | None = None,
    target: str | None = None,
    speculator: str | None = None,
    *,
    progress: Progress | None = None,
) -> ResolvedModels:
    """Find a pair on this machine, preparing an embedded one; nothing is downloaded.

    Give a preset, or both ``target`` and ``speculator`` (a folder, or a hub name in the local
    cache). Without any, :data:`DEFAULT_PRESET`.

    Raises
    ------
    ConfigError
        The preset is unknown, or the options contradict each other.
    ModelError
        A model is not on this machine or is not a model folder.
    """
    if target is None and speculator is None:
        name = preset or DEFAULT_PRESET
        chosen = get_preset(name)
        return _resolved(name, chosen.target, chosen.speculator, chosen.note, progress)
    if preset is not None:
        raise ConfigError("give either --preset or --target with --speculator, not both")
    if target is None or speculator is None:
        missing = "--target" if target is None else "--speculator"
        raise ConfigError(f"{missing} is missing: a pair needs both (they may be the same model)")
    return _resolved(None, target, speculator, None, progress)


def get_preset(name: str) -> Preset:
    """Return the preset ``name``, or raise ConfigError with the known names."""
    if name not in PRESETS:
        raise ConfigError(f"unknown preset '{name}': known are {', '.join(PRESETS)}")
    return PRESETS[name]


def prepare_model(model: str, progress: Progress | None = None) -> Path:
    """Return the folder of an embedded model, making it where needed."""
    make: Callable[..., Path] = resolve_name(EMBEDDED[model].make)
    return make(progress=progress)


def _resolved(
    preset: str | None, target: str, speculator: str, note: str | None, progress: Progress | None
) -> ResolvedModels:
    target_path = _find(target, preset, progress)
    speculator_path = _find(speculator, preset, progress)
    return ResolvedModels(
        preset=preset,
        target=target_path,
        speculator=speculator_path,
        target_name=_display(target),
        speculator_name=_display(speculator),
        note=note,
        digests={"target": digest_of(target_path), "speculator": digest_of(speculator_path)},
        max_positions=max_positions(target_path),
        speculator_max_positions=max_positions(speculator_path),
    )


def _find(model: str, preset: str | None, progress: Progress | None) -> Path:
    if model in EMBEDDED:
        return prepare_model(model, progress)
    path = locate(model)
    if path is None:
        fetch = f" (to fetch it: harness models prepare --preset {preset})" if preset else ""
        raise ModelError(
            f"the model '{model}' is neither a folder nor in the local hub cache{fetch}; "
            f"--preset {DEFAULT_PRESET} needs no hub"
        )
    return path


def _display(model: str) -> str:
    return model if model in EMBEDDED else Path(model).name
