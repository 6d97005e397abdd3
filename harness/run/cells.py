"""Cells and their identity: what must be equal for a measurement to be the same one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harness.engines.base import EngineSpec
from harness.errors import ModelError
from harness.methods.base import Method
from harness.methods.registry import outside_code
from harness.run.arms import REFERENCE, PlannedArm
from harness.run.config import RunConfig, canonical_digest
from harness.schema.records import SCHEMA_VERSION, CellRecord
from harness.tasks.definition import definition_of

if TYPE_CHECKING:
    from harness.models.presets import ResolvedModels
    from harness.tasks.examples import TaskExamples


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell with the live objects that run it; cells of one data set share its examples."""

    record: CellRecord
    method: Method
    spec: EngineSpec
    examples: TaskExamples

    @property
    def max_tokens(self) -> int:
        """Most tokens that an example of the cell may generate."""
        return max(int(example.sampling.max_tokens) for example in self.examples.examples)


@dataclass(frozen=True)
class CellBuilder:
    """Makes the cells of one task, length and data seed after another."""

    config: RunConfig
    models: ResolvedModels
    arms: Sequence[PlannedArm]
    base: EngineSpec

    @cached_property
    def _own_digests(self) -> dict[str, str | None]:
        """Digest of each model that only one method uses; weights are read once a plan."""
        names = {name for planned in self.arms for name in planned.method.own_models}
        return {name: _model_digest(name) for name in names}

    def build(
        self, examples: TaskExamples, length: int | None, seed: int
    ) -> tuple[PlannedCell, ...]:
        """Cells on some examples; each engine gets its own full-prefill reference first."""
        references: dict[str, str] = {}
        cells: dict[str, PlannedCell] = {}
        data_digest = canonical_digest([e.record.content_digest for e in examples.examples])
        definition = {"data_digest": data_digest, **definition_of(examples)}

        def add(planned: PlannedArm, spec: EngineSpec) -> None:
            is_reference = planned.arm.method == REFERENCE
            own = self.base.options if spec.engine == self.base.engine else ()
            plain = replace(spec, attention="dense", prefill="standard", options=own)
            if self.config.reference and not is_reference and plain.engine not in references:
                add(self.arms[0], plain)
            record = self._record(planned, spec, examples, (length, seed, definition))
            if is_reference:
                references[spec.engine] = record.cell_id
            else:
                record = replace(record, reference_cell_id=references.get(spec.engine))
            cell = PlannedCell(record, planned.method, spec, examples)
            cells.setdefault(record.cell_id, cell)

        for planned in self.arms:
            add(planned, planned.method.engine_spec(self.base))
        return tuple(cells.values())

    def _record(
        self,
        planned: PlannedArm,
        spec: EngineSpec,
        examples: TaskExamples,
        place: tuple[int | None, int, Mapping[str, Any]],
    ) -> CellRecord:
        length, seed, definition = place
        method = planned.method
        elsewhere = spec.engine if spec.engine != self.base.engine else None
        arm = replace(planned.arm, elsewhere=elsewhere)
        needs = method.needs
        uses_speculator = "scorer" in needs or "speculator" in needs
        options = json.loads(json.dumps(arm.options, default=str))
        digests = self.models.digests
        identity = {
            "schema": SCHEMA_VERSION,
            "task": examples.task.name,
            "task_version": examples.task.version,
            **definition,
            "length": length,
            "seed": seed,
            "method": arm.method,
            "method_version": method.version,
            "options": options,
            "method_seed": arm.method_seed if method.stochastic else None,
            "sample_seed": self.config.sample_seed,
            "engine": spec.engine,
            "dtype": spec.dtype,
            "attention": spec.attention,
            "prefill": spec.prefill,
            "engine_options": [list(pair) for pair in spec.options],
            "target": digests.get("target"),
            "speculator": digests.get("speculator") if uses_speculator else None,
        }
        if uses_speculator and self.models.speculator_options:
            identity["speculator_options"] = [list(p) for p in self.models.speculator_options]
        own = {name: self._own_digests[name] for name in method.own_models}
        if own:
            identity["models"] = own
        foreign = outside_code(method, spec)
        if foreign:
            identity["method_code"] = foreign
        return CellRecord(
            cell_id=canonical_digest(identity)[:16],
            task=examples.task.name,
            group=examples.task.group,
            category=examples.task.category,
            metric=examples.task.metric,
            length=length,
            arm=arm.name,
            method=arm.method,
            options=options,
            keep=arm.keep,
            look_ahead=arm.look_ahead,
            seed=seed,
            method_seed=arm.method_seed,
            sample_seed=self.config.sample_seed,
            engine=spec.engine,
            dtype=spec.dtype,
            target=self.models.target_name,
            speculator=self.models.speculator_name if uses_speculator else None,
            budget_kind=str(method.budget_kind),
            improves_ttft=method.improves_ttft,
            reference_cell_id=None,
            identity=identity,
            base=arm.base,
            pool=arm.pool,
            series=arm.series,
        )


def by_examples(cells: Iterable[PlannedCell]) -> list[list[PlannedCell]]:
    """Cells that share their examples, together, in the plan's order."""
    found: dict[int, list[PlannedCell]] = {}
    for cell in cells:
        found.setdefault(id(cell.examples), []).append(cell)
    return list(found.values())


def _model_digest(name: str) -> str | None:
    """Digest of a model on this machine; None of one that is not, as its method says itself."""
    from harness.models.folders import digest_of, locate

    try:
        folder = locate(name)
    except ModelError:
        return None
    return None if folder is None else digest_of(folder)
