"""The results store: what is written comes back, once, whatever happens."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from pathlib import Path

import pytest

from harness.errors import StoreError
from harness.run.store import Store
from harness.run.store_files import FILE_NAME, set_aside
from harness.run.store_schema import cell_fields
from harness.schema.receipts import BudgetKind, Cost, Receipt, Status
from harness.schema.records import (
    CellRecord,
    CellStatus,
    ExampleRecord,
    LatencyRecord,
    QualityRecord,
    RunRecord,
)

RUN = RunRecord("r1", "2026-01-01T00:00:00Z", {"a": 1}, "h", "cmd", ("c0",), {}, {}, {})
CELL = CellRecord(
    cell_id="c1",
    task="t",
    group="g",
    category="retrieval",
    metric="acc",
    length=1024,
    arm="specprefill",
    method="specprefill",
    options={"chunk": 32},
    keep=0.1,
    look_ahead=8,
    seed=0,
    method_seed=0,
    sample_seed=0,
    engine="fake",
    dtype="float32",
    target="t",
    speculator="s",
    budget_kind="tokens",
    improves_ttft=True,
    reference_cell_id=None,
    identity={},
    base="specprefill",
    pool="specprefill",
    series="specprefill",
)
RECEIPT = Receipt(
    method="specprefill",
    status=Status.ACTIVE,
    keep_requested=0.1,
    keep_achieved=0.125,
    budget_kind=BudgetKind.TOKENS,
    cost=Cost(prefill_tokens=128, flops_share=0.1),
    kept_spans=((0, 32), (64, 160)),
    stages_s={"score": 0.5},
    counters={"positions_applied": 3},
    details={"windows": 1},
)
EXAMPLE = ExampleRecord(
    "t/1024/0/0",
    "t",
    1024,
    0,
    0,
    "naïve 你好 \x00",
    5,
    "d",
    "k",
    ("yes", "ja"),
    None,
    {"depth": 0.5},
)
QUALITY = QualityRecord("c1", EXAMPLE.example_id, "out", 3, "od", None, {"acc": None}, 0.5, RECEIPT)
LATENCY = LatencyRecord(
    "c1", EXAMPLE.example_id, 0, 1, "ABBA", "arm", 1.5, {"score": 1.0, "prefill": 0.5},
    None, 1, 1024, RECEIPT, "s1",
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An open store with one of everything."""
    store = Store.create(tmp_path / "run", RUN)
    store.add_cells([CELL])
    store.add_examples([EXAMPLE])
    store.add_quality([QUALITY])
    store.add_latency([LATENCY])
    return store


def test_round_trip(store: Store) -> None:
    """Every record comes back equal, after closing and reopening too."""
    store.close()
    with Store.open(store.folder) as again:
        assert again.run() == RUN
        assert again.cells() == [CELL]
        assert list(again.examples()) == [EXAMPLE]
        assert again.example(EXAMPLE.example_id) == EXAMPLE
        assert list(again.quality("c1")) == [QUALITY]
        assert list(again.latency()) == [LATENCY]


def test_a_pair_is_recorded_once(store: Store) -> None:
    """Writing a pair or a block again changes nothing: the first record stays."""
    store.add_quality([dataclasses.replace(QUALITY, text="other")])
    store.add_latency([dataclasses.replace(LATENCY, ttft_s=9.0)])
    assert [q.text for q in store.quality()] == ["out"]
    assert [r.ttft_s for r in store.latency()] == [1.5]
    assert store.done_pairs() == {("c1", EXAMPLE.example_id)}
    assert store.done_blocks() == {("c1", 0)}


def test_cell_status_is_kept_beside_the_cell(store: Store) -> None:
    """A failed cell keeps its reason."""
    store.set_cell_status("c1", CellStatus.FAILED, "out of memory")
    (cell,) = store.cells()
    assert (cell.status, cell.reason) == (CellStatus.FAILED, "out of memory")


