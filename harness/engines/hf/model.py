"""A causal language model in plain transformers, run token by token at given positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.engines.base import EngineSpec
from harness.errors import ConfigError, ModelError
from harness.schema.receipts import Receipt

if TYPE_CHECKING:
    import torch

DTYPES = ("bfloat16", "float32", "float16")
OPTIONS = frozenset({"device", "trust_remote_code"})


class Prefilled(NamedTuple):
    """What a prefill strategy leaves behind.

    Attributes
    ----------
    cache
        transformers' key-value cache.
    logits
        float32 [vocabulary]: the first new token's.
    next_position
        Where decoding goes on.
    facts
        Counters for the receipt.
    receipt
        The prompt's receipt, completed by the strategy; None where the method's own stands.
    """

    cache: Any
    logits: torch.Tensor
    next_position: int
    facts: Mapping[str, int]
    receipt: Receipt | None = None


def load_model(spec: EngineSpec) -> Any:
    """Load ``spec.target`` in ``spec.dtype`` on the option ``device`` (a GPU where there is one).

    Raises
    ------
    ConfigError
        An option or dtype is unknown.
    ModelError
        The model cannot be loaded.
    """
    import torch
    from transformers import AutoModelForCausalLM

    options = dict(spec.options)
    unknown = sorted(set(options) - OPTIONS)
    if unknown:
        known = ", ".join(sorted(OPTIONS))
        raise ConfigError(f"the hf engine has no option {unknown[0]!r}: it has {known}")
    if spec.dtype not in DTYPES:
        raise ConfigError(f"unknown dtype {spec.dtype!r}: known are {', '.join(DTYPES)}")
    device = options.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        with no_progress_bar():
            model = AutoModelForCausalLM.from_pretrained(
                spec.target,
                dtype=getattr(torch, spec.dtype),
                trust_remote_code=bool(options.get("trust_remote_code", False)),
                local_files_only=True,  # nothing is downloaded during a measurement
            )
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"cannot load the model '{spec.target}': {error}") from error
    return model.to(device).eval()


@contextmanager
def no_progress_bar() -> Iterator[None]:
    """Silence transformers' loading bar: progress is the harness's to show."""
    from transformers.utils import logging

    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()


def eos_ids(model: Any) -> frozenset[int]:
    """End tokens of the model's own generation configuration."""
    for config in (model.generation_config, model.config):
        eos = getattr(config, "eos_token_id", None)
        if eos is not None:
            return frozenset([eos] if isinstance(eos, int) else eos)
    return frozenset()


def position_range(model: Any, spec: EngineSpec) -> int:
    """Positions that a request may use: the model's range, or less where the spec says so."""
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return spec.max_model_len if limit is None else min(int(limit), spec.max_model_len)


def forward(
    model: Any,
    ids: Sequence[int],
    positions: Sequence[int],
    cache: Any,
    *,
    last: int = 1,
) -> torch.Tensor:
    """Run ``ids`` at ``positions`` after what ``cache`` holds; the cache grows by them.

    Parameters
    ----------
    last
        How many of the last tokens to give logits for.

    Returns
    -------
    Tensor
        float32 [last, vocabulary].
    """
    import torch

    device = model.device
    total = cache.get_seq_length() + len(ids)
    out = model(
        input_ids=torch.tensor([ids], device=device),
        position_ids=torch.tensor([positions], device=device),
        # Without a mask transformers takes a gap in the positions for the border of two packed
        # sequences, and cuts the attention there.
        attention_mask=torch.ones((1, total), dtype=torch.long, device=device),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=last,
    )
    logits: torch.Tensor = out.logits[0].float()
    return logits


def new_cache(model: Any) -> Any:
    """Return an empty cache that keeps every token, whatever the layers' windows."""
    from transformers import DynamicCache

    return DynamicCache()
