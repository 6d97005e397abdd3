"""Model shapes that a benchmark can fill with dummy weights: time without a download."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, nearest

SHAPES: Mapping[str, Mapping[str, Any]] = {
    # Meta, Llama 3.2 1B: the sizes of its published config.json.
    "llama-3.2-1b": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    },
}
"""Name → ``config.json``."""


def write_shape(name: str, tokenizer: Path, folder: Path) -> Path:
    """Write a weightless model folder: the shape's configuration, another model's tokenizer.

    The tokenizer must have ids below the shape's vocabulary; only ids are ever used.

    Raises
    ------
    ConfigError
        There is no such shape.
    """
    if name not in SHAPES:
        raise ConfigError(f"no model shape {name!r}{nearest(name, SHAPES)}")
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in ("tokenizer*", "special_tokens*", "chat_template*"):
        for path in tokenizer.glob(pattern):
            shutil.copy2(path, folder)
    (folder / "config.json").write_text(json.dumps(dict(SHAPES[name]), indent=2) + "\n")
    return folder
