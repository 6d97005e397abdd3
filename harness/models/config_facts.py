"""What the start of an engine needs to know of a model, read from its ``config.json`` alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import ModelError
from harness.models import folders

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def read_config(model: str) -> dict[str, Any]:
    """Return a model's ``config.json``.

    Parameters
    ----------
    model
        A folder, or a hub name whose configuration is cached or can be fetched.

    Raises
    ------
    ModelError
        There is no readable configuration.
    """
    folder = Path(model)
    if folder.is_dir():
        return folders.read_config(folder)
    if model.startswith((".", "/", "~")):
        raise ModelError(f"the model folder {model} does not exist")
    return _hub_config(model)


def _hub_config(name: str) -> dict[str, Any]:
    from transformers import PretrainedConfig

    try:
        config, _ = PretrainedConfig.get_config_dict(name)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"the model {name} is neither a folder nor in reach of a model hub: "
            "give a folder, or use the embedded preset (--preset smollm2)"
        ) from error
    return dict(config)


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a multimodal configuration, or all of it."""
    nested = config.get("text_config")
    return nested if isinstance(nested, Mapping) else config


def position_range(config: Mapping[str, Any]) -> int | None:
    """Number of positions the model knows; None where its configuration does not say."""
    text = text_config(config)
    value = text.get("max_position_embeddings") or text.get("n_positions")
    return None if value is None else int(value)


def bos_token_id(config: Mapping[str, Any]) -> int | None:
    """Id of the start token; None where the configuration names none."""
    value = config.get("bos_token_id", text_config(config).get("bos_token_id"))
    return int(value) if isinstance(value, int) else None


def kv_bytes_per_token(config: Mapping[str, Any], dtype: str, tensor_parallel: int = 1) -> int:
    """Bytes of keys and values that one token takes in one rank's cache, all layers together.

    Raises
    ------
    ModelError
        The configuration does not name the sizes.
    """
    text = text_config(config)
    try:
        heads = int(text["num_attention_heads"])
        kv_heads = int(text.get("num_key_value_heads") or heads)
        head_dim = int(text.get("head_dim") or int(text["hidden_size"]) // heads)
        layers = int(text["num_hidden_layers"])
    except KeyError as error:
        kind = config.get("model_type", "unknown")
        raise ModelError(
            f"the config.json of this {kind} model has no {error}, which sizes the KV cache: "
            "choose another model"
        ) from error
    per_rank = -(-kv_heads // tensor_parallel)
    return layers * 2 * per_rank * head_dim * _BYTES[dtype]


def model_digest(model: str) -> str:
    """Digest of the model's files (:func:`harness.models.folders.digest_of`), for the records."""
    folder = Path(model)
    found = folder if folder.is_dir() else folders.locate(model)
    return f"name:{model}" if found is None else folders.digest_of(found)
