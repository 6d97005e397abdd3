"""Nodes for latency: alike, and one worker alone on each. Where none is free, the plan refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.errors import ConfigError
from harness.run.executors.on_ray.checks import Facts, machine_class
from harness.run.executors.on_ray.cluster import Node
from harness.run.store import Store

FREE_WAIT_S = 30.0
"""How long to wait for a whole node at the start; a cluster that was just left needs a moment."""


def alone_on(node: Node) -> dict[str, float]:
    """Return a bundle that takes a whole node: Ray places nothing else on it then."""
    whole: dict[str, float] = {"CPU": node.cpus, f"node:{node.address}": 0.001}
    return whole | ({"GPU": node.gpus} if node.gpus else {})


def earlier_machine(store: Store) -> str | None:
    """Class of the machines on which a store's times were taken; None where it has none.

    Raises
    ------
    ConfigError
        They were taken on unlike machines already.
    """
    found = {place.get("machine") for place in store.timed_places()}
    if not found:
        return None
    # A time without a place was taken by the local executor, on the machine that began the run.
    machines = {machine_class(store.run().machine) if m is None else m for m in found}
    if len(machines) > 1:
        raise ConfigError(
            f"{store.folder} holds times of unlike machines ({'; '.join(sorted(machines))}): "
            "no more are added; choose another --out"
        )
    return machines.pop()


def alike_and_free(
    nodes: Sequence[Node], facts: Mapping[str, Facts], machine: str | None
) -> list[Node]:
    """Return nodes of one class of which each can be had whole now.

    Parameters
    ----------
    facts
        By node name.
    machine
        The class on which times of this run were taken before.

    Raises
    ------
    ConfigError
        No such node is free: times beside other work would not be the method's.
    """
    classes: dict[str, list[Node]] = {}
    for node in nodes:
        if node.name in facts:
            classes.setdefault(facts[node.name].machine, []).append(node)
    if machine is not None and machine not in classes:
        raise ConfigError(
            f"the times of this run were taken on {machine}, and no node of the cluster is one: "
            "resume it there, or leave the rest out with --latency-samples 0 and another --out"
        )
    chosen = classes[machine] if machine else max(classes.values(), key=len)
    free = _free(chosen)
    if not free:
        raise ConfigError(
            "latency needs a node to itself, and other work holds a part of every node of the "
            "cluster: wait for it, or time nothing with --latency-samples 0"
        )
    return free


def _free(nodes: Sequence[Node]) -> list[Node]:
    """Nodes that Ray can set aside whole; they are given back at once."""
    import ray
    from ray.util import placement_group, remove_placement_group

    groups = [placement_group([alone_on(node)], strategy="STRICT_PACK") for node in nodes]
    refs = [group.ready() for group in groups]
    try:
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=FREE_WAIT_S)
    finally:
        for group in groups:
            remove_placement_group(group)
    return [node for node, ref in zip(nodes, refs, strict=True) if ref in ready]
