"""``harness score``: every row counts, and a bad row is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.predictions import score_file
from harness.errors import DataError

OSLO = {"suite": "longbench", "dataset": "hotpotqa", "prediction": "Oslo", "answers": ["Oslo"]}


def write(path: Path, rows: list[Any]) -> Path:
    """Write rows as JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_an_empty_prediction_stays_in_the_mean(tmp_path: Path) -> None:
    """Three right and one empty make 0.75 of 4, not 1.0 of 3 (LongBench#100)."""
    rows = [OSLO, OSLO, OSLO, {**OSLO, "prediction": ""}]
    found = score_file(write(tmp_path / "p.jsonl", rows))
    assert found["tasks"]["longbench_hotpotqa"]["mean"] == 0.75
    assert found["tasks"]["longbench_hotpotqa"]["n"] == 4


def test_rows_keep_the_files_order(tmp_path: Path) -> None:
    """Scores stand in the order of the rows, tasks apart."""
    ruler = {"task": "ruler_qa_1", "prediction": "x", "answers": ["Oslo", "x"]}
    found = score_file(write(tmp_path / "p.jsonl", [{**OSLO, "prediction": "no"}, ruler, OSLO]))
    assert [row["score"] for row in found["rows"]] == [0.0, 1.0, 1.0]
    assert list(found["tasks"]) == ["longbench_hotpotqa", "ruler_qa_1"]


def test_longbench_e_scores_as_its_original(tmp_path: Path) -> None:
    """``longbench_hotpotqa_e`` has hotpotqa's metric; a name may also end in _en."""
    rows = [
        {"task": "longbench_hotpotqa_e", "prediction": "Oslo", "answers": ["Oslo"]},
        {"task": "longbench_multifieldqa_en", "prediction": "Oslo", "answers": ["Oslo"]},
    ]
    assert [r["score"] for r in score_file(write(tmp_path / "p.jsonl", rows))["rows"]] == [1.0, 1.0]


def test_lost_in_the_middle_has_its_own_rule(tmp_path: Path) -> None:
    """``multidoc_nq`` is scored by a substring of the first line, other sets by token F1."""
    row = {"task": "multidoc_nq", "prediction": "Oslofjord\nBergen", "answers": ["Oslo"]}
    nq, fiction = score_file(
        write(tmp_path / "p.jsonl", [row, {**row, "task": "multidoc_fiction"}])
    )["rows"]
    assert nq["score"] == nq["metrics"]["best_subspan_em"] == 1.0
    assert fiction["score"] == fiction["metrics"]["qa_f1"] == 0.0
    assert nq["metrics"]["contains_answer"] == fiction["metrics"]["contains_answer"] == 0.0


BAD = {
    "missing prediction": ({k: v for k, v in OSLO.items() if k != "prediction"}, "prediction"),
    "null prediction": ({**OSLO, "prediction": None}, "prediction"),
    "number prediction": ({**OSLO, "prediction": 3}, "prediction"),
    "no answers": ({**OSLO, "answers": []}, "answers"),
    "one text for answers": ({**OSLO, "answers": "Oslo"}, "answers"),
    "blank answer": ({**OSLO, "answers": ["Oslo", " "]}, "answers.1: is blank"),
    "blank answer of RULER": (
        {"task": "ruler_niah_single_1", "prediction": "I do not know.", "answers": [""]},
        "answers.0: is blank",
    ),
    "blank answer of multidoc": (
        {"task": "multidoc_nq", "prediction": "I do not know.", "answers": [""]},
        "answers.0: is blank",
    ),
    "unknown multidoc set": ({**OSLO, "suite": "multidoc", "dataset": "nqq"}, "nqq"),
    "unknown suite": ({**OSLO, "suite": "longbanch"}, "longbench"),
    "unknown dataset": ({**OSLO, "dataset": "hotpotqq"}, "hotpotqa"),
    "no name": ({"prediction": "x", "answers": ["x"]}, "task"),
    "no classes": ({**OSLO, "dataset": "trec"}, "all_classes"),
    "malformed reference": (
        {**OSLO, "dataset": "passage_retrieval_zh", "answers": ["第三段"]},
        "第三段",
    ),
    "no object": ([1], "object"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_row_is_named_by_its_line(fault: str, tmp_path: Path) -> None:
    """One line with file and line number; nothing is scored 0 or left out instead."""
    row, names = BAD[fault]
    path = write(tmp_path / "p.jsonl", [OSLO, OSLO, row])
    with pytest.raises(DataError, match=names) as error:
        score_file(path)
    assert "p.jsonl line 3" in str(error.value)
