"""Fetch a preset's models before any measurement, and say what is here already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import ModelError
from harness.models import presets
from harness.models.folders import locate
from harness.models.prepared import Progress, is_intact, models_dir
from harness.models.presets import DEFAULT_PRESET, EMBEDDED, PRESETS, ResolvedModels

# Weights in one format, and what belongs to them; hubs also carry other formats of the same.
_WANTED = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]


def prepare_preset(name: str | None = None, progress: Progress | None = None) -> ResolvedModels:
    """Make every model of a preset ready on this machine and return the pair.

    Raises
    ------
    ModelError
        A hub model is not here and the hub cannot be reached or refuses.
    """
    name = name or DEFAULT_PRESET
    preset = presets.get_preset(name)
    for model in dict.fromkeys((preset.target, preset.speculator)):
        if model not in EMBEDDED and not _is_here(model):
            _download(model, progress)
    return presets.resolve(name, progress=progress)


def _download(model: str, progress: Progress | None) -> Path:
    from huggingface_hub import snapshot_download

    if progress is not None:
        progress(f"fetching {model} from the model hub")
    try:
        return Path(snapshot_download(model, allow_patterns=_WANTED))
    except Exception as error:  # the hub client raises many kinds: network, HTTP, licence gates
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"cannot fetch '{model}' from the model hub ({first_line}); "
            f"--preset {DEFAULT_PRESET} needs no hub"
        ) from error


def preset_facts() -> list[dict[str, Any]]:
    """One JSON-ready mapping a preset, with ``ready``: are both models on this machine."""
    return [
        {
            "preset": name,
            "target": preset.target,
            "speculator": preset.speculator,
            "embedded": preset.embedded,
            "ready": _is_here(preset.target) and _is_here(preset.speculator),
            "default": name == DEFAULT_PRESET,
            "description": preset.description,
            "note": preset.note,
        }
        for name, preset in PRESETS.items()
    ]


def _is_here(model: str) -> bool:
    if model in EMBEDDED:
        return is_intact(models_dir() / EMBEDDED[model].folder)
    try:
        return locate(model) is not None
    except ModelError:  # a snapshot that is there in part
        return False
