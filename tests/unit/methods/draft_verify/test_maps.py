"""Closed-form maps against numpy and against what they should recover."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.methods.draft_verify.maps import (
    RIDGE,
    Moments,
    Residual,
    draft_layer,
    ridge,
)


@pytest.mark.parametrize(
    ("draft", "verifier", "expected"),
    [
        (3, 3, [0, 1, 2]),
        (2, 4, [0, 0, 1, 1]),
        (4, 2, [0, 3]),
        (5, 1, [0]),
        (3, 5, [0, 1, 1, 2, 2]),  # halves round up
    ],
)
def test_layers_are_spread_evenly(draft: int, verifier: int, expected: list[int]) -> None:
    """⌊l(Ld − 1)/max(1, Lv − 1) + ½⌋, first to first and last to last."""
    assert [draft_layer(i, draft, verifier) for i in range(verifier)] == expected


def moments_of(x: torch.Tensor, y: torch.Tensor) -> tuple[Moments, Moments]:
    """Moments added in two parts."""
    gram, cross = Moments(), Moments()
    for part in (slice(0, 70), slice(70, None)):
        gram.add(x[part], x[part])
        cross.add(x[part], y[part])
    return gram, cross


def test_ridge_is_the_closed_form() -> None:
    """The same weights as numpy's on centred data, however the rows came."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(200, 5, generator=draw) + 3
    y = torch.randn(200, 4, generator=draw) - 1
    fitted = ridge(*moments_of(x, y))
    a, b = (np.asarray(t - t.mean(0), np.float64) for t in (x, y))
    penalty = RIDGE * np.trace(a.T @ a) / 5
    truth = np.linalg.solve(a.T @ a + penalty * np.eye(5), a.T @ b)
    np.testing.assert_allclose(fitted.weight.numpy(), truth, atol=1e-5)
    np.testing.assert_allclose(fitted(x).mean(0), y.mean(0), atol=1e-4)


def test_ridge_recovers_an_affine_map() -> None:
    """Where one exists, held-out R² is near 1; against noise it is near 0."""
    draw = torch.Generator().manual_seed(1)
    weight = torch.randn(6, 3, generator=draw)
    x = torch.randn(600, 6, generator=draw)
    y = x @ weight + 2
    noise = torch.randn(600, 3, generator=draw)
    for target, low, high in ((y, 0.98, 1.0), (noise, -0.2, 0.1)):
        fitted = ridge(*moments_of(x[:500], target[:500]))
        judge = Residual()
        judge.add(target[500:550], fitted(x[500:550]))
        judge.add(target[550:], fitted(x[550:]))
        r2 = judge.value()
        assert r2 is not None
        assert low <= r2 <= high


def test_r2_of_a_constant_is_unknown() -> None:
    """What does not vary has no explained share."""
    judge = Residual()
    judge.add(torch.ones(5, 2), torch.ones(5, 2))
    assert judge.value() is None
