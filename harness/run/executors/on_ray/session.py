"""A run's time on one cluster: quality spread over all workers, then latency on nodes alone."""

from __future__ import annotations

import os
from dataclasses import dataclass

from harness.run.executors.on_ray.alone import alike_and_free, alone_on
from harness.run.executors.on_ray.backlog import QualityBacklog, TimingBacklog
from harness.run.executors.on_ray.checks import Needs, require_complete, require_equal_vllm
from harness.run.executors.on_ray.cluster import Cluster, Node, connected
from harness.run.executors.on_ray.drive import Drive
from harness.run.executors.on_ray.probe import probe
from harness.run.executors.on_ray.relay import Relay
from harness.run.executors.on_ray.room import gpus_of, rooms
from harness.run.executors.on_ray.shipping import runtime_env
from harness.run.first_look import Clock

RETURN_S = 180.0
"""How long a head that has died has to come back under its address."""


@dataclass(frozen=True)
class Wishes:
    """What the user asked for.

    Attributes
    ----------
    is_return
        Whether a cluster was lost before: the head may take a while to come back.
    """

    address: str | None
    workers: int | None
    is_return: bool = False


@dataclass
class Session:
    """The driver process's work.

    Attributes
    ----------
    machine
        Class of the machine on which times of this run were taken before; None where none were.
    """

    relay: Relay
    wishes: Wishes
    clock: Clock
    machine: str | None

    def run(self) -> None:
        """Find a cluster, see that its nodes fit, and go on with what is left."""
        plan, work = self.relay.plan, self.relay.work
        slots = max(self.wishes.workers or 1, os.cpu_count() or 1)
        env = runtime_env(cell.method for cell in plan.cells)
        patience = RETURN_S if self.wishes.is_return else 0.0
        with connected(self.wishes.address, slots, env, patience) as cluster:
            self.relay.progress.say(cluster.said)
            self.relay.send("joined", cluster.joined)
            needs = Needs.of(plan)
            nodes = [node for node in cluster.nodes() if node.cpus]
            facts = probe(cluster, nodes, needs)
            require_complete(facts)
            if any(spec.engine == "vllm" for spec in plan.specs):
                require_equal_vllm(facts)
            alike: list[Node] = []
            if any(map(work.blocks_left, plan.cells)):
                alike = alike_and_free(nodes, facts, self.machine)
            self._quality(cluster, needs, nodes)
            work.unsupported = self.relay.unsupported()
            if alike and not self.relay.is_draining():
                self._timing(cluster, needs, alike)
            self.relay.send("cut_short", self.clock.cut_short)

    def _quality(self, cluster: Cluster, needs: Needs, nodes: list[Node]) -> None:
        """Spread the pairs that are left."""
        specs = self.relay.plan.specs
        wanted = rooms(specs, nodes, self.wishes.workers)
        backlog = QualityBacklog(self.relay, len(wanted))
        if backlog.is_done:
            return
        room = wanted[0]
        computes = not room.gpus and any(spec.engine != "fake" for spec in specs)
        Drive(
            self.relay,
            backlog,
            cluster,
            needs,
            self.clock,
            bundles=[each.bundle() for each in wanted],
            gpus=room.gpus,
            lanes=lambda node: node.cpus // room.cpus if computes else 1,
            draining=self.relay.is_draining,
        ).run()

    def _timing(self, cluster: Cluster, needs: Needs, alike: list[Node]) -> None:
        """Time the blocks that are left, each worker alone on its node."""
        backlog = TimingBacklog(self.relay)
        if backlog.is_done:
            return
        count = min(backlog.queued(), len(alike), self.wishes.workers or len(alike))
        Drive(
            self.relay,
            backlog,
            cluster,
            needs,
            self.clock,
            bundles=[alone_on(node) for node in alike[:count]],
            gpus=max(map(gpus_of, self.relay.plan.specs)),
            lanes=lambda _: 1,
            draining=self.relay.is_draining,
        ).run()
