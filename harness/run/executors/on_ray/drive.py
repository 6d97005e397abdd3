"""Brings work and workers together until nothing is left.

Everything is pulled: a worker is asked for its next chunk only while at most :data:`CREDITS` of
its answers are outstanding, and each answer is written before the next is asked for. So memory is
bounded by the number of workers, however slow the disk.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.engines.base import EngineSpec
from harness.run.executors.on_ray.backlog import TRIES, Backlog
from harness.run.executors.on_ray.checks import Facts, Needs
from harness.run.executors.on_ray.cluster import Cluster, ClusterLostError, Node
from harness.run.executors.on_ray.messages import Chunk, Setting, Unit
from harness.run.executors.on_ray.worker import Worker
from harness.run.first_look import Clock
from harness.run.recording import Recorder

CREDITS = 2
"""Answers of a worker that may be outstanding: one that is being made, one that is asked for."""

_DEATHS = {
    "memory on the node": "its node ran out of memory",
    "its node has died": "its node died",
    "its owner has died": "this machine's Ray node died",
    "worker process has died": "its process died",
    "ModuleNotFoundError: No module named 'harness'": (
        "its node has no harness installed: pip install specprefill-harness there"
    ),
}
"""What Ray says of a dead worker → what is said here."""

TICK_S = 0.5
CLOSE_S = 20.0
"""How long engines have to close before their workers are ended."""

ROOM_WAIT_S = 600.0
"""How long a run waits while no worker has room: a cluster that grows by itself takes minutes."""


@dataclass
class Slot:
    """Room for one worker, kept while its workers come and go."""

    number: int
    group: Any
    cpus: float
    gpus: float
    actor: Any = None
    spec: EngineSpec | None = None
    node: str = ""
    node_id: str = ""
    lane: int = 0
    units: dict[int, Unit] = field(default_factory=dict)
    asked: int = 0
    is_open: bool = False
    deaths: int = 0
    retired: str | None = None


class Drive:
    """One phase of a run on one cluster.

    Parameters
    ----------
    bundles
        What Ray is to set aside for each worker.
    lanes
        How many workers share a node with this many cores (docs/scale.md): 1 where a worker has
        the node, or does not compute.
    draining
        Asked all the time: whether what is running is to be finished and nothing more begun.
    """

    def __init__(
        self,
        recorder: Recorder,
        backlog: Backlog,
        cluster: Cluster,
        needs: Needs,
        clock: Clock,
        *,
        bundles: Sequence[dict[str, float]],
        gpus: int,
        lanes: Callable[[Node], int],
        draining: Callable[[], bool],
    ) -> None:
        self.recorder, self.backlog, self.cluster = recorder, backlog, cluster
        self.needs, self.clock, self.lanes, self.draining = needs, clock, lanes, draining
        self.wait_s = ROOM_WAIT_S
        self._waiting: dict[Any, tuple[Slot, Callable[[Slot, Any], None]]] = {}
        self._failed_starts: dict[EngineSpec, int] = {}
        self._idle_since = time.monotonic()
        self._told = 0.0
        self.slots = [self._set_aside(number, b, gpus) for number, b in enumerate(bundles)]

    def run(self) -> None:
        """Go on until the backlog is done, or drained.

        Raises
        ------
        ClusterLostError
            The cluster is gone; what was out is queued again.
        """
        try:
            while not self.backlog.is_done:
                if self.draining() and not any(slot.units for slot in self.slots):
                    return
                self.cluster.check()
                self._answers()
                self._staff()
                self._room()
                self._tell()
        except ClusterLostError:
            self.backlog.all_returned()
            raise
        finally:
            self._leave()

    # -- answers ---------------------------------------------------------------------------

    def _answers(self) -> None:
        """Deal with every answer that has come in."""
        import ray

        if not self._waiting:
            time.sleep(TICK_S)
            return
        refs = list(self._waiting)
        ready, _ = ray.wait(refs, num_returns=1, timeout=TICK_S)
        if ready:
            ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in ready:
            if ref in self._waiting:  # its slot may have been lost meanwhile
                slot, step = self._waiting.pop(ref)
                self._take(slot, step, ref)

    def _take(self, slot: Slot, step: Callable[[Slot, Any], None], ref: Any) -> None:
        import ray
        from ray.exceptions import RayError

        try:
            answer = ray.get(ref)
        except RayError as error:
            self._lost(slot, _death(error))
        else:
            step(slot, answer)

    def _ask(self, slot: Slot, ref: Any, step: Callable[[Slot, Any], None]) -> None:
        self._waiting[ref] = slot, step

    # -- a worker's life -------------------------------------------------------------------

    def _set_aside(self, number: int, bundle: dict[str, float], gpus: int) -> Slot:
        from ray.util import placement_group

        group = placement_group([bundle], strategy="STRICT_PACK")
        slot = Slot(number, group, bundle["CPU"], min(gpus, bundle.get("GPU", 0)))
        self._ask(slot, group.ready(), self._has_room)
        return slot

    def _has_room(self, slot: Slot, _: Any) -> None:
        self._idle_since = time.monotonic()
        slot.deaths = 0

    def _staff(self) -> None:
        """Give every slot without a worker one, where there is work for it."""
        pending = {id(slot) for slot, _ in self._waiting.values()}
        for slot in self.slots:
            if slot.actor is None and slot.retired is None and id(slot) not in pending:
                spec = self._most_wanted()
                if spec is not None and not self.draining():
                    self._hire(slot, spec)
            elif slot.is_open:
                self._feed(slot)

    def _most_wanted(self) -> EngineSpec | None:
        """The engine with most work queued for each of its workers."""
        at_work = [slot.spec for slot in self.slots if slot.actor is not None]
        shares = {s: self.backlog.queued(s) / (1 + at_work.count(s)) for s in self.backlog.specs}
        return max(shares, key=lambda spec: shares[spec], default=None)

    def _hire(self, slot: Slot, spec: EngineSpec) -> None:
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        strategy = PlacementGroupSchedulingStrategy(
            slot.group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
        )
        actor = ray.remote(Worker).options(
            num_cpus=slot.cpus, num_gpus=slot.gpus, max_restarts=0, scheduling_strategy=strategy
        )
        slot.actor, slot.spec, slot.is_open = actor.remote(), spec, False
        self._ask(slot, slot.actor.examine.remote(self.needs), self._examined)

    def _examined(self, slot: Slot, facts: Facts) -> None:
        if facts.lacks:
            self._retire(slot, f"node {facts.node} {'; it also '.join(facts.lacks)}")
            return
        slot.node, slot.node_id = facts.node, facts.node_id
        node = next((n for n in self.cluster.nodes() if n.node_id == facts.node_id), None)
        lanes = 1 if node is None else self.lanes(node)
        taken = {s.lane for s in self.slots if s is not slot and s.node_id == slot.node_id}
        slot.lane = next(lane for lane in range(len(taken) + 1) if lane not in taken)
        self._ask(slot, slot.actor.open.remote(self._setting(slot, lanes)), self._opened)

    def _setting(self, slot: Slot, lanes: int) -> Setting:
        plan, spec = self.recorder.plan, slot.spec
        assert spec is not None, "a worker is hired for an engine"
        cells = [cell for cell in plan.cells if cell.spec == spec]
        return Setting(
            spec=spec,
            target=str(plan.models.target),
            speculator=any("scorer" in cell.method.needs for cell in cells),
            longest=plan.longest if any(cell.method.wants_rates for cell in cells) else None,
            limited=self.clock.limited,
            elapsed_s=self.clock.elapsed_s,
            alone=self.recorder.fail_fast,
            lane=slot.lane,
            lanes=lanes,
        )

    def _opened(self, slot: Slot, fault: tuple[str, bool] | None) -> None:
        spec = slot.spec
        assert spec is not None, "a worker is hired for an engine"
        if fault is None:
            self._failed_starts.pop(spec, None)
            slot.is_open = True
            self._feed(slot)
            return
        reason, refused = fault
        self._dismiss(slot)
        # Another node may have what this one had not: free memory, a healthy GPU.
        self._failed_starts[spec] = self._failed_starts.get(spec, 0) + 1
        others = any(other.spec == spec for other in self.slots)
        if refused or (self._failed_starts[spec] >= TRIES and not others):
            self.backlog.fail_all(spec, reason, refused=refused and not spec.is_plain)
            return
        slot.deaths += 1
        if slot.deaths >= TRIES:
            self._retire(slot, f"node {slot.node}: {reason}")
        else:
            self.recorder.progress.say(f"node {slot.node}: {reason}; trying again")

    def _feed(self, slot: Slot) -> None:
        """Keep a worker supplied, and ask for its next chunk."""
        spec = slot.spec
        assert spec is not None, "an open worker has its engine"
        fresh: list[Unit] = []
        # One unit ahead, so that the engine never waits; not when few are left, which others want.
        ahead = 2 if self.backlog.queued(spec) > len(self.slots) else 1
        while slot.asked < CREDITS and len(slot.units) < ahead and not self.draining():
            unit = self.backlog.take(spec)
            if unit is None:
                break
            slot.units[unit.number] = unit
            fresh.append(unit)
        while slot.units and slot.asked < CREDITS:
            ref = slot.actor.advance.remote(fresh, drain=self.draining())
            slot.asked, fresh = slot.asked + 1, []
            self._ask(slot, ref, self._chunk)
        if not slot.units and not slot.asked and self._is_wanted_elsewhere(spec):
            self._ask(slot, slot.actor.close.remote(), lambda slot, _: self._dismiss(slot))
            slot.is_open = False

    def _is_wanted_elsewhere(self, spec: EngineSpec) -> bool:
        """Whether another engine has so much queued that a change of engines pays."""
        wanted = self._most_wanted()
        if wanted is None or wanted == spec:
            return False
        return self.backlog.queued(wanted) > sum(slot.spec == wanted for slot in self.slots)

    def _chunk(self, slot: Slot, chunk: Chunk) -> None:
        slot.asked -= 1
        self.recorder.quality(chunk.quality)
        for block in chunk.blocks:
            self.recorder.latency(block)
        for stopped in chunk.stopped:
            self.recorder.stop(stopped)
        for number in chunk.finished:
            slot.units.pop(number, None)
            self.backlog.finished(number)
        self.clock.cut_short |= chunk.cut_short
        if chunk.size:
            slot.deaths = 0
        if chunk.doing:
            self.recorder.progress.doing(chunk.doing)
        if chunk.broken is not None:
            self._lost(slot, chunk.broken)
        elif self.draining() and chunk.is_idle:
            for number in list(slot.units):
                self.backlog.returned(number)
            slot.units.clear()
        else:
            self._feed(slot)

    # -- ends ------------------------------------------------------------------------------

    def _lost(self, slot: Slot, reason: str) -> None:
        """Queue again what a dead worker had, and count the death."""
        self.cluster.look()
        self.cluster.check()
        where = f"a worker on {slot.node}" if slot.node else "a worker"
        said = f"{where} was lost: {reason}"
        self.recorder.progress.say(said)
        begun, waiting = list(slot.units)[:1], list(slot.units)[1:]
        for number in reversed(waiting):
            self.backlog.returned(number)
        for number in begun:
            self.backlog.lost(number, said)
        slot.units.clear()
        self._dismiss(slot)
        slot.deaths += 1
        if slot.deaths >= TRIES:
            self._retire(slot, said)

    def _dismiss(self, slot: Slot) -> None:
        """End a slot's worker; answers of its that are ready are not lost."""
        import ray

        refs = [ref for ref, (owner, _) in self._waiting.items() if owner is slot]
        for ref in refs:
            del self._waiting[ref]
        if slot.actor is not None:
            with contextlib.suppress(Exception):  # it may be dead already
                ray.kill(slot.actor)
        slot.actor, slot.spec, slot.is_open, slot.asked = None, None, False, 0
        slot.node_id = ""

    def _retire(self, slot: Slot, reason: str) -> None:
        """Use a slot no more."""
        self._dismiss(slot)
        slot.retired = reason
        self.recorder.progress.say(reason)
        if all(other.retired for other in self.slots):
            for spec in self.backlog.specs:
                self.backlog.fail_all(spec, reason)

    def _room(self) -> None:
        """Give up where no worker has had room for long."""
        if any(slot.node_id for slot in self.slots) or not self.backlog.queued():
            self._idle_since = time.monotonic()
        elif time.monotonic() - self._idle_since > self.wait_s:
            for spec in self.backlog.specs:
                self.backlog.fail_all(
                    spec, f"no node of the cluster had room for a worker in {self.wait_s:.0f} s"
                )

    def _leave(self) -> None:
        """End all workers and give their room back."""
        import ray
        from ray.util import remove_placement_group

        # Asked first: an engine that closes itself leaves nothing behind it.
        closing = [slot.actor.close.remote() for slot in self.slots if slot.is_open]
        if closing:
            with contextlib.suppress(Exception):  # workers of a lost cluster do not answer
                ray.wait(closing, num_returns=len(closing), timeout=CLOSE_S)
        self._waiting.clear()
        for slot in self.slots:
            self._dismiss(slot)
            with contextlib.suppress(Exception):  # the cluster may be gone
                remove_placement_group(slot.group)

    def _tell(self) -> None:
        at_work = sum(slot.is_open for slot in self.slots)
        self.recorder.progress.crew(at_work, len(self.slots), self.backlog.queued())


def _death(error: Exception) -> str:
    """Say in a line how a worker ended."""
    text = " ".join(str(error).split())
    for sign, said in _DEATHS.items():
        if sign in text:
            return said
    return f"{type(error).__name__}: {text}"[:200]
