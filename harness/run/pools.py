"""Which cells generate together, so that small cells share the engine's batches.

A group of eleven tasks with one example each would otherwise decode eleven times alone; decode
steps cost nearly the same for one sequence as for eight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.engines.base import EngineSpec
from harness.run.cells import PlannedCell
from harness.run.plan import Workload

POOL_EXAMPLES = 64
"""Most examples of workloads run together: what is kept per example is kept for as many."""

Member = tuple[PlannedCell, Workload]


def bundles(workloads: Sequence[Workload], most: int = POOL_EXAMPLES) -> Iterator[list[Workload]]:
    """Split workloads into runs of neighbours with at most ``most`` examples, or one alone."""
    bundle: list[Workload] = []
    size = 0
    for workload in workloads:
        count = len(workload.examples.examples)
        if bundle and size + count > most:
            yield bundle
            bundle, size = [], 0
        bundle.append(workload)
        size += count
    if bundle:
        yield bundle


def columns(bundle: Sequence[Workload], spec: EngineSpec) -> list[list[Member]]:
    """Cells of one engine, those of one arm together, longest look-ahead first.

    The longest look-ahead comes first so that its scores serve the others.
    """
    found: dict[tuple[object, ...], list[Member]] = {}
    for workload in bundle:
        for cell in workload.cells:
            if cell.spec == spec:
                record = cell.record
                key = (record.arm, record.keep, record.look_ahead, record.method_seed)
                found.setdefault(key, []).append((cell, workload))
    return sorted(found.values(), key=lambda members: -(members[0][0].record.look_ahead or 0))
