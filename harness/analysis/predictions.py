"""Score predictions that were made elsewhere (``harness score``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.errors import DataError, nearest
from harness.tasks.data.rows import Answers, why
from harness.tasks.data.strict import Source, json_lines
from harness.tasks.scoring import longbench
from harness.tasks.scoring.multidoc import in_words, with_subspan
from harness.tasks.scoring.ruler import RULER_METRICS

RULER = (
    "niah_single_1", "niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multikey_2",
    "niah_multikey_3", "niah_multivalue", "niah_multiquery", "vt", "cwe", "fwe", "qa_1", "qa_2",
)  # fmt: skip
MULTIDOC = ("2wikimultihopqa", "fiction", "hotpotqa", "musique", "nq")
SUITES = ("longbench", "ruler", "multidoc")


class Prediction(BaseModel):
    """One row; other keys are passed over. A prediction that is missing is no empty prediction."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    task: str | None = None
    suite: str | None = None
    dataset: str | None = None
    prediction: str
    answers: Answers
    all_classes: list[str] | None = None

    def name(self) -> tuple[str, str]:
        """Return suite and data set.

        Raises
        ------
        ValueError
            Neither ``task`` nor both of ``suite`` and ``dataset`` name a known task.
        """
        if self.task is not None:
            suite, _, dataset = self.task.partition("_")
        elif self.suite is not None and self.dataset is not None:
            suite, dataset = self.suite, self.dataset
        else:
            raise ValueError("needs 'task', or 'suite' and 'dataset'")
        known = {
            "longbench": (*longbench.METRIC_OF, *(f"{n}_e" for n in longbench.METRIC_OF)),
            "ruler": RULER,
            "multidoc": MULTIDOC,
        }
        if suite not in SUITES:
            raise ValueError(f"suite: unknown {suite!r}{nearest(suite, SUITES)}")
        if dataset not in known[suite]:
            raise ValueError(f"{suite}: unknown data set {dataset!r}{_near(dataset, known[suite])}")
        return suite, dataset


def _near(name: str, known: Sequence[str]) -> str:
    hint = nearest(name, known)
    return hint if "mean" in hint else "; harness tasks lists them"


def score_prediction(row: Prediction) -> dict[str, Any]:
    """Score one row.

    Returns
    -------
    dict
        ``task``, ``score`` in [0, 1], and ``metrics`` with every metric by name.
    """
    suite, dataset = row.name()
    if suite == "ruler":
        part = dataset.startswith("qa")
        name = "string_match_part" if part else "string_match_all"
        metrics = {name: RULER_METRICS[name](row.prediction, row.answers)}
    elif suite == "longbench":
        base = dataset if dataset in longbench.METRIC_OF else dataset.removesuffix("_e")
        value = longbench.score(base, row.prediction, row.answers, row.all_classes)
        metrics = {longbench.METRIC_OF[base]: value}
    else:
        metrics = (with_subspan if dataset == "nq" else in_words)(row.prediction, row.answers)
    return {"task": f"{suite}_{dataset}", "score": next(iter(metrics.values())), "metrics": metrics}


def score_file(path: Path) -> dict[str, Any]:
    """Score a JSONL file.

    Returns
    -------
    dict
        ``rows`` in the file's order, and ``tasks`` with n, mean and interval by task.

    Raises
    ------
    DataError
        The first bad row, by its line number; no row is left out or scored 0 instead.
    """
    try:
        source = Source(str(path), path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error
    rows = [_scored(source, line, value) for line, value in json_lines(source)]
    return {"rows": rows, "tasks": _means(rows)}


def _scored(source: Source, line: int, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        source.fail(line, "a row is a JSON object")
    try:
        return score_prediction(Prediction.model_validate(value))
    except ValidationError as error:
        source.fail(line, why(error))
    except (ValueError, DataError) as error:
        source.fail(line, str(error))


def _means(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    import numpy as np

    from harness.analysis.stats.rates import mean_score

    tasks: dict[str, list[float]] = {}
    for row in rows:
        tasks.setdefault(row["task"], []).append(row["score"])
    out: dict[str, dict[str, Any]] = {}
    for task, scores in tasks.items():
        estimate = mean_score(np.array(scores), [str(i) for i in range(len(scores))])
        out[task] = {"n": len(scores), **estimate.to_json()}
    return out
