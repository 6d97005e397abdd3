"""Looks at every node before the first example: code, vLLM and models, by digest."""

from __future__ import annotations

from collections.abc import Sequence

from harness.run.executors.on_ray.checks import Facts, Needs, examine, facts_here
from harness.run.executors.on_ray.cluster import Cluster, Node

PROBE_S = 300.0
"""How long a node has to answer: it may prepare an embedded model, and reads large weights."""


def probe(cluster: Cluster, nodes: Sequence[Node], needs: Needs) -> dict[str, Facts]:
    """Return what each node has, by name; a node that cannot answer lacks everything."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    if cluster.joined is None:  # this machine, which the plan was made on
        return {node.name: facts_here() for node in nodes}
    task = ray.remote(_facts)
    asked = {
        node.name: task.options(
            num_cpus=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False),
        ).remote(needs)
        for node in nodes
    }
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=PROBE_S)
    return {name: _answer(name, ref) for name, ref in asked.items()}


def _facts(needs: Needs) -> Facts:
    return examine(needs)[0]


def _answer(name: str, ref: object) -> Facts:
    import ray
    from ray.exceptions import GetTimeoutError, RayError

    try:
        facts: Facts = ray.get(ref, timeout=0)
    except GetTimeoutError:
        return _unknown(name, f"did not answer in {PROBE_S:.0f} s")
    except RayError as error:
        text = " ".join(str(error).split())
        if "No module named 'harness" in text:
            return _unknown(name, "has no harness installed: install this version there")
        return _unknown(name, f"cannot be looked at: {text[-200:]}")
    return facts


def _unknown(name: str, lack: str) -> Facts:
    return Facts(name, "", "", "", None, "", (lack,))
