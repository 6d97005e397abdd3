"""What lm-eval promises of a task's metrics, kept or refused before a model loads.

A run compares means of examples' scores in [0, 1] where more is better. lm-eval's tasks may do
otherwise: score a whole corpus at once (BLEU, perplexity), count losses, or pass answers through
filters first. Filters are applied; what cannot be compared is refused by name.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.errors import ConfigError, DataError
from harness.tasks.info import TaskInfo

Score = Callable[[Mapping[str, Any], Sequence[Any]], Mapping[str, Any]]
"""A document and the model's answers in, metrics out."""

UNFILTERED = "none"
"""lm-eval's name for answers as they are."""


class ScoreError(DataError):
    """A task's scores are not what a run can compare."""


def metric_name(metric: str, pipeline: str) -> str:
    """A metric's name in records; lm-eval writes ``exact_match,numbers`` too.

    >>> metric_name("exact_match", "none")
    'exact_match'
    """
    return metric if pipeline == UNFILTERED else f"{metric},{pipeline}"


def keep_contract(task: TaskInfo, lm_task: Any) -> TaskInfo:
    """Check a task's metrics, and return the task with its primary metric's true name.

    The first listed metric is primary, through the first filter pipeline. A task that lists none
    has lm-eval's defaults, of which the first that can be compared is primary.

    Raises
    ------
    ConfigError
        One line: the primary metric cannot be compared, or answers are drawn several times.
    """
    if task.output_type == "loglikelihood_rolling":
        raise ConfigError(
            f"{task.name} measures perplexity over whole texts; run it with "
            f"harness lm-eval --tasks {task.name}"
        )
    repeats = lm_task.config.repeats or 1
    if repeats != 1:
        raise ConfigError(
            f"{task.name}: wants {repeats} answers an example (repeats); one is drawn here"
        )
    metrics = list(lm_task.aggregation())
    faults = {metric: _fault(metric, lm_task) for metric in metrics}
    good = [metric for metric in metrics if faults[metric] is None]
    listed = lm_task.config.metric_list is not None
    primary = next(iter(metrics if listed else good or metrics), task.metric)
    if faults.get(primary):
        hint = f"; a task of your own may list {good[0]} first" if good else ""
        raise ConfigError(f"{task.name}: {faults[primary]}{hint}")
    _check_scale(task, lm_task)
    return replace(task, metric=metric_name(primary, lm_task._filters[0].name))


def _fault(metric: str, lm_task: Any) -> str | None:
    """Why a metric cannot be a run's score; None where it can."""
    from lm_eval.api.metrics import mean

    aggregation = lm_task.aggregation()[metric]
    if aggregation is not mean:
        how = getattr(aggregation, "__name__", str(aggregation))
        return f"{metric} is aggregated by {how}; only means of examples' scores can be compared"
    if lm_task.higher_is_better().get(metric) is False:
        return f"of {metric} less is better (higher_is_better: false); only gains can be compared"
    return None


def _check_scale(task: TaskInfo, lm_task: Any) -> None:
    """Refuse a scale that the task itself declares (``metadata: {scale: [0, 100]}``)."""
    scale = (lm_task.config.metadata or {}).get("scale", [0, 1])
    low, high = scale if isinstance(scale, list) and len(scale) == 2 else (None, None)
    if not (isinstance(low, (int, float)) and isinstance(high, (int, float)) and low < high):
        raise ConfigError(f"{task.name}: metadata: scale: {scale!r} is no [lowest, highest]")
    if low < 0 or high > 1:
        raise ConfigError(f"{task.name}: scores from {low} to {high}; they must lie in [0, 1]")


_DATA = (
    "dataset",
    "task_docs",
    "sampler",
    "fewshot_rnd",
    "_training_docs",
    "_fewshot_docs",
    "_instances",
)
"""What an lm-eval task holds of its data, which scoring does not read."""


class TaskScore:
    """Scores through an lm-eval task's filter pipelines, every metric under its full name."""

    def __init__(self, lm_task: Any) -> None:
        self._task = lm_task
        self._whole = {name for name in lm_task.aggregation() if not _is_mean(name, lm_task)}

    def __call__(self, doc: Mapping[str, Any], answers: Sequence[Any]) -> dict[str, Any]:
        """Score the answers to a document."""
        found: dict[str, Any] = {}
        for pipeline, filtered in _filtered(self._task, doc, answers):
            metrics = self._task.process_results(dict(doc), filtered)
            # An example's part of a corpus' metric is no value of that metric.
            named = {str(k): v for k, v in metrics.items() if k not in self._whole}
            found |= {metric_name(name, pipeline): value for name, value in named.items()}
        return found

    def bare(self) -> TaskScore:
        """Return the same scoring without the task's data, to be sent to another process."""
        task = copy.copy(self._task)
        for name in _DATA:
            if hasattr(task, name):
                setattr(task, name, None)
        # The metadata of a generated task hold a tokenizer.
        task._config = copy.copy(task.config)
        task._config.metadata = task._config.custom_dataset = None
        return TaskScore(task)


def _is_mean(metric: str, lm_task: Any) -> bool:
    from lm_eval.api.metrics import mean

    return lm_task.aggregation()[metric] is mean


def _filtered(
    lm_task: Any, doc: Mapping[str, Any], answers: Sequence[Any]
) -> Iterator[tuple[str, list[Any]]]:
    """Answers after each filter pipeline, as lm-eval's evaluator hands them to the task."""
    from lm_eval.api.instance import Instance

    instances = [
        Instance(lm_task.OUTPUT_TYPE, dict(doc), ("", {}), index, resps=[answer])
        for index, answer in enumerate(answers)
    ]
    for pipeline in lm_task._filters:
        pipeline.apply(instances)
        yield pipeline.name, [instance.filtered_resps[pipeline.name] for instance in instances]


def numbers_of(task: TaskInfo, found: Mapping[str, Any]) -> dict[str, float]:
    """Keep the single numbers among an example's metrics, the primary one first.

    Truth values and numpy's scalars are numbers.

    Raises
    ------
    ScoreError
        The primary metric is not among them, or lies outside [0, 1]. No other metric takes its
        place.
    """
    values = ((name, _number(value)) for name, value in found.items())
    metrics = {name: value for name, value in values if value is not None}
    if task.metric not in metrics:
        given = ", ".join(found) or "nothing"
        raise ScoreError(f"{task.name}: an example's scores have no number {task.metric}: {given}")
    score = metrics.pop(task.metric)
    if not 0 <= score <= 1:  # NaN neither
        raise ScoreError(f"{task.name}: {task.metric} is {score:g}; scores must lie in [0, 1]")
    return {task.metric: score, **metrics}


def _number(value: Any) -> float | None:
    """A single number, of Python, numpy or torch; None for anything else."""
    import numpy as np

    array = np.asarray(value)
    is_number = array.ndim == 0 and array.dtype.kind in "buif"
    return float(array) if is_number else None


def trial_answers(references: Sequence[str], pairs: int) -> list[str | list[tuple[float, bool]]]:
    """Answers to score once before a run, so that a task's faults show before a model loads."""
    if pairs:
        return [[(-1.0 - index, index == 0) for index in range(pairs)]]
    return [references[0] if references else "", ""]
