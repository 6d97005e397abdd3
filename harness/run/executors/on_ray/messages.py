"""What goes to a worker and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.engines.base import EngineSpec
from harness.run.cells import PlannedCell
from harness.run.outcome import Stopped
from harness.run.work import Timing
from harness.schema.prompts import Prompt
from harness.schema.records import LatencyRecord, QualityRecord


@dataclass(frozen=True)
class Setting:
    """The engine that a worker opens.

    Attributes
    ----------
    target
        The driver's folder of the target, which the spec names; a node has its own.
    speculator
        Whether any cell needs its scores.
    longest
        Prompt to measure prefill rates with; None where no arm asks for rates.
    limited, elapsed_s
        Whether the run is a first look, and how long it has been going on.
    alone
        Whether cells run one by one.
    lane, lanes
        Which equal share of the node's cores the worker keeps to; one lane is all of them.
    """

    spec: EngineSpec
    target: str
    speculator: bool
    longest: Prompt | None
    limited: bool
    elapsed_s: float
    alone: bool
    lane: int = 0
    lanes: int = 1


@dataclass(frozen=True)
class Shard:
    """Some examples with every cell that still lacks some of them.

    Attributes
    ----------
    cells
        Their ``examples`` are those of the shard only.
    pending
        Ids of the examples to run, by cell id.
    """

    number: int
    cells: tuple[PlannedCell, ...]
    pending: Mapping[str, frozenset[str]]

    @property
    def size(self) -> int:
        """Number of records that it will give."""
        return sum(map(len, self.pending.values()))


@dataclass(frozen=True)
class TimedGroup:
    """Latency blocks that are read together: a group's, at one length, on one engine."""

    number: int
    timings: tuple[Timing, ...]

    @property
    def size(self) -> int:
        """Number of requests that it will give."""
        return 4 * sum(timing.left for timing in self.timings)


Unit = Shard | TimedGroup
"""What is handed out, lost and handed out again as a whole; results come in piece by piece."""


@dataclass
class Chunk:
    """What a worker has found out since it was last asked.

    Attributes
    ----------
    blocks
        Latency blocks, each as its four records.
    finished
        Numbers of the units that are through.
    doing
        What it is at, for the progress line.
    is_idle
        Whether it has nothing more to do.
    broken
        Why the worker can go on no more (its engine has died); None where it can.
    cut_short
        Whether a first look's time was up before all blocks were timed.
    """

    quality: list[QualityRecord] = field(default_factory=list)
    blocks: list[list[LatencyRecord]] = field(default_factory=list)
    stopped: list[Stopped] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    doing: str = ""
    is_idle: bool = False
    broken: str | None = None
    cut_short: bool = False

    @property
    def size(self) -> int:
        """Number of records in it."""
        return len(self.quality) + sum(map(len, self.blocks))


class Scoring:
    """A task's scoring that has travelled: made on first use, from bytes.

    Bytes, because its code may come from a file that only the driver has: the worker keeps it
    unopened until an answer is to be scored.
    """

    def __init__(self, code: bytes) -> None:
        self.code = code
        self._process: Any = None

    def __call__(self, doc: Mapping[str, Any], results: Sequence[Any]) -> Mapping[str, Any]:
        """Score an answer as the task does."""
        if self._process is None:
            from ray import cloudpickle

            self._process = cloudpickle.loads(self.code)
        found: Mapping[str, Any] = self._process(doc, results)
        return found

    def __getstate__(self) -> bytes:
        return self.code

    def __setstate__(self, code: bytes) -> None:
        self.code, self._process = code, None
