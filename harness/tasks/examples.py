"""From a task's name to the examples that a run measures, through the real lm-eval task."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, DataError, HarnessError
from harness.models.offline import offline
from harness.models.tokenizer import Tokenizer
from harness.paths import package_or_checkout
from harness.tasks.building import Builder, Example
from harness.tasks.catalogue import require_data
from harness.tasks.contract import (
    Score,
    ScoreError,
    TaskScore,
    keep_contract,
    numbers_of,
    trial_answers,
)
from harness.tasks.data.manifest import not_cached
from harness.tasks.framing import Frame
from harness.tasks.generation import DEFAULT_COUNT, DEFAULT_LENGTH, Request, TooShortError
from harness.tasks.info import FOREIGN, TaskInfo, from_file
from harness.tasks.official import uncounted
from harness.tasks.pairs import Pair

__all__ = [
    "Example",
    "Pair",
    "TaskExamples",
    "examples_from_file",
    "load_examples",
    "load_task",
    "min_length",
]


@dataclass(frozen=True)
class TaskExamples:
    """A task's examples and how to score them."""

    task: TaskInfo
    examples: Sequence[Example]
    process: Score = field(repr=False)

    def score(
        self, example: Example, answer: str | Sequence[tuple[float, bool]]
    ) -> dict[str, float]:
        """Score an answer as the lm-eval task does (``process_results``).

        Parameters
        ----------
        answer
            The generated text; for log-likelihoods one ``(logprob, is_greedy)`` a pair.

        Returns
        -------
        dict
            Metrics by name, the primary one first.
        """
        results: Sequence[Any] = [answer] if isinstance(answer, str) else answer
        try:
            found = dict(self.process(dict(example.doc), results))
        except Exception as error:
            raise _task_error(self.task, error) from error
        return numbers_of(self.task, found)

    def tried(self) -> TaskExamples:
        """Score the first example once, as a foreign task's scores are known to its code alone.

        Raises
        ------
        ScoreError
            A score is missing or off its scale. What else the task's code makes of an answer that
            no model gave says nothing.
        """
        for example in self.examples[:1]:
            for answer in trial_answers(example.record.references, len(example.pairs)):
                try:
                    self.score(example, answer)
                except ScoreError:
                    raise
                except HarnessError:
                    continue
        return self


def load_examples(
    task: TaskInfo,
    *,
    length: int | None,
    seed: int,
    limit: int | None,
    tokenizer: Tokenizer,
    max_positions: int,
    sample_seed: int = 0,
    ruler_official: bool = False,
) -> TaskExamples:
    """Load or generate a task's examples; needs a tokenizer and no model.

    Parameters
    ----------
    length
        Tokens of the whole prompt, chat template and answer prefix included, at most. Tasks
        that are not sized take it as the limit beyond which a prompt loses its middle, where
        the task truncates at all.
    seed
        Data seed: what is generated, or which ``limit`` examples of a data set are taken.
    limit
        Number of examples; None means all, or 500 of a generated task.
    max_positions
        The target's position range: prompt and generated tokens must lie inside it.
    sample_seed
        Seeds what is drawn, where a task draws and names no seed itself.
    ruler_official
        Fill RULER's lengths as NVIDIA's scripts do (:mod:`harness.tasks.official`).

    Raises
    ------
    HarnessError
        One line: absent data, a length that is too short or too long, a broken task file.
    """
    require_data(task)
    official = task.max_tokens if ruler_official and task.group == "ruler" else None
    length = _checked_length(task, length, max_positions + (official or 0))
    frame = Frame.of(tokenizer, chat=task.chat)
    count = DEFAULT_COUNT if limit is None else limit
    room = max_positions - task.max_tokens
    most = room if length is None else length
    if official is not None:
        most = min(room, most - official + uncounted(frame))
    request = Request(frame, (most,), seed, count, task.name, official)
    lm_task = load_task(task, {} if task.group == FOREIGN else {"request": request})
    task = keep_contract(task, lm_task)
    builder = Builder(
        task,
        lm_task,
        frame,
        length=length,
        seed=seed,
        max_positions=max_positions,
        sample_seed=sample_seed,
    )
    examples = [builder.build(i, doc) for i, doc in _chosen(lm_task, task, seed, limit)]
    found = TaskExamples(task, examples, TaskScore(lm_task))
    return found.tried() if task.group == FOREIGN else found


