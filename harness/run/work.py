"""What of a plan is still to do, and how much work that is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.engines.base import EngineSpec
from harness.run.cells import PlannedCell
from harness.run.plan import Plan
from harness.run.store import Store
from harness.schema.prompts import Prompt

if TYPE_CHECKING:
    from harness.tasks.examples import Example

SCORER_WEIGHT = 0.25
"""A speculator pass as a share of a full prefill, for the ETA only."""


@dataclass
class Outstanding:
    """The (cell, example) pairs and latency blocks that the store does not hold yet."""

    plan: Plan
    pairs_done: set[tuple[str, str]]
    blocks: dict[str, set[int]]
    unsupported: frozenset[str] = frozenset()
    units: float = 0.0
    requests: int = 0
    _timed: set[tuple[EngineSpec, str]] = field(default_factory=set)

    @classmethod
    def of(cls, plan: Plan, store: Store) -> Outstanding:
        """Compare a plan with its store."""
        blocks: dict[str, set[int]] = {}
        for cell_id, block in store.done_blocks():
            blocks.setdefault(cell_id, set()).add(block)
        work = cls(plan, store.done_pairs(), blocks, frozenset(store.unsupported_reasons()))
        for cell in plan.cells:
            pending, timed = len(work.pending(cell)), work.blocks_left(cell)
            work.requests += pending + 4 * timed
            work.units += pending * work.weight(cell) + timed * work.block_weight(cell)
        return work

    def pending(self, cell: PlannedCell) -> list[Example]:
        """Examples of a cell without a quality record."""
        cell_id = cell.record.cell_id
        return [
            example
            for example in cell.examples.examples
            if (cell_id, example.record.example_id) not in self.pairs_done
        ]

    def timed_prompts(self, cell: PlannedCell) -> list[Prompt]:
        """Prompts of a cell's latency blocks; a reference is timed inside its arms' blocks.

        There are none for a method that supports none of the examples.
        """
        if cell.record.cell_id in self.unsupported:
            return []
        if cell.record.reference_cell_id is None and self.plan.has_reference(cell):
            return []
        generative = [e.prompt for e in cell.examples.examples if e.kind == "generate"]
        return generative[: self.plan.latency_samples(cell)]

    def blocks_done(self, cell: PlannedCell) -> set[int]:
        """Blocks of a cell that are complete."""
        return self.blocks.get(cell.record.cell_id, set())

    def blocks_left(self, cell: PlannedCell) -> int:
        """Blocks of a cell that are still to be measured."""
        return max(0, len(self.timed_prompts(cell)) - len(self.blocks_done(cell)))

    def needs(self, spec: EngineSpec) -> bool:
        """Whether any cell of an engine has work left."""
        return any(
            self.pending(cell) or self.blocks_left(cell)
            for cell in self.plan.cells
            if cell.spec == spec
        )

    def first_timing(self, cell: PlannedCell) -> bool:
        """Whether this is the arm's first timing on its engine: it needs a warm-up."""
        key = (cell.spec, cell.record.arm)
        if key in self._timed:
            return False
        self._timed.add(key)
        return True

    def weight(self, cell: PlannedCell) -> float:
        """Expected work of one request, in full prefills of one token."""
        record = cell.record
        share = record.keep if record.keep is not None and record.improves_ttft else 1.0
        scored = SCORER_WEIGHT if "scorer" in cell.method.needs else 0.0
        return float(record.length or 1024) * (share + scored)

    def block_weight(self, cell: PlannedCell) -> float:
        """Expected work of one latency block: two requests of the arm, two of the reference."""
        reference = self.plan.reference_of(cell)
        other = cell if reference is None else reference
        return 2 * self.weight(cell) + 2 * self.weight(other)
