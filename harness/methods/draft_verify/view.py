"""The insides of a decoder that draft and verifier need: states, slots, and rotary positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from harness.engines.hf.model import new_cache
from harness.errors import UnsupportedError


class View:
    """One transformers model.

    Raises
    ------
    UnsupportedError
        The model has no rotary embedding of the usual kind, or changes its logits after the
        output layer, so that hidden states cannot stand for it.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        config = model.config.get_text_config()
        self.name = str(model.name_or_path)
        self.layers = int(config.num_hidden_layers)
        if getattr(config, "final_logit_softcapping", None) or getattr(config, "logit_scale", None):
            raise UnsupportedError(f"draft/verify does not know how {self.name} scales its logits")
        self._check_rotary()

    def run(self, ids: Sequence[int], start: int, cache: Any) -> Tensor:
        """Run tokens at positions ``start`` … after ``cache``, which grows by them.

        Returns
        -------
        Tensor
            [T, D] hidden states after the final norm.
        """
        device = self.model.device
        positions = torch.arange(start, start + len(ids), device=device)
        out = self.model.base_model(
            input_ids=torch.tensor([list(ids)], device=device),
            position_ids=positions[None],
            attention_mask=torch.ones(
                1, cache.get_seq_length() + len(ids), dtype=torch.long, device=device
            ),
            past_key_values=cache,
            use_cache=True,
        )
        hidden: Tensor = out.last_hidden_state[0]
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of one hidden state [D]: float32 [V]."""
        logits: Tensor = self.model.get_output_embeddings()(hidden[None])[0]
        return logits.float()

    def unrotated(self, keys: Tensor, start: int) -> Tensor:
        """Take the rotary embedding off keys [H, T, d] at positions ``start`` …: float32."""
        cos, sin = self._angles(start, keys.shape[1])
        keys = keys.float()
        return (keys * cos - _half(keys) * sin) / (cos**2 + sin**2)

    def rotated(self, keys: Tensor, start: int) -> Tensor:
        """Put the rotary embedding on keys [H, T, d] at positions ``start`` …: float32."""
        cos, sin = self._angles(start, keys.shape[1])
        keys = keys.float()
        return keys * cos + _half(keys) * sin

    def _angles(self, start: int, count: int) -> tuple[Tensor, Tensor]:
        device = self.model.device
        positions = torch.arange(start, start + count, device=device)[None]
        cos, sin = self.model.base_model.rotary_emb(torch.zeros(1, device=device), positions)
        return cos[0].float(), sin[0].float()

    def _check_rotary(self) -> None:
        """Check that keys of one token alone differ between two positions by the rotation only."""
        known = []
        try:
            with torch.inference_mode():
                for position in (0, 7):
                    cache = new_cache(self.model)
                    self.run([1], position, cache)
                    known.append([self.unrotated(x.keys[0], position) for x in cache.layers])
        except (AttributeError, RuntimeError, TypeError) as error:
            raise UnsupportedError(
                f"draft/verify does not know the rotary embedding of {self.name}: {error}"
            ) from error
        # bfloat16 has 8 bits: a rotated key differs by about 2⁻⁸ of its size.
        slack = 1e-3 if self.model.dtype == torch.float32 else 5e-2
        if any((a - b).norm() > slack * (a.norm() + 1e-6) for a, b in zip(*known, strict=True)):
            raise UnsupportedError(
                f"draft/verify does not know the rotary embedding of {self.name}"
            )


def _half(x: Tensor) -> Tensor:
    """Swap the halves of the last axis and negate the new first one (RoFormer's rotation)."""
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)
