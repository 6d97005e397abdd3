"""Scores equal what the benchmarks' official code gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from samples import PARITY

from harness.analysis.predictions import Prediction, score_prediction

ROWS = [json.loads(line) for line in PARITY.read_text(encoding="utf-8").splitlines() if line]


def test_every_metric_is_covered() -> None:
    """The 171 pairs cover every LongBench metric and both of RULER's."""
    assert len(ROWS) == 171
    scored = [score_prediction(Prediction.model_validate(row)) for row in ROWS]
    assert {name for one in scored for name in one["metrics"]} == {
        "qa_f1", "qa_f1_zh", "rouge_l", "rouge_l_zh", "classification", "retrieval",
        "retrieval_zh", "count", "code_similarity", "string_match_all", "string_match_part",
    }  # fmt: skip


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_score_is_the_official_one(number: int) -> None:
    """A pair scores as the official code does, to 1e-9 (code similarity to 0.01)."""
    row: dict[str, Any] = ROWS[number]
    loose = row["dataset"] in {"lcc", "repobench-p"}
    got = score_prediction(Prediction.model_validate(row))["score"]
    assert got == pytest.approx(row["expected"], abs=0.01 if loose else 1e-9)
