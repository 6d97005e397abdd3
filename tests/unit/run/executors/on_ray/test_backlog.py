"""What is queued, out and lost: nothing is forgotten, nothing is handed out twice."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.run.executors.on_ray.backlog import TRIES, QualityBacklog, TimingBacklog
from harness.run.executors.on_ray.messages import Shard, TimedGroup
from harness.run.outcome import Stopped
from harness.run.recording import Recorder
from harness.schema.receipts import Receipt, Status
from harness.schema.records import QualityRecord

WORKERS = 2


def record(cell_id: str, example_id: str) -> QualityRecord:
    """A record that only says which pair it is of."""
    receipt = Receipt("full", Status.ACTIVE)
    return QualityRecord(cell_id, example_id, "", 0, "", 1.0, {}, None, receipt)


def pairs(shard: Shard) -> list[tuple[str, str]]:
    """The pairs of a shard."""
    return [(cell, example) for cell, examples in shard.pending.items() for example in examples]


def finish(recorder: Recorder, backlog: QualityBacklog, shard: Shard) -> None:
    """Record every pair of a shard."""
    recorder.quality([record(*pair) for pair in pairs(shard)])
    backlog.finished(shard.number)


def drain(recorder: Recorder, backlog: QualityBacklog) -> list[Shard]:
    """Take and finish everything that is left."""
    (spec,) = recorder.plan.specs
    taken = []
    while (shard := backlog.take(spec)) is not None:
        assert isinstance(shard, Shard)
        finish(recorder, backlog, shard)
        taken.append(shard)
    return taken


def test_every_pair_is_handed_out_once(recorder: Recorder) -> None:
    """Shards are disjoint, cover the plan, and hold all arms of their examples."""
    backlog = QualityBacklog(recorder, WORKERS)
    shards = drain(recorder, backlog)
    handed = Counter(pair for shard in shards for pair in pairs(shard))
    assert set(handed.values()) == {1}
    assert len(handed) == 6 * 10
    assert len(shards) > WORKERS
    for shard in shards:
        arms = Counter(cell.record.task for cell in shard.cells)
        assert set(arms.values()) == {3}
    assert backlog.is_done


def test_a_lost_shard_comes_back_with_what_it_lacks(recorder: Recorder) -> None:
    """What was recorded before its worker died is not asked for again."""
    backlog = QualityBacklog(recorder, WORKERS)
    (spec,) = recorder.plan.specs
    first = backlog.take(spec)
    assert isinstance(first, Shard)
    done, *rest = pairs(first)
    recorder.quality([record(*done)])
    backlog.lost(first.number, "its process died")
    again = backlog.take(spec)
    assert isinstance(again, Shard)
    assert sorted(pairs(again)) == sorted(rest)


def test_a_shard_that_was_not_begun_costs_no_try(recorder: Recorder) -> None:
    """Waiting behind another's death is no fault, however often."""
    backlog = QualityBacklog(recorder, WORKERS)
    (spec,) = recorder.plan.specs
    for _ in range(2 * TRIES):
        shard = backlog.take(spec)
        assert shard is not None
        backlog.returned(shard.number)
    assert sum(map(len, map(pairs, drain(recorder, backlog)))) == 60  # type: ignore[arg-type]
    assert not recorder.outcome.failed


def test_a_cell_that_kills_its_worker_fails_alone(recorder: Recorder) -> None:
    """Lost twice, a shard goes cell by cell: the deadly cell fails with its reason, no other."""
    backlog = QualityBacklog(recorder, WORKERS)
    (spec,) = recorder.plan.specs
    deadly = recorder.plan.cells[1].record.cell_id
    deaths = 0
    while (shard := backlog.take(spec)) is not None:
        assert isinstance(shard, Shard)
        if deadly in shard.pending:
            deaths += 1
            backlog.lost(shard.number, "a worker on n1 was lost: its process died")
        else:
            finish(recorder, backlog, shard)
    assert list(recorder.outcome.failed) == [deadly]
    assert "its process died (3 times, each on this cell)" in recorder.outcome.failed[deadly]
    assert len(recorder.store.done_pairs()) == 5 * 10
    assert deaths == TRIES
    assert backlog.is_done


def test_a_stopped_cell_is_not_handed_out(recorder: Recorder) -> None:
    """Once a cell has failed, its other examples are left alone."""
    stopped = recorder.plan.cells[0].record.cell_id
    recorder.stop(Stopped(stopped, "no"))
    shards = drain(recorder, QualityBacklog(recorder, WORKERS))
    assert all(stopped not in shard.pending for shard in shards)


def test_a_lost_cluster_returns_everything(recorder: Recorder) -> None:
    """All that was out is queued again, once."""
    backlog = QualityBacklog(recorder, WORKERS)
    (spec,) = recorder.plan.specs
    for _ in range(3):
        assert backlog.take(spec) is not None
    backlog.all_returned()
    assert sum(len(pairs(shard)) for shard in drain(recorder, backlog)) == 60


def test_an_engine_that_nobody_starts_fails_its_cells(recorder: Recorder) -> None:
    """Its cells carry the reason; nothing waits for it any more."""
    backlog = QualityBacklog(recorder, WORKERS)
    (spec,) = recorder.plan.specs
    backlog.fail_all(spec, "no memory")
    assert backlog.is_done
    assert set(recorder.outcome.failed.values()) == {"no memory"}
    assert len(recorder.outcome.failed) == 6


@pytest.mark.parametrize(("workers", "most"), [(1, 20), (8, 1)])
def test_shards_are_small_enough_for_all(recorder: Recorder, workers: int, most: int) -> None:
    """The more workers, the smaller the shards, so that all end at about the same time."""
    shards = drain(recorder, QualityBacklog(recorder, workers))
    assert max(len({e for _, e in pairs(shard)}) for shard in shards) <= most
    assert len(shards) >= 2 * workers


def test_what_is_read_together_is_timed_together(recorder: Recorder) -> None:
    """One group at one length is one unit: both arms on both tasks, with their orders."""
    backlog = TimingBacklog(recorder)
    (spec,) = recorder.plan.specs
    unit = backlog.take(spec)
    assert isinstance(unit, TimedGroup)
    assert backlog.take(spec) is None
    assert [t.before for t in unit.timings] == [0, 0, 2, 2]
    assert unit.size == 4 * 4 * 2
    assert all(t.reference is not None for t in unit.timings)
