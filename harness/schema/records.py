"""The persisted schema. Everything after the runner reads these records and nothing else.

Missing is None with a status or a reason, never 0 or −1 (DESIGN.md, rule 1). Formats carry
:data:`SCHEMA_VERSION`; older stores are upgraded by ``harness.run.store`` or refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from harness.schema.receipts import Receipt

SCHEMA_VERSION = 1

STAGES = ("score", "select", "prefill", "other")
"""Stages of the time to first token, in the order in which they happen."""


class CellStatus(StrEnum):
    """State of a cell: its pairs are complete only when ``done``."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run: one store.

    ``machine``, ``software`` and ``models`` hold provenance; ``config`` is the resolved
    configuration whose canonical hash is ``config_hash``; ``commits`` lists every commit that
    wrote to the store (more than one only with ``--allow-mixed-code``).
    """

    run_id: str
    created: str
    config: Mapping[str, Any]
    config_hash: str
    command: str
    commits: tuple[str, ...]
    machine: Mapping[str, Any]
    software: Mapping[str, str]
    models: Mapping[str, Any]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class CellRecord:
    """One cell: task × length × arm (× keep × look-ahead) × seeds.

    Attributes
    ----------
    cell_id
        Hash of the cell's resolved identity (DESIGN.md, rule 2).
    arm
        Display name, unique within (task, length, seed); ``method`` is the method's own name.
    base, pool, series
        The arm's name as the user gave it, its name without the method seed that tells repetitions
        apart, and without the keep rate as well (:class:`harness.schema.arm.Arm`).
    category
        The task's category (``retrieval``, ``single_doc_qa`` …).
    metric
        Name of the primary metric, in [0, 1], higher is better.
    options
        The arm's resolved options.
    reference_cell_id
        The full-prefill cell on the same engine, dtype, task, length and seed; None for that
        cell itself, or with ``--no-reference``.
    """

    cell_id: str
    task: str
    group: str
    category: str
    metric: str
    length: int | None
    arm: str
    method: str
    options: Mapping[str, Any]
    keep: float | None
    look_ahead: int | None
    seed: int
    method_seed: int
    sample_seed: int
    engine: str
    dtype: str
    target: str
    speculator: str | None
    budget_kind: str
    improves_ttft: bool
    reference_cell_id: str | None
    identity: Mapping[str, Any]
    base: str
    pool: str
    series: str
    status: CellStatus = CellStatus.PENDING
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ExampleRecord:
    """One example as the target sees it under full prefill.

    Attributes
    ----------
    example_id
        Unique in the run: ``<task>/<length>/<seed>/<index>``.
    content_digest
        sha256 of prompt text and references; pairs examples across runs.
    cluster
        Examples with the same cluster share context and are not independent.
    references
        Accepted answers.
    facts
        Task facts for reports (``depth`` in [0, 1], ``needles`` …), JSON-ready.
    segments
        Character spans by name, as :meth:`harness.schema.prompts.Segments.to_json` gives; or None.
    """

    example_id: str
    task: str
    length: int | None
    seed: int
    index: int
    text: str
    token_count: int
    content_digest: str
    cluster: str
    references: tuple[str, ...]
    segments: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QualityRecord:
    """One example under one cell, from the quality protocol.

    Attributes
    ----------
    score
        Primary metric in [0, 1]; None where the example was not scored, with ``reason``.
    metrics
        Every metric, the primary one included.
    evidence_kept
        Share of gold-evidence tokens that the method kept; None where either side is unknown.
    output_digest
        sha256 of the generated token ids.
    """

    cell_id: str
    example_id: str
    text: str | None
    token_count: int | None
    output_digest: str | None
    score: float | None
    metrics: Mapping[str, float | None]
    evidence_kept: float | None
    receipt: Receipt
    finish_reason: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LatencyRecord:
    """One timed request of the latency protocol.

    A block is one prompt timed in the order A B B A or B A A B, where A is the reference
    (full prefill) and B this cell's arm; both arms' requests of a block are stored under B's
    ``cell_id`` with ``role`` ``reference`` or ``arm``. Where there is no reference, every
    position of the block is the arm.

    Attributes
    ----------
    block, slot
        Block number within the cell, and position 0…3 within the block.
    order
        ``ABBA`` or ``BAAB``.
    ttft_s
        Seconds from the arrival of the prompt's text at the method to the first token.
    stages_s
        Seconds by stage (:data:`STAGES`); they add up to ``ttft_s``.
    tpot_s
        Mean seconds per later token; None where only one token was generated.
    """

    cell_id: str
    example_id: str
    block: int
    slot: int
    order: str
    role: str
    ttft_s: float
    stages_s: Mapping[str, float]
    tpot_s: float | None
    tokens: int
    original_length: int
    receipt: Receipt
    session: str
