"""What a worker takes of a node: GPUs where its engine runs on them, else CPU slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.engines.base import EngineSpec
from harness.engines.vllm import flavour
from harness.errors import ConfigError
from harness.run.executors.on_ray.cluster import Node

SPECULATOR_GPUS = "speculator_gpus"
"""Engine option: GPUs that the speculator has to itself; 0, the default, shares the target's."""


@dataclass(frozen=True, slots=True)
class Room:
    """What one worker takes, all on one node: target and speculator talk through memory."""

    cpus: int
    gpus: int = 0

    def fits(self, node: Node) -> int:
        """How many such workers a node has room for."""
        by_cpu = node.cpus // self.cpus
        return min(by_cpu, node.gpus // self.gpus) if self.gpus else by_cpu

    def bundle(self) -> dict[str, float]:
        """Ray's name for it."""
        found: dict[str, float] = {"CPU": self.cpus}
        return found | ({"GPU": self.gpus} if self.gpus else {})


def gpus_of(spec: EngineSpec) -> int:
    """GPUs that an engine takes where there are any: ranks × stages, and the speculator's own.

    The fake engine takes none, nor does a vLLM that was built for CPUs.
    """
    found = flavour.installed()
    on_cpu = spec.engine == "vllm" and found is not None and found.device == "cpu"
    if spec.engine == "fake" or on_cpu:
        return 0
    options: dict[str, Any] = dict(spec.options)
    ranks = int(options.get("tensor_parallel", 1)) * int(options.get("pipeline_parallel", 1))
    return ranks + int(options.get(SPECULATOR_GPUS, 0))


def rooms(specs: Iterable[EngineSpec], nodes: Sequence[Node], workers: int | None) -> list[Room]:
    """Return one room for each worker of a run.

    A room serves every engine of the plan: workers go from one to the next. On GPUs it is the
    widest engine's devices. Elsewhere real engines compute on all cores they have, so that a
    worker takes a node, or with ``workers`` an equal share of one; the fake engine takes a slot.

    Parameters
    ----------
    workers
        How many to make; left out, as many as there is room for. More than there is room for now
        wait until nodes join.

    Raises
    ------
    ConfigError
        No node has room for a single worker.
    """
    specs = list(specs)
    wide = max(map(gpus_of, specs))
    if wide and any(node.gpus for node in nodes):
        return _equal(Room(1, wide), nodes, workers)
    if all(spec.engine == "fake" for spec in specs):
        return _equal(Room(1), nodes, workers)
    if workers is None:
        return [Room(node.cpus) for node in nodes if node.cpus] or _equal(Room(1), nodes, None)
    share = max((node.cpus for node in nodes), default=1)
    while share > 1 and sum(node.cpus // share for node in nodes) < workers:
        share -= 1
    return _equal(Room(max(1, share)), nodes, workers)


def _equal(room: Room, nodes: Sequence[Node], workers: int | None) -> list[Room]:
    count = sum(room.fits(node) for node in nodes)
    if not count:
        most = max((node.gpus for node in nodes), default=0)
        what = f"{room.gpus} GPUs on one node; the largest has {most}" if room.gpus else "a CPU"
        raise ConfigError(f"no node of the Ray cluster has room for a worker: it takes {what}")
    return [room] * (workers or count)
