"""Affine maps between two models' states, fitted in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import torch
from torch import Tensor

RIDGE = 1e-2
"""λ as a share of tr(XᵀX)/p, the mean variance of a feature times the count."""


def draft_layer(layer: int, draft_layers: int, verifier_layers: int) -> int:
    """Draft layer for a verifier layer: ⌊l(Ld − 1) / max(1, Lv − 1) + ½⌋."""
    return floor(layer * (draft_layers - 1) / max(1, verifier_layers - 1) + 0.5)


@dataclass(frozen=True)
class AffineMap:
    """y = (x − mean_x) · weight + mean_y, with weight [p, q]."""

    weight: Tensor
    mean_x: Tensor
    mean_y: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Map rows [T, p] to [T, q], in float32."""
        return (x.float() - self.mean_x) @ self.weight + self.mean_y

    def to(self, device: torch.device) -> AffineMap:
        """Return the map on ``device``."""
        return AffineMap(*(t.to(device) for t in (self.weight, self.mean_x, self.mean_y)))


class Moments:
    """Sums over rows that come in parts, float64: Σa, Σb and Σ aᵀb."""

    def __init__(self) -> None:
        self.rows = 0
        self._a: Tensor | float = 0.0
        self._b: Tensor | float = 0.0
        self._ab: Tensor | float = 0.0

    def add(self, a: Tensor, b: Tensor) -> None:
        """Add rows a [T, p], b [T, q]."""
        a, b = a.double().cpu(), b.double().cpu()
        self.rows += len(a)
        self._a, self._b, self._ab = self._a + a.sum(0), self._b + b.sum(0), self._ab + a.T @ b

    def means(self) -> tuple[Tensor, Tensor]:
        """Mean of a [p] and of b [q]."""
        return torch.as_tensor(self._a / self.rows), torch.as_tensor(self._b / self.rows)

    def centred(self) -> Tensor:
        """Σ (a − mean)ᵀ(b − mean): [p, q]."""
        a, b = self.means()
        return torch.as_tensor(self._ab - self.rows * torch.outer(a, b))


def ridge(inputs: Moments, cross: Moments) -> AffineMap:
    """Fit the centred ridge regression: (XᵀX + λI)⁻¹ XᵀY, λ = 10⁻² · tr(XᵀX)/p.

    Parameters
    ----------
    inputs, cross
        Moments of (X, X) and of (X, Y) over the same rows.
    """
    gram = inputs.centred()
    features = len(gram)
    penalty = RIDGE * gram.trace() / features
    system = gram + penalty * torch.eye(features, dtype=gram.dtype)
    weight = torch.linalg.solve(system, cross.centred())
    mean_x, mean_y = cross.means()
    return AffineMap(weight.float(), mean_x.float(), mean_y.float())


class Residual:
    """R² over rows that come in parts: 1 − Σ‖y − ŷ‖² / Σ‖y − mean‖²."""

    def __init__(self) -> None:
        self._rest = 0.0
        self._total = Moments()
        self._squares = 0.0

    def add(self, y: Tensor, predicted: Tensor) -> None:
        """Add rows [T, q]."""
        y, predicted = y.double().cpu(), predicted.double().cpu()
        self._rest += float(((y - predicted) ** 2).sum())
        self._squares += float((y**2).sum())
        self._total.add(y, y[:, :1])

    def value(self) -> float | None:
        """R², or None where y does not vary."""
        mean, _ = self._total.means()
        spread = self._squares - self._total.rows * float((mean**2).sum())
        return 1.0 - self._rest / spread if spread > 1e-12 * max(1.0, self._squares) else None
