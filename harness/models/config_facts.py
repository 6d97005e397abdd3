"""What the start of an engine needs to know of a model, read from its ``config.json`` alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from harness.errors import ModelError
from harness.models import folders

# What GPT-2, BLOOM, GPT-J, MPT and their kin call what Llama and most others call otherwise.
_OLD_NAMES = {
    "num_attention_heads": ("n_head", "n_heads"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "hidden_size": ("n_embd", "d_model"),
}
_LONGROPE = ("longrope", "su")
_TRAINED = "original_max_position_embeddings"
_RANGES = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
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
    value = next(filter(None, map(text.get, _RANGES)), None)
    return None if value is None else int(value)


def longrope_threshold(config: Mapping[str, Any]) -> int | None:
    """Length above which LongRoPE's long factors apply (Phi-3); None for any other model.

    vLLM chooses between them once, by the engine's length.
    """
    text = text_config(config)
    for name in ("rope_scaling", "rope_parameters"):
        rope = text.get(name)
        if isinstance(rope, Mapping) and rope.get("rope_type", rope.get("type")) in _LONGROPE:
            value = text.get(_TRAINED) or rope.get(_TRAINED)
            return None if value is None else int(value)
    return None


def overridden(config: Mapping[str, Any], overrides: object) -> dict[str, Any]:
    """Return a configuration as vLLM's ``hf_overrides`` change it.

    Parameters
    ----------
    overrides
        A mapping, whose entries for nested configurations go into them; anything else (a
        function, which works on loaded configurations only) changes nothing here.
    """
    changed = dict(config)
    if isinstance(overrides, Mapping):
        for name, value in overrides.items():
            old = changed.get(name)
            nested = name.endswith("_config") and isinstance(old, Mapping)
            changed[name] = overridden(cast(Any, old), value) if nested else value
    return changed


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
    heads, layers = _size(text, "num_attention_heads"), _size(text, "num_hidden_layers")
    kv_heads = _kv_heads(text) or heads
    head_dim = int(text.get("head_dim") or _size(text, "hidden_size") // heads)
    per_rank = -(-kv_heads // tensor_parallel)
    return layers * 2 * per_rank * head_dim * _BYTES[dtype]


def _size(text: Mapping[str, Any], name: str) -> int:
    """A size by its common name, or by one that older families have for it."""
    for known in (name, *_OLD_NAMES[name]):
        if text.get(known) is not None:
            return int(text[known])
    kind = text.get("model_type", "unknown")
    raise ModelError(
        f"the config.json of this {kind} model has no {name!r}, which sizes the KV cache: "
        "choose another model"
    )


def _kv_heads(text: Mapping[str, Any]) -> int | None:
    """Key heads where a model has fewer than query heads; None where it has as many."""
    if text.get("multi_query") and not text.get("new_decoder_architecture"):
        return 1  # GPT-BigCode; Falcon, whose newer models group their heads instead
    if text.get("model_type") == "falcon" and not text.get("new_decoder_architecture"):
        return None  # its num_kv_heads is for the newer ones
    attention = text.get("attn_config")
    nested = attention.get("kv_n_heads") if isinstance(attention, Mapping) else None
    names = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
    found = next(filter(None, (*map(text.get, names), nested)), None)
    return None if found is None else int(found)


def model_digest(model: str) -> str:
    """Digest of the model's files (:func:`harness.models.folders.digest_of`), for the records."""
    folder = Path(model)
    found = folder if folder.is_dir() else folders.locate(model)
    return f"name:{model}" if found is None else folders.digest_of(found)
