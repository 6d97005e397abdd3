"""What of a plan is still to do, and how much work that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.engines.base import EngineSpec
from harness.methods.base import Method
from harness.run.cells import PlannedCell
from harness.run.plan import Plan
from harness.run.store import Store
from harness.schema.prompts import Prompt

if TYPE_CHECKING:
    from harness.tasks.examples import Example

SCORER_WEIGHT = 0.25
"""A speculator pass as a share of a full prefill, for the ETA only."""


@dataclass(frozen=True)
class Timing:
    """The latency blocks of one cell.

    Attributes
    ----------
    reference
        Full prefill on the same engine; None where the run has none.
    prompts
        One a block, in the blocks' order.
    done
        Blocks that are complete.
    before
        The arm's blocks on earlier tasks of its group: orders alternate over the group.
    """

    cell: PlannedCell
    reference: Method | None
    prompts: tuple[Prompt, ...]
    done: frozenset[int]
    before: int

    @property
    def left(self) -> int:
        """Blocks that are still to be measured."""
        return max(0, len(self.prompts) - len(self.done))


class Outstanding:
    """The (cell, example) pairs and latency blocks that the store does not hold yet.

    A byte a pair tells what is done: a plan of ten thousand cells takes a few megabytes, and no
    more as it goes on.

    Attributes
    ----------
    units, requests
        All that was left at the start: expected work (:meth:`weight`) and number of requests.
    unsupported
        Cells none of whose examples their method supports: they are not timed.
    """

    def __init__(self, plan: Plan, store: Store) -> None:
        self.plan = plan
        self.unsupported = frozenset(store.unsupported_reasons())
        self._places: dict[int, dict[str, int]] = {}
        self._done: dict[str, bytearray] = {}
        self._blocks: dict[str, set[int]] = {}
        cells = {cell.record.cell_id: cell for cell in plan.cells}
        for cell_id, cell in cells.items():
            self._done[cell_id] = bytearray(len(cell.examples.examples))
        for cell_id, example_id in store.done_pairs():
            if cell_id in cells:
                self.mark(cells[cell_id], example_id)
        for cell_id, block in store.done_blocks():
            self._blocks.setdefault(cell_id, set()).add(block)
        self.units, self.requests = 0.0, 0
        for cell in plan.cells:
            pending, timed = self.pending_count(cell), self.blocks_left(cell)
            self.requests += pending + 4 * timed
            self.units += pending * self.weight(cell) + timed * self.block_weight(cell)

    def is_pending(self, cell: PlannedCell, example_id: str) -> bool:
        """Whether a pair is still without a quality record."""
        return not self._done[cell.record.cell_id][self._index(cell)[example_id]]

    def is_timed(self, cell: PlannedCell, block: int) -> bool:
        """Whether a latency block is recorded."""
        return block in self._blocks.get(cell.record.cell_id, ())

    def mark(self, cell: PlannedCell, example_id: str) -> bool:
        """Note that a pair is recorded; False where it was before."""
        place = self._index(cell)[example_id]
        done = self._done[cell.record.cell_id]
        fresh = not done[place]
        done[place] = 1
        return fresh

    def mark_block(self, cell: PlannedCell, block: int) -> None:
        """Note that a latency block is recorded."""
        self._blocks.setdefault(cell.record.cell_id, set()).add(block)

    def pending(self, cell: PlannedCell) -> list[Example]:
        """Examples of a cell without a quality record."""
        done = self._done[cell.record.cell_id]
        return [e for e, is_done in zip(cell.examples.examples, done, strict=True) if not is_done]

    def pending_count(self, cell: PlannedCell) -> int:
        """Number of examples of a cell without a quality record."""
        return self._done[cell.record.cell_id].count(0)

    def pending_in(self, cell: PlannedCell, start: int, stop: int) -> list[Example]:
        """Examples ``start`` … ``stop`` − 1 of a cell without a quality record."""
        done = self._done[cell.record.cell_id]
        examples = cell.examples.examples
        return [examples[i] for i in range(start, min(stop, len(done))) if not done[i]]

    def timing(self, cell: PlannedCell) -> Timing:
        """Return a cell's latency blocks; a reference is timed inside its arms' blocks.

        There are none for a method that supports none of the examples.
        """
        reference = self.plan.reference_of(cell)
        return Timing(
            cell=cell,
            reference=None if reference is None else reference.method,
            prompts=self._timed_prompts(cell),
            done=frozenset(self._blocks.get(cell.record.cell_id, ())),
            before=self.plan.blocks_before(cell),
        )

    def _timed_prompts(self, cell: PlannedCell) -> tuple[Prompt, ...]:
        samples = self.plan.latency_samples(cell)
        if not samples or cell.record.cell_id in self.unsupported:
            return ()
        if cell.record.reference_cell_id is None and self.plan.has_reference(cell):
            return ()
        generative = [e.prompt for e in cell.examples.examples if e.kind == "generate"]
        return tuple(generative[:samples])

    def blocks_left(self, cell: PlannedCell) -> int:
        """Blocks of a cell that are still to be measured."""
        done = self._blocks.get(cell.record.cell_id, ())
        return max(0, len(self._timed_prompts(cell)) - len(done))

    def needs(self, spec: EngineSpec) -> bool:
        """Whether any cell of an engine has work left."""
        return any(
            self.pending_count(cell) or self.blocks_left(cell)
            for cell in self.plan.cells
            if cell.spec == spec
        )

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

    def _index(self, cell: PlannedCell) -> dict[str, int]:
        """Place of each example, made once for the cells that share them."""
        key = id(cell.examples)
        if key not in self._places:
            ids: Sequence[Example] = cell.examples.examples
            self._places[key] = {e.record.example_id: place for place, e in enumerate(ids)}
        return self._places[key]
