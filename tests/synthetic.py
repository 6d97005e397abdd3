"""Real stores with made-up records, for tests of everything that only reads the store.

:func:`build_store` writes a run as the runner would: full prefill as the reference, arms with a
given loss and speed-up, latency in ABBA blocks. Everything follows from ``seed``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness.run.store import Store
from harness.schema.receipts import POSITIONS, ROWS, BudgetKind, Cost, Receipt, Status
from harness.schema.records import (
    CellRecord,
    CellStatus,
    ExampleRecord,
    LatencyRecord,
    QualityRecord,
    RunRecord,
)

ORDERS = ("ABBA", "BAAB")


@dataclass(frozen=True)
class Task:
    """A task and its examples; ``cluster_size`` examples share a context."""

    name: str = "ruler_niah_single_1"
    group: str = "ruler"
    category: str = "retrieval"
    metric: str = "string_match_all"
    length: int | None = 2048
    seeds: tuple[int, ...] = (0,)
    n: int = 20
    cluster_size: int = 1
    full_rate: float = 0.9
    graded: bool = False


@dataclass(frozen=True)
class Arm:
    """An arm; ``loss`` and ``gain`` are chances that a right answer turns wrong, and back.

    ``tpot_ratio`` is its time per token over full prefill's; ``proven`` is whether its SpecPrefill
    requests carry the hooks' counters that were due.

    ``given`` is the name that a user gave it; None: ``name`` without the keep rate and look-ahead
    that a plan would have added.
    """

    name: str = "specprefill"
    method: str = "specprefill"
    keep: float | None = 0.1
    look_ahead: int | None = 8
    loss: float = 0.05
    gain: float = 0.0
    speed_up: float = 3.0
    method_seeds: tuple[int, ...] = (0,)
    budget_kind: str = "tokens"
    improves_ttft: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    statuses: tuple[Status, ...] = (Status.ACTIVE,)
    cell_status: CellStatus = CellStatus.DONE
    reason: str | None = None
    kernel: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    given: str | None = None
    tpot_ratio: float = 1.0
    proven: bool = True

    @property
    def base(self) -> str:
        """The name that the user gave."""
        if self.given is not None:
            return self.given
        return self.name.replace(self._rate, "").replace(f"-lah{self.look_ahead}", "")

    @property
    def series(self) -> str:
        """The name without its keep rate."""
        return self.base + self.name.removeprefix(self.base).replace(self._rate, "")

    @property
    def _rate(self) -> str:
        return "" if self.keep is None else f"-k{self.keep * 100:g}"


FULL = Arm("full", "full", None, None, 0.0, 0.0, 1.0, budget_kind="none", improves_ttft=False)

Score = Callable[[str, str, int], float | None]
"""Score by (arm, task, example index); overrides the made-up one where given."""


@dataclass
class Build:
    """What :func:`build_store` writes, as options."""

    tasks: Sequence[Task] = (Task(),)
    arms: Sequence[Arm] = (Arm(),)
    seed: int = 0
    blocks: int = 8
    noise: float = 0.02
    order_effect: float = 0.0
    full_ttft_s: float = 2.0
    session: str = "session-1"
    run_id: str = "synthetic"
    machine_class: str = "cpu-x86_64-2"
    commit: str = "c0ffee (0123456789ab)"
    reference: bool = True
    score: Score | None = None
    output: Callable[[str, str, int], str] | None = None


def build_store(folder: Path, **options: Any) -> Path:
    """Write a run into ``folder`` and return it; see :class:`Build` for the options."""
    build = Build(**options)
    run = RunRecord(
        run_id=build.run_id,
        created="2026-01-01T00:00:00Z",
        config={"task": [t.name for t in build.tasks]},
        config_hash=_digest("config", build.seed),
        command="harness run --task synthetic",
        commits=(build.commit,),
        machine={"class": build.machine_class, "cpu": "made up", "cpus": 2},
        software={"harness": "0.1.0"},
        models={"target": "made-up", "speculator": "made-up", "digests": {"target": "t0"}},
    )
    with Store.create(folder, run) as store:
        for task in build.tasks:
            for data_seed in task.seeds:
                _add_task(store, build, task, data_seed)
    return folder


def _add_task(store: Store, build: Build, task: Task, data_seed: int) -> None:
    rng = np.random.default_rng([build.seed, data_seed, _number(task.name), task.length or 0])
    examples = [_example(task, data_seed, index) for index in range(task.n)]
    store.add_examples(examples)
    right = rng.random(task.n) < task.full_rate
    base = np.where(right, rng.uniform(0.6, 1, task.n) if task.graded else 1.0, 0.0)
    full_id = _cell_id(task, data_seed, FULL, 0)
    arms = [FULL, *build.arms] if build.reference else list(build.arms)
    for arm in arms:
        for method_seed in arm.method_seeds:
            cell = _cell(task, data_seed, arm, method_seed, full_id if build.reference else None)
            store.add_cells([cell])
            if arm.cell_status is CellStatus.UNSUPPORTED:
                continue
            changes = np.random.default_rng([build.seed, data_seed, _number(cell.cell_id)])
            scores = _scores(changes, base, arm)
            store.add_quality(
                _quality(build, cell, arm, example, scores[i], i)
                for i, example in enumerate(examples)
            )
            if arm is not FULL:
                store.add_latency(_latency(build, cell, arm, examples, changes))


def _scores(rng: np.random.Generator, base: np.ndarray, arm: Arm) -> np.ndarray:
    drawn = rng.random(len(base))
    return np.where(base > 0, np.where(drawn < arm.loss, 0.0, base), (drawn < arm.gain) * 1.0)


def _cell_id(task: Task, data_seed: int, arm: Arm, method_seed: int) -> str:
    return _digest(task.name, task.length, data_seed, arm.name, method_seed)[:16]


def _cell(
    task: Task, data_seed: int, arm: Arm, method_seed: int, reference: str | None
) -> CellRecord:
    cell_id = _cell_id(task, data_seed, arm, method_seed)
    return CellRecord(
        cell_id=cell_id,
        task=task.name,
        group=task.group,
        category=task.category,
        metric=task.metric,
        length=task.length,
        arm=arm.name + (f"-m{method_seed}" if len(arm.method_seeds) > 1 else ""),
        method=arm.method,
        options=dict(arm.options),
        keep=arm.keep,
        look_ahead=arm.look_ahead,
        seed=data_seed,
        method_seed=method_seed,
        sample_seed=0,
        engine="fake",
        dtype="float32",
        target="made-up",
        speculator="made-up" if arm.method == "specprefill" else None,
        budget_kind=arm.budget_kind,
        improves_ttft=arm.improves_ttft,
        reference_cell_id=None if arm is FULL else reference,
        identity={"arm": arm.name},
        base=arm.base,
        pool=arm.name,
        series=arm.series,
        status=arm.cell_status,
        reason=arm.reason,
    )


def _example(task: Task, data_seed: int, index: int) -> ExampleRecord:
    document = f"Document {index} of {task.name}. " + "The mill stands by the river. " * 8
    evidence = f"The number of mill {index} is {7000 + index}. "
    question = f"What is the number of mill {index}?"
    text = document + evidence + document + question
    start = len(document)
    return ExampleRecord(
        example_id=f"{task.name}/{task.length}/{data_seed}/{index}",
        task=task.name,
        length=task.length,
        seed=data_seed,
        index=index,
        text=text,
        token_count=task.length or len(text) // 4,
        content_digest=_digest(task.name, task.length, data_seed, index),
        cluster=f"{task.name}/{data_seed}/{index // task.cluster_size}",
        references=(str(7000 + index),),
        segments={
            "instruction": [],
            "documents": [[0, len(text) - len(question)]],
            "question": [[len(text) - len(question), len(text)]],
            "evidence": [[start, start + len(evidence)]],
        },
        facts={"depth": index / max(1, task.n - 1), "needles": 1},
    )


def _receipt(arm: Arm, example: ExampleRecord, index: int) -> Receipt:
    status = arm.statuses[index % len(arm.statuses)] if arm is not FULL else Status.KEPT_ALL
    m = example.token_count
    hooked = arm.method == "specprefill" and status is Status.ACTIVE
    kept = m if arm.keep is None else max(1, -(-int(m * arm.keep) // 32) * 32)
    return Receipt(
        method=arm.method,
        status=status,
        keep_requested=arm.keep,
        keep_achieved=None if arm.keep is None else min(1.0, kept / m),
        budget_kind=BudgetKind(arm.budget_kind),
        cost=Cost(kept, 1.0 if arm is FULL else 0.1, kept, kept / m),
        kept_spans=((0, min(m, kept) // 2), (m - min(m, kept) // 2, m)),
        counters={POSITIONS: 4, ROWS: arm.look_ahead or 1} if hooked and arm.proven else {},
        details={
            **arm.details,
            **({} if arm.kernel is None else {"kernel": arm.kernel}),
            **({"proof": [POSITIONS, ROWS]} if hooked else {}),
        },
    )


def _quality(  # noqa: PLR0917 - a helper of tests
    build: Build, cell: CellRecord, arm: Arm, example: ExampleRecord, made_up: float, index: int
) -> QualityRecord:
    score: float | None = float(made_up)
    if build.score is not None:
        score = build.score(arm.name, cell.task, index)
    text = example.references[0] if score else f"no idea ({arm.name})"
    if build.output is not None:
        text = build.output(arm.name, cell.task, index)
    return QualityRecord(
        cell_id=cell.cell_id,
        example_id=example.example_id,
        text=None if score is None else text,
        token_count=None if score is None else 4,
        output_digest=None if score is None else _digest(text, score),
        score=score,
        metrics={cell.metric: score},
        evidence_kept=None if arm is FULL or score is None else float(score > 0),
        receipt=_receipt(arm, example, index),
        finish_reason="stop",
        reason=None if score is not None else "made up: no answer",
    )


def _latency(
    build: Build,
    cell: CellRecord,
    arm: Arm,
    examples: Sequence[ExampleRecord],
    rng: np.random.Generator,
) -> list[LatencyRecord]:
    records = []
    for block in range(min(build.blocks, len(examples))):
        order, example = ORDERS[block % 2], examples[block]
        drift = rng.normal(0, 0.1)  # the machine's speed in this block; it cancels in r
        for slot, letter in enumerate(order):
            base = build.full_ttft_s if letter == "A" else build.full_ttft_s / arm.speed_up
            late = build.order_effect * (slot == 0)
            ttft = base * float(np.exp(drift + rng.normal(0, build.noise) + late))
            score = 0.0 if letter == "A" else 0.3 * ttft
            records.append(
                LatencyRecord(
                    cell_id=cell.cell_id,
                    example_id=example.example_id,
                    block=block,
                    slot=slot,
                    order=order,
                    role="reference" if letter == "A" else "arm",
                    ttft_s=ttft,
                    stages_s={
                        "score": score,
                        "select": 0.0,
                        "prefill": 0.9 * (ttft - score),
                        "other": 0.1 * (ttft - score),
                    },
                    tpot_s=0.02 * (1.0 if letter == "A" else arm.tpot_ratio),
                    tokens=4,
                    original_length=example.token_count,
                    receipt=_receipt(FULL if letter == "A" else arm, example, block),
                    session=build.session,
                )
            )
    return records


def _digest(*parts: Any) -> str:
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()


def _number(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
