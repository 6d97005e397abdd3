"""Half of the clusters calibrate, half are held out; a hash decides, not a person."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def calibration_half(clusters: Iterable[tuple[str, str]], seed: int) -> frozenset[str]:
    """Return the names of the clusters that calibrate.

    Clusters are put in the order of sha256(seed, name) and taken in turn, within each task, so
    that both halves hold every task. A cluster that several tasks share counts in the first one
    only: no context stands on both sides.

    Parameters
    ----------
    clusters
        Pairs of task and cluster.
    seed
        Another seed gives another split; the same one always gives the same.
    """
    home: dict[str, str] = {}
    for task, cluster in sorted(set(clusters)):
        home.setdefault(cluster, task)
    by_task: dict[str, list[str]] = {}
    for cluster, task in home.items():
        by_task.setdefault(task, []).append(cluster)
    chosen: set[str] = set()
    for members in by_task.values():
        chosen.update(sorted(members, key=lambda name: _rank(name, seed))[::2])
    return frozenset(chosen)


def _rank(cluster: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\x1f{cluster}".encode()).digest()