def test_frames_hold_scalars(store: Store) -> None:
    """Frames carry receipt and stage columns; missing is missing, not zero."""
    quality = store.quality_frame()
    assert quality.loc[0, "keep_achieved"] == 0.125
    assert quality["score"].isna().all()
    assert "text" not in quality
    assert store.quality_frame(text=True).loc[0, "text"] == "out"
    latency = store.latency_frame()
    assert latency.loc[0, "score_s"] == 1.0
    assert latency["select_s"].isna().all()
    assert store.examples_frame(text=True).loc[0, "text"] == EXAMPLE.text
    assert store.cells_frame().loc[0, "arm"] == "specprefill"


def test_nan_is_refused(store: Store) -> None:
    """A NaN metric is an error where it is written, not in a report."""
    with pytest.raises(ValueError, match="Out of range float"):
        store.add_quality(
            [dataclasses.replace(QUALITY, example_id="x", metrics={"a": float("nan")})]
        )


def test_creating_twice_is_refused(store: Store) -> None:
    """An existing store is never overwritten."""
    with pytest.raises(StoreError, match="exists already"):
        Store.create(store.folder, RUN)


@pytest.mark.parametrize(
    "content", [b"", b"not a database", b"SQLite format 3\x00" + b"\x07" * 4096]
)
def test_damaged_store_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    """A damaged store gives one clear error; setting it aside keeps its bytes."""
    file = tmp_path / FILE_NAME
    file.write_bytes(content)
    with pytest.raises(StoreError, match="damaged or not a results store"):
        Store.open(tmp_path)
    kept = set_aside(tmp_path)
    assert kept.read_bytes() == content
    assert not file.exists()


def test_unknown_schema_is_refused(store: Store) -> None:
    """A store of a later schema is refused with both versions named."""
    store.close()
    with sqlite3.connect(store.folder / FILE_NAME) as db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    with pytest.raises(StoreError, match=r"schema version 99, this harness reads 1"):
        Store.open(store.folder)


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    """A missing run is named, with the command that lists runs."""
    with pytest.raises(StoreError, match="harness runs list"):
        Store.open(tmp_path / "nope")


@pytest.mark.parametrize(
    ("arm", "keep", "pool", "series"),
    [
        ("random-k10-m0", 0.1, "random-k10", "random"),
        ("specprefill-k12.5-lah8@hf", 0.125, "specprefill-k12.5-lah8@hf", "specprefill-lah8@hf"),
        ("my-k2-arm", 0.3, "my-k2-arm", "my-k2-arm"),
        ("full", None, "full", "full"),
    ],
)
def test_cells_of_early_stores_get_their_pool_and_curve(
    arm: str, keep: float | None, pool: str, series: str
) -> None:
    """A store that was written before these were fields is read with what its names say."""
    old = {"arm": arm, "keep": keep, "look_ahead": 8, "method_seed": 0, "engine": "hf"}
    fields = cell_fields(json.dumps(old))
    assert (fields["pool"], fields["series"]) == (pool, series)
    assert fields["base"] == series.partition("-lah")[0].partition("@")[0]


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path: Path) -> None:
    """What was written before stays whole; what did not fit is not there in part."""
    with Store.create(tmp_path, RUN) as store:
        store.add_quality([QUALITY])
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages + 4}")
        many = [
            dataclasses.replace(QUALITY, example_id=f"f{n}", text="x" * 4000) for n in range(200)
        ]
        with pytest.raises(StoreError, match=r"is full: .* what was finished is saved"):
            store.add_quality(many)
        assert [record.example_id for record in store.quality()] == [EXAMPLE.example_id]
    with Store.open(tmp_path) as store:
        assert [record.example_id for record in store.quality()] == [EXAMPLE.example_id]


def test_a_nan_is_noticed_where_it_arises(tmp_path: Path) -> None:
    """Nothing turns it into a missing value on the way to the file."""
    bad = dataclasses.replace(QUALITY, metrics={"acc": float("nan")})
    with Store.create(tmp_path, RUN) as store, pytest.raises(ValueError, match="JSON"):
        store.add_quality([bad])
