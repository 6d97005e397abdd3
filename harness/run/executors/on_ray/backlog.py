"""What of a plan is queued, out with a worker, and lost: nothing is forgotten, nothing runs twice.

A *piece* is some examples of one or more data sets with every cell of one engine on them, so that
one speculator pass still serves all keep rates. A piece that is lost with its worker is handed
out again with what it still lacks; lost twice, it goes on cell by cell, so that a cell that kills
its worker is found; lost once more, its cells have failed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

from harness.engines.base import EngineSpec
from harness.run.cells import PlannedCell, by_examples
from harness.run.executors.on_ray.messages import Shard, TimedGroup, Unit
from harness.run.executors.on_ray.shipping import Scorings, slim
from harness.run.outcome import Stopped
from harness.run.pools import POOL_EXAMPLES, by_arm
from harness.run.recording import Recorder

TRIES = 3
"""How often a piece of work is begun before its cells have failed."""

TURNS = 4
"""Pieces a worker gets on average: few enough for full batches, enough that all end together."""


@dataclass(frozen=True)
class Piece:
    """Slices of data sets with the cells on them; ``tries`` counts how often it was lost."""

    spec: EngineSpec
    slices: tuple[tuple[tuple[PlannedCell, ...], int, int], ...]
    tries: int = 0

    @property
    def cells(self) -> Iterator[PlannedCell]:
        """Every cell, once a slice."""
        return chain.from_iterable(cells for cells, *_ in self.slices)

    def split(self) -> list[Piece]:
        """Return a piece for each cell."""
        return [
            replace(self, slices=(((cell,), start, stop),))
            for cells, start, stop in self.slices
            for cell in cells
        ]


@dataclass
class Backlog(ABC):
    """Pieces by engine, and which of them are out under which number."""

    recorder: Recorder
    _queues: dict[EngineSpec, deque[Piece]] = field(default_factory=dict)
    _out: dict[int, Piece] = field(default_factory=dict)
    _next: int = 0

    @abstractmethod
    def make(self, number: int, piece: Piece) -> Unit | None:
        """Return what a piece still lacks; None where that is nothing."""

    def add(self, pieces: Iterable[Piece]) -> None:
        """Queue pieces behind those that are there."""
        for piece in pieces:
            self._queues.setdefault(piece.spec, deque()).append(piece)

    @property
    def specs(self) -> list[EngineSpec]:
        """Engines with work queued."""
        return [spec for spec, queue in self._queues.items() if queue]

    def queued(self, spec: EngineSpec | None = None) -> int:
        """Number of pieces that wait, for one engine or all."""
        if spec is not None:
            return len(self._queues.get(spec, ()))
        return sum(map(len, self._queues.values()))

    @property
    def is_done(self) -> bool:
        """Whether nothing waits and nothing is out."""
        return not self._out and not self.queued()

    def take(self, spec: EngineSpec) -> Unit | None:
        """Hand out the next piece of an engine; None where none is left."""
        queue = self._queues.get(spec, deque())
        while queue:
            piece = queue.popleft()
            unit = self.make(self._next, piece)
            if unit is not None:
                self._out[self._next] = piece
                self._next += 1
                return unit
        return None

    def finished(self, number: int) -> None:
        """Note that a piece is through."""
        self._out.pop(number, None)

    def returned(self, number: int) -> None:
        """Queue a piece again, first, that its worker had not begun or could not help losing."""
        piece = self._out.pop(number, None)
        if piece is not None:
            self._queues.setdefault(piece.spec, deque()).appendleft(piece)

    def all_returned(self) -> None:
        """Queue everything again that is out: the cluster is gone."""
        for number in list(self._out):
            self.returned(number)

    def lost(self, number: int, reason: str) -> None:
        """Queue a piece again whose worker died over it, or fail its cells.

        Parameters
        ----------
        reason
            How the worker ended, in one line.
        """
        piece = self._out.pop(number, None)
        if piece is None:
            return
        piece = replace(piece, tries=piece.tries + 1)
        cells = list({cell.record.cell_id: cell for cell in piece.cells}.values())
        if piece.tries >= TRIES:
            for cell in cells:
                self._fail(cell, f"{reason} ({piece.tries} times, each on this cell)")
            return
        queue = self._queues.setdefault(piece.spec, deque())
        alone = piece.tries == TRIES - 1 and len(cells) > 1
        queue.extendleft(reversed(piece.split() if alone else [piece]))

    def fail_all(self, spec: EngineSpec, reason: str, *, refused: bool = False) -> None:
        """Fail what waits for an engine that nobody can start."""
        waiting = self._queues.pop(spec, deque())
        cells = {cell.record.cell_id: cell for piece in waiting for cell in piece.cells}
        for cell in cells.values():
            self._fail(cell, reason, refused=refused)

    def _fail(self, cell: PlannedCell, reason: str, *, refused: bool = False) -> None:
        if not self.recorder.outcome.stopped(cell):
            self.recorder.stop(Stopped(cell.record.cell_id, reason, refused))


class QualityBacklog(Backlog):
    """The (cell, example) pairs that are left, in pieces of neighbouring examples."""

    def __init__(self, recorder: Recorder, workers: int) -> None:
        super().__init__(recorder)
        self._scorings = Scorings()
        for spec in recorder.plan.specs:
            cells = [cell for cell in recorder.plan.cells if cell.spec == spec]
            self.add(_pieces(spec, cells, self._size(cells, workers), recorder))

    def make(self, number: int, piece: Piece) -> Shard | None:
        """Return the pairs of a piece that are pending, with their examples."""
        outcome, work = self.recorder.outcome, self.recorder.work
        cells: list[PlannedCell] = []
        pending: dict[str, frozenset[str]] = {}
        for members, start, stop in piece.slices:
            examples = None
            for cell in members:
                lacking = () if outcome.stopped(cell) else work.pending_in(cell, start, stop)
                if lacking:
                    if examples is None:
                        examples = slim(cell.examples, start, stop, self._scorings)
                    cells.append(replace(cell, examples=examples))
                    ids = frozenset(example.record.example_id for example in lacking)
                    pending[cell.record.cell_id] = ids
        return Shard(number, tuple(cells), pending) if cells else None

    @staticmethod
    def _size(cells: list[PlannedCell], workers: int) -> int:
        """Examples a piece: :data:`TURNS` pieces a worker, none larger than a pool."""
        total = sum(len(alike[0].examples.examples) for alike in by_examples(cells))
        return max(1, min(POOL_EXAMPLES, -(-total // (TURNS * workers))))


class TimingBacklog(Backlog):
    """The latency blocks that are left: on one node what is read together."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        groups: dict[tuple[object, ...], list[PlannedCell]] = {}
        for cell in recorder.plan.cells:
            if recorder.work.blocks_left(cell) and not recorder.outcome.stopped(cell):
                key = cell.spec, cell.record.group, cell.record.length
                groups.setdefault(key, []).append(cell)
        for cells in groups.values():
            ordered = chain.from_iterable(map(by_arm, by_examples(cells)))
            members = tuple(chain.from_iterable(ordered))
            slices = tuple(((cell,), 0, len(cell.examples.examples)) for cell in members)
            self.add([Piece(members[0].spec, slices)])
        self._scorings = Scorings()

    def make(self, number: int, piece: Piece) -> TimedGroup | None:
        """Return the blocks of a piece that are left."""
        outcome, work = self.recorder.outcome, self.recorder.work
        timings = []
        for cell in piece.cells:
            timing = work.timing(cell)
            if timing.left and not outcome.stopped(cell):
                some = slim(cell.examples, 0, 1, self._scorings)
                timings.append(replace(timing, cell=replace(cell, examples=some)))
        return TimedGroup(number, tuple(timings)) if timings else None


def _pieces(
    spec: EngineSpec, cells: list[PlannedCell], size: int, recorder: Recorder
) -> Iterator[Piece]:
    """Cut data sets into slices of ``size`` examples; small ones share a piece."""
    slices: list[tuple[tuple[PlannedCell, ...], int, int]] = []
    held = 0
    for alike in by_examples(cells):
        members = tuple(cell for cell in alike if recorder.work.pending_count(cell))
        count = len(alike[0].examples.examples) if members else 0
        for start in range(0, count, size):
            stop = min(start + size, count)
            if slices and held + stop - start > size:
                yield Piece(spec, tuple(slices))
                slices, held = [], 0
            slices.append((members, start, stop))
            held += stop - start
    if slices:
        yield Piece(spec, tuple(slices))
