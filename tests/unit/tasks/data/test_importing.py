"""Good files are recognised, checked, installed whole, and read back."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from samples import sample
from typer.testing import CliRunner
from unit.tasks.data.files import (
    HOTPOT,
    LONGBENCH,
    MUSIQUE,
    NQ,
    RULER,
    SQUAD,
    WIKI,
    lines,
    numbered,
    pretty,
)

from harness.cli.data import app
from harness.errors import DataError
from harness.tasks.catalogue import resolve
from harness.tasks.data.importing import import_path
from harness.tasks.data.library import all_installed, installed, verify
from harness.tasks.data.readers import read_set


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


RECOGNISED: dict[str, tuple[str, str, str, int]] = {
    "LongBench": ("x.jsonl", lines(*numbered(LONGBENCH, "_id")), "longbench_qasper", 3),
    "LongBench-E by its rows": (
        "x.jsonl", lines(*numbered({**LONGBENCH, "dataset": "qasper_e"}, "_id")),
        "longbench_qasper_e", 3,
    ),
    "LongBench-E by its name": ("qasper_e.jsonl", lines(LONGBENCH), "longbench_qasper_e", 1),
    "LongBench as a list": ("x.json", pretty(numbered(LONGBENCH, "_id")), "longbench_qasper", 3),
    "HotpotQA": ("x.json", pretty(numbered(HOTPOT, "_id")), "hotpotqa", 3),
    "HotpotQA on one line": ("x.json", json.dumps(numbered(HOTPOT, "_id")), "hotpotqa", 3),
    "HotpotQA as JSONL": ("x.jsonl", lines(*numbered(HOTPOT, "_id")), "hotpotqa", 3),
    "2WikiMultihopQA": ("dev.json", pretty(numbered(WIKI, "_id")), "2wikimultihopqa", 3),
    "MuSiQue": ("x.jsonl", lines(*numbered(MUSIQUE, "id")), "musique", 3),
    "NQ": ("x.jsonl", lines(NQ, NQ), "nq_lost_in_the_middle", 2),
    "SQuAD": ("dev-v2.0.json", json.dumps(SQUAD), "squad", 2),
    "SQuAD, indented": ("x.json", pretty(SQUAD), "squad", 2),
    "RULER": ("niah/validation.jsonl", lines(*numbered(RULER, "index")), "ruler_rows_niah", 3),
    "essays as JSON": ("PaulGrahamEssays.json", json.dumps({"text": "One. Two."}), "essays", 1),
    "essays as text": ("mine.txt", "One. Two.", "essays", 1),
    "blank lines": ("x.jsonl", "\n" + lines(LONGBENCH) + "\n\n", "longbench_qasper", 1),
    "no newline at the end": ("x.jsonl", lines(LONGBENCH).strip(), "longbench_qasper", 1),
    "without an ending": ("rows", lines(*numbered(LONGBENCH, "_id")), "longbench_qasper", 3),
}  # fmt: skip


@pytest.mark.parametrize("kind", RECOGNISED)
def test_a_good_file_is_recognised(kind: str, tmp_path: Path) -> None:
    """Every publisher's format is told from the others by its content."""
    name, text, expected, rows = RECOGNISED[kind]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    (one,) = import_path(path)
    assert (one.name, one.rows) == (expected, rows)
    assert installed(expected) == one
    assert read_set(expected)
    assert verify([one]) == []


