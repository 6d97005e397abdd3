"""Which cells generate together, so that small cells share the engine's batches.

A group of eleven tasks with one example each would otherwise decode eleven times alone; decode
steps cost nearly the same for one sequence as for eight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness.run.cells import PlannedCell, by_examples

POOL_EXAMPLES = 64
"""Most examples that run together: what is kept per example is kept for as many."""


def pools(cells: Sequence[PlannedCell], most: int = POOL_EXAMPLES) -> Iterator[list[PlannedCell]]:
    """Split cells into neighbours with at most ``most`` examples; one data set is never split."""
    pool: list[PlannedCell] = []
    size = 0
    for alike in by_examples(cells):
        count = len(alike[0].examples.examples)
        if pool and size + count > most:
            yield pool
            pool, size = [], 0
        pool += alike
        size += count
    if pool:
        yield pool


def by_arm(cells: Iterable[PlannedCell]) -> list[list[PlannedCell]]:
    """Cells of one arm together, the longest look-ahead first: its scores serve the others."""
    found: dict[tuple[object, ...], list[PlannedCell]] = {}
    for cell in cells:
        record = cell.record
        key = (record.arm, record.keep, record.look_ahead, record.method_seed)
        found.setdefault(key, []).append(cell)
    return sorted(found.values(), key=lambda alike: -(alike[0].record.look_ahead or 0))
