"""A target that computes more and says the same: depth padded by identity blocks."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from harness.errors import ConfigError
from harness.models.embedded import prepare_smollm2
from harness.models.prepared import Progress, ensure, read_manifest
from harness.models.safetensors_file import TensorPlan, write

RECIPE_VERSION = 1
_LAYER = re.compile(r"^model\.layers\.(\d+)\.(.+)$")
# The two projections that write into the residual stream; zero, a block adds exactly nothing.
_OUTPUTS = ("self_attn.o_proj.weight", "mlp.down_proj.weight")


def prepare_padded(factor: int = 4, *, progress: Progress | None = None) -> Path:
    """Return SmolLM2-135M-Instruct with ``factor`` times its layers and the same logits.

    A decoder block adds ``o_proj(attention)`` and ``down_proj(mlp)`` to the residual stream. An
    added block is a copy of its real neighbour with both projections zero: x + 0 = x in every
    dtype, and all the matrix products and the attention are computed all the same.

    Each real layer stands inside a group of ``factor``, at :func:`real_offset`, so that any
    share of the depth holds the same share of the real layers.
    """
    if factor < 2:
        raise ConfigError(f"a padded model needs a factor of at least 2, not {factor}")
    base = prepare_smollm2(progress=progress)
    manifest = read_manifest(base)
    recipe = {
        "model": f"SmolLM2-135M-Instruct, depth padded {factor}x by identity blocks",
        "license": "Apache-2.0",
        "base_digest": None if manifest is None else manifest["digest"],
        "factor": factor,
        "recipe": RECIPE_VERSION,
    }
    name = f"{base.name}-padded{factor}x"
    return ensure(name, recipe, lambda folder: build_padded(base, factor, folder), progress)


def real_offset(factor: int) -> int:
    """Place of the real layer in its group of ``factor`` layers.

    Just before the middle: with it, methods that map layers of the two models by relative depth,
    round(l · (Ld − 1) / (Lv − 1)), pair every real layer with its own origin (a unit test).
    """
    return (factor - 1) // 2


def build_padded(base: Path, factor: int, folder: Path) -> None:
    """Write the padded model of a Llama-type ``base`` folder (one safetensors file) to ``folder``.

    Added blocks carry the real weights of their neighbour for everything but the two output
    projections, which are holes in the file. The base's tokenizer files are linked.
    """
    from safetensors import safe_open

    _copy_without_weights(base, folder)
    config = json.loads((base / "config.json").read_text(encoding="utf-8"))
    layers = config["num_hidden_layers"]
    config["num_hidden_layers"] = layers * factor
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    with safe_open(base / "model.safetensors", framework="pt") as weights:
        write(folder / "model.safetensors", _plan(weights, layers, factor))


def _plan(weights: Any, layers: int, factor: int) -> dict[str, TensorPlan]:
    inside: dict[int, list[str]] = {}
    plan: dict[str, TensorPlan] = {}
    for name in weights.keys():  # noqa: SIM118  (not a mapping)
        match = _LAYER.match(name)
        if match is None:
            plan[name] = _tensor(weights, name)
        else:
            inside.setdefault(int(match[1]), []).append(match[2])
    for layer in range(layers * factor):
        real, offset = divmod(layer, factor)
        for suffix in inside[real]:
            zero = offset != real_offset(factor) and suffix in _OUTPUTS
            origin = f"model.layers.{real}.{suffix}"
            plan[f"model.layers.{layer}.{suffix}"] = _tensor(weights, origin, zero=zero)
    return plan


def _tensor(weights: Any, name: str, *, zero: bool = False) -> TensorPlan:
    import torch

    view = weights.get_slice(name)

    def read() -> bytes:
        tensor = weights.get_tensor(name).contiguous()
        data: bytes = tensor.view(torch.uint8).numpy().tobytes()
        return data

    return TensorPlan(view.get_dtype(), tuple(view.get_shape()), None if zero else read)


def _copy_without_weights(source: Path, folder: Path) -> None:
    """Copy tokenizer and generation files of a prepared model, as hard links where possible."""
    for path in source.iterdir():
        if path.suffix == ".safetensors" or path.name in ("config.json", "manifest.json"):
            continue
        try:
            (folder / path.name).hardlink_to(path)
        except OSError:  # a file system without hard links
            shutil.copy2(path, folder / path.name)