def test_longbenchs_own_archive(tmp_path: Path) -> None:
    """data.zip holds one JSONL a set, LongBench-E's ending in _e; litter is passed over."""
    rows = lines(*numbered(LONGBENCH, "_id"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as out:
        out.writestr("data/", "")
        out.writestr("data/qasper.jsonl", rows)
        out.writestr("data/qasper_e.jsonl", rows)
        out.writestr("data/hotpotqa.jsonl", rows.replace('"qasper"', '"hotpotqa"'))
        out.writestr("__MACOSX/._qasper.jsonl", "litter")
    path = tmp_path / "data.zip"
    path.write_bytes(buffer.getvalue())
    names = {one.name for one in import_path(path)}
    assert names == {"longbench_qasper", "longbench_qasper_e", "longbench_hotpotqa"}


def test_an_unpacked_archive(tmp_path: Path) -> None:
    """A folder of data files is imported whole, or not at all."""
    rows = lines(*numbered(LONGBENCH, "_id"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "qasper.jsonl").write_text(rows, encoding="utf-8")
    bad = tmp_path / "in" / "qasper_e.jsonl"
    bad.write_text(rows[:-9], encoding="utf-8")
    with pytest.raises(DataError, match=r"qasper_e\.jsonl line 3"):
        import_path(tmp_path / "in")
    assert all_installed() == []
    bad.write_text(rows, encoding="utf-8")
    names = {one.name for one in import_path(tmp_path / "in")}
    assert names == {"longbench_qasper", "longbench_qasper_e"}


def test_gzip_and_folders(tmp_path: Path) -> None:
    """Lost-in-the-middle's .jsonl.gz is unpacked; a folder of texts is one haystack."""
    packed = tmp_path / "nq.jsonl.gz"
    packed.write_bytes(gzip.compress(lines(NQ).encode()))
    assert [one.name for one in import_path(packed)] == ["nq_lost_in_the_middle"]
    folder = tmp_path / "essays"
    folder.mkdir()
    (folder / "b.txt").write_text("Second.", encoding="utf-8")
    (folder / "a.txt").write_text("First.\n", encoding="utf-8")
    assert [one.name for one in import_path(folder)] == ["essays"]
    assert read_set("essays") == ["First.\n\nSecond."]


def test_an_import_makes_tasks_ready(tmp_path: Path) -> None:
    """A task is ready as soon as what it needs is here, and not before."""
    (before,) = resolve(["longbench_qasper"])
    path = tmp_path / "x.jsonl"
    path.write_text(lines(LONGBENCH), encoding="utf-8")
    import_path(path)
    (after,) = resolve(["longbench_qasper"])
    assert (before.ready, after.ready) == (False, True)


def test_a_second_import_replaces_the_first(tmp_path: Path) -> None:
    """The newer file counts, and no leftovers of the swap stay."""
    path = tmp_path / "x.jsonl"
    for count in (1, 3):
        path.write_text(lines(*numbered(LONGBENCH, "_id", count)), encoding="utf-8")
        import_path(path)
    assert len(read_set("longbench_qasper")) == 3
    one = installed("longbench_qasper")
    assert one is not None
    assert [p.name for p in one.folder.parent.iterdir()] == ["longbench_qasper"]


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    """``verify`` finds a byte that has changed since the import."""
    path = tmp_path / "x.jsonl"
    path.write_text(lines(LONGBENCH), encoding="utf-8")
    (one,) = import_path(path)
    file = one.folder / one.files[0].name
    file.write_bytes(file.read_bytes().replace(b'"c"', b'"d"'))
    assert "has changed" in verify([one])[0]
    file.unlink()
    assert "missing" in verify([one])[0]


def test_damaged_notes_are_one_line(tmp_path: Path) -> None:
    """A set whose own notes are damaged says so and how to mend it."""
    path = tmp_path / "x.jsonl"
    path.write_text(lines(LONGBENCH), encoding="utf-8")
    (one,) = import_path(path)
    (one.folder / "meta.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"damaged .* import or pull"):
        installed("longbench_qasper")


SAMPLES = {
    "longbench_multi_news_30.jsonl": ("longbench_multi_news", 30),
    "longbench_passage_retrieval_zh_20.jsonl": ("longbench_passage_retrieval_zh", 20),
    "hotpotqa_distractor_60.json": ("hotpotqa", 60),
    "musique_60.jsonl": ("musique", 60),
    "squad_paragraphs_160.json": ("squad", 774),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_real_files_are_recognised(name: str) -> None:
    """The publishers' own rows import as they are."""
    (one,) = import_path(sample(name))
    assert (one.name, one.rows) == SAMPLES[name]


def invoke(*words: str) -> dict[str, Any]:
    """Run ``harness data`` and parse its JSON."""
    done = CliRunner().invoke(app, [*words], standalone_mode=False)
    assert done.exception is None, done.exception
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_list_shows_what_is_here(tmp_path: Path) -> None:
    """Every known set is listed with source, licence and revision; imported ones with digests."""
    path = tmp_path / "x.jsonl"
    path.write_text(lines(LONGBENCH), encoding="utf-8")
    done = invoke("import", str(path), "--json")
    rows = {row["name"]: row for row in invoke("list", "--json")["data"]}
    assert done["installed"][0]["name"] == "longbench_qasper"
    assert rows["longbench_qasper"]["here"]
    assert rows["longbench_qasper"]["files"][0]["sha256"]
    assert not rows["squad"]["here"]
    assert rows["squad"]["pull"]["git_blob"]
    assert all(row["licence"] and row["source"] for row in rows.values())
    assert len(all_installed()) == 1
