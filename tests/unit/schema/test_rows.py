"""The rows' JSON, which other programs read: keys may be added, none goes or changes its kind."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from synthetic import Arm, Task, build_store

from harness.analysis.summary import summarize
from harness.run.store import Store
from harness.schema.estimates import Estimate, Seconds, SpeedUp
from harness.schema.receipts import Status
from harness.schema.records import CellStatus
from harness.schema.rows import RunSummary

GOLDEN: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("summary_keys.json").read_text(encoding="utf-8")
)
"""Key paths of version 0.1.0 with their values' kinds; ``*`` stands for keys that are data."""

KINDS = {dict: "object", list: "list", str: "text", bool: "boolean", int: "number", float: "number"}
DATA = ("status", "ttft_by_length")


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    """A run with every kind of row: pooled, of one seed, repeated, floor, counting, unsupported."""
    tasks = [
        Task("ruler_a", seeds=(0, 1), n=10),
        Task("ruler_cwe", category="aggregation", n=10),
        Task("ruler_floor", n=20, full_rate=0.0),
        Task("natural", "longbench", "code", length=None, n=10),
    ]
    arms = [
        Arm("specprefill-k10", statuses=(Status.ACTIVE, Status.FAILED)),
        Arm("random-k10", method="random", loss=0.5, method_seeds=(0, 1)),
        Arm("minference", "minference", None, kernel="reference kernel"),
        Arm("rag", "rag", cell_status=CellStatus.UNSUPPORTED, reason="no question"),
    ]
    folder = tmp_path_factory.mktemp("runs") / "run"
    with Store.open(build_store(folder, tasks=tasks, arms=arms, blocks=4)) as store:
        return summarize(store)


def paths_of(value: Any, path: str = "") -> dict[str, set[str]]:
    """Kinds of the values found under every key path of a JSON value."""
    found: dict[str, set[str]] = {path: {KINDS.get(type(value), "null")}}
    parts = []
    if isinstance(value, dict):
        free = path.rpartition(".")[2] in DATA
        parts = [(f"{path}.{'*' if free else key}".lstrip("."), v) for key, v in value.items()]
    elif isinstance(value, list):
        parts = [(f"{path}[]", item) for item in value]
    for name, item in parts:
        for key, kinds in paths_of(item, name).items():
            found.setdefault(key, set()).update(kinds)
    return found


def test_no_key_goes_and_none_changes_its_kind(summary: RunSummary) -> None:
    """Programs written against earlier versions find every key, with values of the same kind."""
    now = paths_of(json.loads(summary.dumps()))
    assert {path for path in GOLDEN if path not in now} == set()
    for path, kinds in GOLDEN.items():
        assert now[path] - {"null"} <= {*kinds}, path


def test_the_json_is_strict_and_one_line(summary: RunSummary) -> None:
    """No NaN, no infinity, no line break; the same object as :meth:`RunSummary.to_json`."""
    text = summary.dumps()
    assert "\n" not in text
    assert json.loads(text, parse_constant=pytest.fail) == summary.to_json()


def test_a_reason_is_printed_where_there_is_one() -> None:
    """What is missing says why; what is there carries no empty reason."""
    assert "reason" not in Estimate(mean=0.5, low=0.4, high=0.6).model_dump()
    assert Estimate(mean=None, reason="no examples").model_dump()["reason"] == "no examples"


def test_what_is_no_number_is_missing() -> None:
    """A ratio over zero seconds is no figure: it becomes None, not infinity."""
    assert SpeedUp(ratio=float("inf"), blocks=1, lag1=float("nan")).model_dump()["ratio"] is None
    assert Seconds(median=float("nan")).median is None


def test_rows_are_closed_and_frozen(summary: RunSummary) -> None:
    """A misspelt field is an error where it is made, and nobody changes a row afterwards."""
    with pytest.raises(ValidationError, match="meen"):
        Estimate(mean=0.5, meen=0.5)  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="frozen"):
        summary.arms[0].n = 3  # type: ignore[misc]


def test_a_row_knows_its_run_only_beside_others(summary: RunSummary) -> None:
    """The JSON names the run once; a row's own ``run`` is a label of reports."""
    labelled = summary.arms[0].model_copy(update={"run": "r1"})
    assert "run" not in labelled.model_dump()
