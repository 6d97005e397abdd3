"""Expands a configuration into cells: task × length × arm (× keep × look-ahead) × seeds.

Everything that can be wrong with a run is found here, before a model is loaded: the plan needs
the tokenizer, the data and the models' ``config.json`` only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.engines.base import EngineSpec
from harness.engines.registry import check_target
from harness.errors import ConfigError, nearest
from harness.methods.specprefill.scorers import check_scorer
from harness.run.arms import expand_arms
from harness.run.cells import CellBuilder, PlannedCell, by_examples
from harness.run.config import DEFAULT_BLOCKS, DEFAULT_EXAMPLES, RunConfig
from harness.run.latency import TIMED_TOKENS
from harness.run.opener import scorer_spec

if TYPE_CHECKING:
    from harness.models.presets import ResolvedModels
    from harness.models.tokenizer import Tokenizer
    from harness.schema.prompts import Prompt
    from harness.tasks.examples import TaskExamples
    from harness.tasks.info import TaskInfo

_ROUND = 256
"""Engine lengths are rounded up to this, so that similar runs start the same engine."""


@dataclass(frozen=True)
class Plan:
    """What a run will do; a first look is one whose size nobody has said."""

    config: RunConfig
    models: ResolvedModels
    tokenizer: Tokenizer
    cells: tuple[PlannedCell, ...]
    notices: tuple[str, ...]
    max_model_len: int
    first_look: bool = False

    def latency_samples(self, cell: PlannedCell) -> int:
        """Examples of a cell to time: as asked, else its part of its group's blocks."""
        asked = self.config.latency_samples
        if asked is not None:
            return asked
        fellows = self._fellows(cell)
        share, rest = divmod(DEFAULT_BLOCKS, len(fellows))
        return share + (fellows[id(cell.examples)][0] < rest)

    def blocks_before(self, cell: PlannedCell) -> int:
        """Latency blocks of the tasks before its own in its group: orders alternate over them."""
        fellows = self._fellows(cell)
        place, _ = fellows[id(cell.examples)]
        if self.config.latency_samples is not None:
            return place * self.config.latency_samples
        return sum(self.latency_samples(c) for at, c in fellows.values() if at < place)

    def _fellows(self, cell: PlannedCell) -> dict[int, tuple[int, PlannedCell]]:
        """Place, and a cell, of each task and seed of the same group and length."""
        return self._groups[cell.record.group, cell.record.length]

    @cached_property
    def _groups(self) -> dict[tuple[str, int | None], dict[int, tuple[int, PlannedCell]]]:
        """Data sets by group and length; looked up, as a sweep has thousands of cells."""
        found: dict[tuple[str, int | None], dict[int, tuple[int, PlannedCell]]] = {}
        for alike in by_examples(self.cells):
            fellows = found.setdefault((alike[0].record.group, alike[0].record.length), {})
            fellows[id(alike[0].examples)] = (len(fellows), alike[0])
        return found

    def cell(self, cell_id: str) -> PlannedCell:
        """Return the cell of that id."""
        return self._by_id[cell_id]

    @cached_property
    def _by_id(self) -> dict[str, PlannedCell]:
        return {cell.record.cell_id: cell for cell in self.cells}

    def reference_of(self, cell: PlannedCell) -> PlannedCell | None:
        """Return the full-prefill cell that a cell's deltas refer to, or None."""
        wanted = cell.record.reference_cell_id
        return None if wanted is None else self._by_id.get(wanted)

    def has_reference(self, cell: PlannedCell) -> bool:
        """Whether any cell on the same examples is compared with full prefill."""
        return id(cell.examples) in self._compared

    @cached_property
    def _compared(self) -> frozenset[int]:
        """The data sets on which some cell has a reference."""
        cells = (cell for cell in self.cells if cell.record.reference_cell_id is not None)
        return frozenset(id(cell.examples) for cell in cells)

    @cached_property
    def longest(self) -> Prompt:
        """The longest prompt of all cells."""
        prompts = (
            e.prompt for alike in by_examples(self.cells) for e in alike[0].examples.examples
        )
        return max(prompts, key=lambda prompt: len(prompt.token_ids))

    @property
    def specs(self) -> list[EngineSpec]:
        """The engines the plan needs, the reference's first, each once."""
        return list(dict.fromkeys(cell.spec for cell in self.cells))