def examples_from_file(
    path: Path,
    *,
    limit: int | None,
    tokenizer: Tokenizer,
    max_positions: int,
    length: int | None = None,
    seed: int = 0,
    metric: str | None = None,
) -> TaskExamples:
    """Load a user's own rows (docs/tasks.md), or a file in a publisher's format.

    LongBench, HotpotQA, 2WikiMultihopQA, MuSiQue and lost-in-the-middle rows run as the task of
    that name, RULER's samples as they are. ``limit`` takes the file's first rows; ``metric`` is
    a key of :data:`harness.tasks.scoring.answers.ANSWER_METRICS`, for own rows that name none.

    Raises
    ------
    DataError
        A row that is wrong, with the file's name and the line number.
    """
    task = task_of_file(path, metric)
    length = _checked_length(task, length, max_positions)
    frame = Frame.of(tokenizer, chat=task.chat)
    room = max_positions - task.max_tokens
    request = Request(frame, (room if length is None else length,), seed, 10**9, task.name)
    lm_task = load_task(task, {"request": request, "file": str(path), "metric": metric})
    builder = Builder(task, lm_task, frame, length=length, seed=seed, max_positions=max_positions)
    docs = list(lm_task.eval_docs)[:limit]
    examples = [builder.build(index, doc) for index, doc in enumerate(docs)]
    return TaskExamples(task, examples, TaskScore(lm_task))


def task_of_file(path: Path, metric: str | None = None) -> TaskInfo:
    """Return the task that a data file runs as, named after the file.

    Raises
    ------
    DataError
        A bad row, or a ``metric`` for rows that have their publisher's.
    """
    from harness.tasks.data.own_rows import kind_of, metric_of, read_own_rows
    from harness.tasks.data.readers import read_file

    kind = kind_of(path)
    if metric is not None and kind != "own":
        raise DataError(
            f"{path}: rows of {kind} are scored by their own metric; leave --metric out"
        )
    root = package_or_checkout("tasks")
    if kind in {"own", "ruler"}:
        yaml = root / "rows" / ("rows.yaml" if kind == "own" else "ruler_rows.yaml")
        found = replace(from_file(yaml), metric=metric_of(read_own_rows(path, metric)))
        return replace(found, name=path.stem, needs=(), ready=True)
    if kind == "longbench":
        dataset = read_file(str(path))[0].dataset.removesuffix("_e")
        yaml = root / "longbench" / f"{dataset}.yaml"
    else:
        stem = {"nq_lost_in_the_middle": "nq"}.get(kind, kind)
        yaml = root / "multidoc_qa" / f"{stem}.yaml"
    return replace(from_file(yaml), name=path.stem, needs=(), ready=True)


def min_length(
    task: TaskInfo, tokenizer: Tokenizer, *, seed: int = 0, limit: int | None = None
) -> int:
    """Return the smallest ``length`` at which a sized task's examples can be generated."""
    if not task.sized:
        raise ConfigError(f"{task.name} takes its prompts from data; it has no smallest length")
    try:
        load_examples(
            task, length=1, seed=seed, limit=limit, tokenizer=tokenizer, max_positions=10**9
        )
    except TooShortError as error:
        return error.minimum
    return 1


def load_task(task: TaskInfo, metadata: Mapping[str, Any], *, download: bool = False) -> Any:
    """Instantiate the lm-eval task behind ``task`` with more metadata, quietly.

    Nothing is fetched unless ``download`` is set: a foreign task's data must be in the cache.
    """
    from lm_eval.tasks import TaskManager

    # Its notices (function modules, metadata) are meant for lm-eval's own command line.
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    manager = TaskManager(include_defaults=False, metadata=dict(metadata))
    try:
        with nullcontext() if download else offline():
            loaded = next(iter(manager.load([str(task.path)])["tasks"].values()))
    except ConnectionError as error:
        raise _task_error(task, error) if download else not_cached(task.name) from error
    except Exception as error:
        raise _task_error(task, error) from error
    unknown = [name for name, metric in _metrics(loaded).items() if metric is None]
    if unknown:
        raise DataError(f"{task.name} ({task.path.name}): unknown metric {unknown[0]!r}")
    return loaded


def _metrics(lm_task: Any) -> Mapping[str, Any]:
    """The metrics that lm-eval computes itself; it only logs an unknown name."""
    if callable(lm_task.config.process_results):
        return {}
    found: Mapping[str, Any] = getattr(lm_task, "_metric_fn_list", {})
    return found


def _task_error(task: TaskInfo, error: BaseException) -> HarnessError:
    """One line for whatever a task's own code raised; lm-eval wraps it several times."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, HarnessError):
        return error
    reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    return DataError(f"{task.name} ({task.path.name}) fails: {reason}")


def _checked_length(task: TaskInfo, length: int | None, max_positions: int) -> int | None:
    """Check the asked length against the model's range, before anything is generated."""
    room = max_positions - task.max_tokens
    if length is None:
        return min(DEFAULT_LENGTH, room) if task.sized else None
    if length > room:
        raise ConfigError(
            f"--length {length} and {task.max_tokens} new tokens of {task.name} go beyond the "
            f"model's {max_positions} positions; the longest is {room}"
        )
    return length


def _chosen(lm_task: Any, task: TaskInfo, seed: int, limit: int | None) -> list[tuple[int, Any]]:
    """The documents to use: all, or ``limit`` drawn by the data seed, in the data's order."""
    docs = list(lm_task.eval_docs)
    if limit is None or limit >= len(docs) or task.sized:
        return list(enumerate(docs))
    indices = random.Random(f"{task.name}/{seed}").sample(range(len(docs)), limit)
    return [(index, docs[index]) for index in sorted(indices)]
