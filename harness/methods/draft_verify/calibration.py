"""The maps from a draft's states to a verifier's, fitted once for a pair of models and kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from harness.engines.hf.model import new_cache
from harness.methods.draft_verify.maps import AffineMap, Moments, Residual, draft_layer, ridge
from harness.methods.draft_verify.view import View

VERSION = "1"
"""Of the file format and of the fit; part of the name under which maps are kept."""


@dataclass(frozen=True)
class Facts:
    """What a fit was made of, and how good it is on text that it did not see.

    Attributes
    ----------
    key_r2, value_r2
        R² of each verifier layer's keys (before rotary embedding) and values.
    hidden_r2
        R² of the final hidden states.
    matched_cosine, shuffled_cosine
        Mean centred cosine of mapped and true hidden states, of the same token and of two
        tokens drawn apart: what a threshold separates.
    """

    draft_digest: str
    verifier_digest: str
    text_digest: str
    tokens: int
    layer_map: list[int]
    key_r2: list[float | None]
    value_r2: list[float | None]
    hidden_r2: float | None
    matched_cosine: float
    shuffled_cosine: float


@dataclass(frozen=True)
class Calibration:
    """Fitted maps of every verifier layer's keys and values, and of the final hidden states."""

    keys: list[AffineMap]
    values: list[AffineMap]
    hidden: AffineMap
    facts: Facts

    @property
    def mean(self) -> Tensor:
        """The verifier's mean hidden state μ over the fitted text: [D]."""
        return self.hidden.mean_y

    def to(self, device: torch.device) -> Calibration:
        """Return the maps on ``device``."""
        return Calibration(
            [m.to(device) for m in self.keys],
            [m.to(device) for m in self.values],
            self.hidden.to(device),
            self.facts,
        )

    def save(self, path: Path) -> None:
        """Write one safetensors file, whole or not at all."""
        tensors: dict[str, Tensor] = {}
        for name, maps in (("k", self.keys), ("v", self.values), ("h", [self.hidden])):
            for index, fitted in enumerate(maps):
                tensors[f"{name}.{index}.weight"] = fitted.weight.contiguous()
                tensors[f"{name}.{index}.mean_x"] = fitted.mean_x
                tensors[f"{name}.{index}.mean_y"] = fitted.mean_y
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{id(self)}.part")
        save_file(tensors, unfinished, metadata={"facts": json.dumps(asdict(self.facts))})
        unfinished.replace(path)

    @classmethod
    def load(cls, path: Path) -> Calibration:
        """Read what :meth:`save` wrote."""
        with safe_open(path, framework="pt") as file:
            facts = Facts(**json.loads(file.metadata()["facts"]))

            def maps(name: str, count: int) -> list[AffineMap]:
                parts = ("weight", "mean_x", "mean_y")
                return [
                    AffineMap(*(file.get_tensor(f"{name}.{i}.{part}") for part in parts))
                    for i in range(count)
                ]

            layers = len(facts.layer_map)
            return cls(maps("k", layers), maps("v", layers), maps("h", 1)[0], facts)


@dataclass(frozen=True)
class States:
    """One model's states of one sequence: keys before rotary embedding, values, hidden states.

    ``keys`` and ``values`` are [T, H·d] a layer, ``hidden`` [T, D].
    """

    keys: list[Tensor]
    values: list[Tensor]
    hidden: Tensor


def states_of(view: View, ids: Sequence[int]) -> States:
    """Run one sequence from position 0 and take its states."""
    with torch.inference_mode():
        cache = new_cache(view.model)
        hidden = view.run(ids, 0, cache)
        keys = [flat(view.unrotated(layer.keys[0], 0)) for layer in cache.layers]
        values = [flat(layer.values[0]) for layer in cache.layers]
    return States(keys, values, hidden.float())


def flat(heads: Tensor) -> Tensor:
    """[H, T, d] → [T, H·d], all heads of a token side by side."""
    return heads.transpose(0, 1).flatten(1)


