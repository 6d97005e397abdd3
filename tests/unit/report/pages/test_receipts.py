"""Receipts by arm: what was due of the hooks, and what is proven."""

import sqlite3

import pytest
from synthetic import Arm, build_store

from harness.report.pages.receipts import receipt_rows
from harness.report.render import render
from harness.report.source import open_report
from harness.schema.receipts import Status


def rows_of(run):
    """Receipt rows by arm."""
    with open_report([str(run)]) as report:
        return {row.arm: row for row in receipt_rows(report)}


def test_proven_requests_are_counted(tmp_path):
    """Of 20 sparse requests all carry both counters; full prefill needed none."""
    run = build_store(tmp_path / "run")
    rows = rows_of(run)
    assert [proof.text for _, proof in rows["specprefill"].proofs] == ["20 of 20", "20 of 20"]
    assert [proof.text for _, proof in rows["full"].proofs] == ["–", "–"]
    assert not rows["specprefill"].silent
    (line,) = [x for x in render([str(run)], "md").splitlines() if x.endswith("of 20 |")]
    assert line.startswith("| specprefill |")
    assert line.endswith("| 20 of 20 | 20 of 20 |")
    assert render([str(run)], "html").count(": 20 of 20</span>") == 2


def test_requests_without_proof_are_shown(tmp_path):
    """A store whose sparse requests carry no counters says so, with a mark."""
    row = rows_of(build_store(tmp_path / "run", arms=[Arm(proven=False)]))["specprefill"]
    assert [proof.text for _, proof in row.proofs] == ["0 of 20", "0 of 20"]
    assert row.silent


def test_what_fell_back_needs_no_proof(tmp_path):
    """Half the requests ran as full prefill: proof is due of the other half only."""
    arm = Arm(statuses=(Status.ACTIVE, Status.SKIPPED_MIN_TOKENS))
    row = rows_of(build_store(tmp_path / "run", arms=[arm]))["specprefill"]
    assert [proof.text for _, proof in row.proofs] == ["10 of 10", "10 of 10"]


@pytest.mark.parametrize("counters", ["positions_applied", "rows_captured"])
def test_early_stores_say_what_they_have(tmp_path, counters):
    """Before proofs were recorded by name, counters are shown without a denominator."""
    run = build_store(tmp_path / "run")
    with sqlite3.connect(run / "store.sqlite") as db:
        db.execute("UPDATE quality SET receipt = json_remove(receipt, '$.details.proof')")
        db.execute(
            f"UPDATE quality SET receipt = json_set(receipt, '$.counters.{counters}', 0)"
            " WHERE rowid % 2 = 0 AND json_extract(receipt, '$.status') = 'active'"
        )
    db.close()
    texts = [proof.text for _, proof in rows_of(run)["specprefill"].proofs]
    assert sorted(texts) == ["10, due is not recorded", "20, due is not recorded"]
