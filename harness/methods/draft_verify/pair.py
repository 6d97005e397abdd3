"""A draft and a verifier, with what leads from one's states to the other's."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harness.errors import UnsupportedError
from harness.methods.draft_verify.calibration import (
    VERSION,
    Calibration,
    fit,
    flat,
    summary,
)
from harness.methods.draft_verify.corpus import calibration_sequences
from harness.methods.draft_verify.view import View
from harness.models.folders import digest_of, locate, weights_digest
from harness.models.tokenizer import Tokenizer
from harness.paths import cache_dir

Slots = list[tuple[Tensor, Tensor]]
"""Keys and values of one chunk, [H, T, d] each, for every verifier layer."""


class Pair:
    """Two open models with one tokenizer.

    ``calibration`` is None where the weights are identical: every map is the identity then.
    """

    def __init__(self, draft: View, verifier: View, calibration: Calibration | None) -> None:
        self.draft, self.verifier = draft, verifier
        device = verifier.model.device
        self.calibration = None if calibration is None else calibration.to(device)

    @property
    def facts(self) -> dict[str, Any]:
        """What a receipt says of the maps."""
        if self.calibration is None:
            return {"maps": "identity (identical weights)"}
        return {"maps": "ridge", **summary(self.calibration.facts)}

    def slots(self, draft_cache: Any, start: int, stop: int) -> Slots:
        """Verifier slots for the tokens ``start`` … ``stop`` − 1, from the draft's cache."""
        if self.calibration is None:
            return [
                (layer.keys[0, :, start:stop], layer.values[0, :, start:stop])
                for layer in draft_cache.layers
            ]
        config = self.verifier.model.config.get_text_config()
        heads, dtype = config.num_key_value_heads, self.verifier.model.dtype
        states: dict[int, tuple[Tensor, Tensor]] = {}
        found: Slots = []
        for layer, index in enumerate(self.calibration.facts.layer_map):
            if index not in states:
                source = draft_cache.layers[index]
                keys = self.draft.unrotated(source.keys[0, :, start:stop], start)
                states[index] = flat(keys), flat(source.values[0, :, start:stop])
            key, value = states[index]
            keys = _heads(self.calibration.keys[layer](key), heads)
            values = _heads(self.calibration.values[layer](value), heads)
            found.append((self.verifier.rotated(keys, start).to(dtype), values.to(dtype)))
        return found

    def cosine(self, verifier_hidden: Tensor, draft_hidden: Tensor) -> float:
        """cos(h_verifier − μ, P(h_draft) − μ) of one token."""
        return self._cosine(verifier_hidden, draft_hidden)

    def apart(self, verifier_hidden: Tensor, draft_hidden: Tensor) -> float:
        """Return the same of two tokens: what a threshold must tell from :meth:`cosine`."""
        return self._cosine(verifier_hidden, draft_hidden)

    def _cosine(self, verifier_hidden: Tensor, draft_hidden: Tensor) -> float:
        mean: Tensor | float = 0.0
        mapped = draft_hidden.float()
        if self.calibration is not None:
            mean = self.calibration.mean
            mapped = self.calibration.hidden(mapped[None])[0]
        true = verifier_hidden.float()
        return float(torch.cosine_similarity(true - mean, mapped - mean, dim=-1))


def open_pair(draft_model: Any, verifier_model: Any, *, text: str | None = None) -> Pair:
    """Make a pair, fitting its maps or reading those that were fitted before.

    Raises
    ------
    UnsupportedError
        The models have different tokenizers, or an architecture that is not known here.
    """
    draft, verifier = View(draft_model), View(verifier_model)
    tokenizer = Tokenizer.load(verifier.name)
    if Tokenizer.load(draft.name).digest != tokenizer.digest:
        raise UnsupportedError(f"draft {draft.name} has another tokenizer than {verifier.name}")
    folders = [locate(view.name) or Path(view.name) for view in (draft, verifier)]
    if weights_digest(folders[0]) == weights_digest(folders[1]):
        return Pair(draft, verifier, None)
    digests = digest_of(folders[0]), digest_of(folders[1])
    fit_on, judge_on, text_digest = calibration_sequences(tokenizer, text)
    key = hashlib.sha256("/".join([VERSION, *digests, text_digest]).encode()).hexdigest()[:24]
    path = cache_dir() / "draft-verify" / f"{key}.safetensors"
    if path.is_file():
        return Pair(draft, verifier, Calibration.load(path))
    calibration = fit(draft, verifier, fit_on, judge_on, (*digests, text_digest))
    calibration.save(path)
    return Pair(draft, verifier, calibration)


def _heads(rows: Tensor, heads: int) -> Tensor:
    """[T, H·d] → [H, T, d]."""
    return rows.unflatten(1, (heads, -1)).transpose(0, 1)