def fit(
    draft: View,
    verifier: View,
    sequences: Sequence[Sequence[int]],
    held_out: Sequence[Sequence[int]],
    digests: tuple[str, str, str],
) -> Calibration:
    """Fit every map on ``sequences`` and judge it on ``held_out``.

    ``digests`` are those of the draft, the verifier and the text.
    """
    layer_map = [draft_layer(i, draft.layers, verifier.layers) for i in range(verifier.layers)]
    fitter = _Fitter(layer_map, draft.layers)
    for ids in sequences:
        fitter.add(states_of(draft, ids), states_of(verifier, ids))
    keys, values, hidden = fitter.solve()
    judge = _Judge(layer_map, keys, values, hidden)
    for ids in held_out:
        judge.add(states_of(draft, ids), states_of(verifier, ids))
    facts = Facts(
        *digests,
        tokens=sum(map(len, sequences)),
        layer_map=layer_map,
        key_r2=[r.value() for r in judge.keys],
        value_r2=[r.value() for r in judge.values],
        hidden_r2=judge.hidden.value(),
        matched_cosine=judge.cosine(shuffled=False),
        shuffled_cosine=judge.cosine(shuffled=True),
    )
    return Calibration(keys, values, hidden, facts)


class _Fitter:
    """Moments of every layer pair. (X, X) is kept once a draft layer, for it serves several."""

    def __init__(self, layer_map: list[int], draft_layers: int) -> None:
        self.layer_map = layer_map
        used = sorted(set(layer_map))
        self.key_gram = {i: Moments() for i in used}
        self.value_gram = {i: Moments() for i in used}
        self.key_cross = [Moments() for _ in layer_map]
        self.value_cross = [Moments() for _ in layer_map]
        self.hidden_gram, self.hidden_cross = Moments(), Moments()

    def add(self, draft: States, verifier: States) -> None:
        """Add one sequence's states of both models."""
        for index in self.key_gram:
            self.key_gram[index].add(draft.keys[index], draft.keys[index])
            self.value_gram[index].add(draft.values[index], draft.values[index])
        for layer, index in enumerate(self.layer_map):
            self.key_cross[layer].add(draft.keys[index], verifier.keys[layer])
            self.value_cross[layer].add(draft.values[index], verifier.values[layer])
        self.hidden_gram.add(draft.hidden, draft.hidden)
        self.hidden_cross.add(draft.hidden, verifier.hidden)

    def solve(self) -> tuple[list[AffineMap], list[AffineMap], AffineMap]:
        """Fit keys, values and hidden states."""
        pairs = list(enumerate(self.layer_map))
        keys = [ridge(self.key_gram[i], self.key_cross[layer]) for layer, i in pairs]
        values = [ridge(self.value_gram[i], self.value_cross[layer]) for layer, i in pairs]
        return keys, values, ridge(self.hidden_gram, self.hidden_cross)


class _Judge:
    """Held-out R² and cosines of fitted maps."""

    def __init__(
        self,
        layer_map: list[int],
        keys: list[AffineMap],
        values: list[AffineMap],
        hidden: AffineMap,
    ) -> None:
        self.layer_map, self.key_maps, self.value_maps = layer_map, keys, values
        self.hidden_map = hidden
        self.keys = [Residual() for _ in layer_map]
        self.values = [Residual() for _ in layer_map]
        self.hidden = Residual()
        self.true: list[Tensor] = []
        self.mapped: list[Tensor] = []

    def add(self, draft: States, verifier: States) -> None:
        """Add one sequence's states of both models."""
        for layer, index in enumerate(self.layer_map):
            key, value = draft.keys[index].cpu(), draft.values[index].cpu()
            self.keys[layer].add(verifier.keys[layer], self.key_maps[layer](key))
            self.values[layer].add(verifier.values[layer], self.value_maps[layer](value))
        mapped = self.hidden_map(draft.hidden.cpu())
        self.hidden.add(verifier.hidden, mapped)
        self.true.append(verifier.hidden.cpu())
        self.mapped.append(mapped)

    def cosine(self, *, shuffled: bool) -> float:
        """Mean centred cosine of true and mapped states; shuffled pairs other tokens."""
        true = torch.cat(self.true) - self.hidden_map.mean_y
        mapped = torch.cat(self.mapped) - self.hidden_map.mean_y
        if shuffled:
            order = torch.randperm(len(true), generator=torch.Generator().manual_seed(0))
            mapped = mapped[order]
        return float(torch.cosine_similarity(true, mapped, dim=-1).mean())


def summary(facts: Facts) -> dict[str, object]:
    """Facts for a receipt, in few numbers."""

    def middle(values: Sequence[float | None]) -> float | None:
        known = sorted(v for v in values if v is not None)
        return known[len(known) // 2] if known else None

    return {
        "calibration_tokens": facts.tokens,
        "calibration_text": facts.text_digest[:12],
        "key_r2_median": middle(facts.key_r2),
        "value_r2_median": middle(facts.value_r2),
        "hidden_r2": facts.hidden_r2,
        "held_out_cosine": facts.matched_cosine,
        "held_out_shuffled_cosine": facts.shuffled_cosine,
    }