def build_plan(config: RunConfig, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Plan:
    """Resolve a configuration into a plan.

    Raises
    ------
    HarnessError
        Whatever is wrong with the configuration, in one line.
    """
    from harness.models.presets import resolve
    from harness.models.tokenizer import Tokenizer

    arms = expand_arms(config, overrides)
    sizes = (config.limit, config.latency_samples, config.data)
    first_look = all(size is None for size in sizes)
    tasks, notices = _tasks(config)
    config = _with_limit(config, tasks)
    models = resolve(config.preset, config.target, config.speculator)
    tokenizer = Tokenizer.load(str(models.target))
    models = replace(models, speculator_options=tuple(config.speculator_args.items()))
    base = EngineSpec(
        config.engine,
        str(models.target),
        config.dtype,
        models.max_positions,
        options=tuple(config.engine_args.items()),
    )
    check_target(base)
    if any("scorer" in planned.method.needs for planned in arms):
        check_scorer(scorer_spec(base, models))
    load = partial(_load, config, tokenizer=tokenizer, max_positions=models.max_positions)
    loaded = [
        (load(task, length, seed), length, seed)
        for task in tasks
        for length in _lengths(config, task)
        for seed in config.seed
    ]
    if config.query_from:
        field = config.query_from
        loaded = [(_with_queries(found, field), size, seed) for found, size, seed in loaded]
    base = replace(base, max_model_len=_engine_length(loaded, models.max_positions))
    builder = CellBuilder(config, models, arms, base)
    cells = tuple(
        cell for examples, length, seed in loaded for cell in builder.build(examples, length, seed)
    )
    return Plan(config, models, tokenizer, cells, tuple(notices), base.max_model_len, first_look)


def _with_limit(config: RunConfig, tasks: Sequence[TaskInfo | None]) -> RunConfig:
    """Spread the examples of a first look over the tasks; a user's own rows are all run."""
    if config.limit is not None or config.data is not None:
        return config
    parts = len(tasks) * len(config.length) * len(config.seed)
    return config.model_copy(update={"limit": max(1, DEFAULT_EXAMPLES // parts)})


def _engine_length(
    loaded: Sequence[tuple[TaskExamples, int | None, int]], max_positions: int
) -> int:
    """Positions the longest prompt and its answer reach, rounded up within the model's range."""
    # The latency protocol generates a few tokens of its own after the same prompts.
    longest = max(
        max(e.reach, len(e.prompt.token_ids) + TIMED_TOKENS)
        for examples, *_ in loaded
        for e in examples.examples
    )
    return min(-(-longest // _ROUND) * _ROUND, max_positions)


def _with_queries(examples: TaskExamples, field: str) -> TaskExamples:
    """Take the question from a field of each document, where the task names none itself.

    Raises
    ------
    ConfigError
        A document has no such field.
    """
    found = []
    for example in examples.examples:
        if example.prompt.query is None:
            if not isinstance(example.doc.get(field), str):
                raise ConfigError(
                    f"--query-from {field}: no text of that name in {example.record.example_id}"
                    f"{nearest(field, map(str, example.doc))}"
                )
            prompt = replace(example.prompt, query=example.doc[field])
            example = replace(example, prompt=prompt)  # noqa: PLW2901
        found.append(example)
    return replace(examples, examples=found)


def _tasks(config: RunConfig) -> tuple[list[TaskInfo | None], list[str]]:
    """Tasks to run; members of a group whose data are absent are left out with a notice."""
    from harness.tasks.catalogue import require_data, resolve

    if config.data is not None:
        if config.ruler_official:
            raise ConfigError("--ruler-official makes RULER's prompts; --data brings its own")
        return [None], []
    asked = set(config.task)
    tasks = resolve(config.task)
    notices = []
    ready: list[TaskInfo | None] = []
    for task in tasks:
        if task.name in asked:
            require_data(task)
        if task.ready:
            ready.append(task)
        else:
            missing = ", ".join(task.missing)
            notices.append(
                f"{task.name} is left out: its data are not here (harness data pull {missing}, "
                "or harness data import FILE)"
            )
    if not ready:
        raise ConfigError(f"no task of {', '.join(config.task)} is ready: {notices[0]}")
    if config.ruler_official:
        if not any(task is not None and task.group == "ruler" for task in ready):
            raise ConfigError("--ruler-official is about RULER's lengths; no task of RULER's runs")
        notices.append(
            "RULER's lengths are filled as NVIDIA's scripts do: new tokens count into them"
        )
    return ready, notices


def _lengths(config: RunConfig, task: TaskInfo | None) -> tuple[int | None, ...]:
    """Lengths to run a task at; None is as long as its data are, up to the model's range.

    Prompts that are not made to a length are cut to one only where the user gave it.
    """
    if task is None:
        return (None,)
    return config.length if task.sized or "length" in config.model_fields_set else (None,)


def _load(
    config: RunConfig,
    task: TaskInfo | None,
    length: int | None,
    seed: int,
    *,
    tokenizer: Tokenizer,
    max_positions: int,
) -> TaskExamples:
    from harness.tasks.examples import load_examples

    if task is None:
        from harness.tasks.examples import examples_from_file

        return examples_from_file(
            Path(str(config.data)),
            limit=config.limit,
            tokenizer=tokenizer,
            max_positions=max_positions,
            metric=config.metric,
        )
    return load_examples(
        task,
        length=length,
        seed=seed,
        limit=config.limit,
        tokenizer=tokenizer,
        max_positions=max_positions,
        sample_seed=config.sample_seed,
        ruler_official=config.ruler_official,
    )
