"""Cells and their identity: what must be equal for a measurement to be the same one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from harness.engines.base import EngineSpec
from harness.errors import ModelError
from harness.methods.base import Method
from harness.run.config import RunConfig, canonical_digest
from harness.run.variants import REFERENCE, Variant
from harness.schema.records import SCHEMA_VERSION, CellRecord

if TYPE_CHECKING:
    from harness.models.presets import ResolvedModels
    from harness.tasks.examples import TaskExamples


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell with the live objects that run it."""

    record: CellRecord
    method: Method
    spec: EngineSpec


@dataclass(frozen=True)
class CellBuilder:
    """Makes the cells of one workload after another."""

    config: RunConfig
    models: ResolvedModels
    variants: Sequence[Variant]
    base: EngineSpec

    @cached_property
    def _own_digests(self) -> dict[str, str | None]:
        """Digest of each model that only one method uses; weights are read once a plan."""
        names = {name for variant in self.variants for name in _own_models(variant.method)}
        return {name: _model_digest(name) for name in names}

    def build(
        self, examples: TaskExamples, length: int | None, seed: int
    ) -> tuple[PlannedCell, ...]:
        """Cells of one workload; each engine gets its own full-prefill reference first."""
        references: dict[str, str] = {}
        cells: dict[str, PlannedCell] = {}
        data_digest = canonical_digest([e.record.content_digest for e in examples.examples])

        def add(variant: Variant, spec: EngineSpec) -> None:
            is_reference = variant.method_name == REFERENCE
            plain = replace(spec, attention="dense", prefill="standard", options=())
            if self.config.reference and not is_reference and plain.engine not in references:
                add(self.variants[0], plain)
            record = self._record(variant, spec, examples, (length, seed, data_digest))
            if is_reference:
                references[spec.engine] = record.cell_id
            else:
                record = replace(record, reference_cell_id=references.get(spec.engine))
            cells.setdefault(record.cell_id, PlannedCell(record, variant.method, spec))

        for variant in self.variants:
            add(variant, variant.method.engine_spec(self.base))
        return tuple(cells.values())

    def _record(
        self,
        variant: Variant,
        spec: EngineSpec,
        examples: TaskExamples,
        place: tuple[int | None, int, str],
    ) -> CellRecord:
        length, seed, data_digest = place
        needs = variant.method.needs
        uses_speculator = "scorer" in needs or "speculator" in needs
        options = json.loads(json.dumps(variant.options, default=str))
        digests = self.models.digests
        identity = {
            "schema": SCHEMA_VERSION,
            "task": examples.task.name,
            "task_version": examples.task.version,
            "data_digest": data_digest,
            "length": length,
            "seed": seed,
            "method": variant.method_name,
            "method_version": getattr(variant.method, "version", 1),
            "options": options,
            "method_seed": variant.method_seed if variant.method.stochastic else None,
            "sample_seed": self.config.sample_seed,
            "engine": spec.engine,
            "dtype": spec.dtype,
            "attention": spec.attention,
            "prefill": spec.prefill,
            "engine_options": [list(pair) for pair in spec.options],
            "target": digests.get("target"),
            "speculator": digests.get("speculator") if uses_speculator else None,
        }
        own = {name: self._own_digests[name] for name in _own_models(variant.method)}
        if own:
            identity["models"] = own
        elsewhere = spec.engine != self.base.engine
        return CellRecord(
            cell_id=canonical_digest(identity)[:16],
            task=examples.task.name,
            group=examples.task.group,
            category=examples.task.category,
            metric=examples.task.metric,
            length=length,
            arm=f"{variant.arm}@{spec.engine}" if elsewhere else variant.arm,
            method=variant.method_name,
            options=options,
            keep=variant.keep,
            look_ahead=variant.look_ahead,
            seed=seed,
            method_seed=variant.method_seed,
            sample_seed=self.config.sample_seed,
            engine=spec.engine,
            dtype=spec.dtype,
            target=self.models.target_name,
            speculator=self.models.speculator_name if uses_speculator else None,
            budget_kind=str(variant.method.budget_kind),
            improves_ttft=variant.method.improves_ttft,
            reference_cell_id=None,
            identity=identity,
        )


def _own_models(method: Method) -> tuple[str, ...]:
    """Models that only this method uses (a retriever's, a compressor's)."""
    names: tuple[str, ...] = getattr(method, "own_models", ())
    return names


def _model_digest(name: str) -> str | None:
    """Digest of a model on this machine; None of one that is not, as its method says itself."""
    from harness.models.folders import digest_of, locate

    try:
        folder = locate(name)
    except ModelError:
        return None
    return None if folder is None else digest_of(folder)
