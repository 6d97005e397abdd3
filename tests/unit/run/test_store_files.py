"""What a machine may do to a store's file: nothing of it is called damage, no record is lost."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from synthetic import Task, build_store

from harness.errors import DamagedStoreError, StoreBusyError, StoreError
from harness.run import store_files, store_schema
from harness.run.store import Store
from harness.run.store_files import FILE_NAME
from harness.schema.records import CellStatus


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run of three examples."""
    return build_store(tmp_path / "run", tasks=[Task(n=3)])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB of its own; there is none without the right to mount."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        _mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


def _records(folder: Path) -> int:
    with Store.open(folder) as store:
        return len(store.done_pairs())


def test_a_run_on_read_only_media_is_read(run: Path, small_disk: Path) -> None:
    """Neither a clean store nor one with a killed writer's log needs a writable folder."""
    shutil.copytree(run, small_disk / "clean")
    _kill_while_writing(run)
    assert (run / f"{FILE_NAME}-wal").stat().st_size > 0
    (small_disk / "killed").mkdir()
    for name in (FILE_NAME, f"{FILE_NAME}-wal"):
        shutil.copy(run / name, small_disk / "killed" / name)
    _mount("-o", "remount,ro", str(small_disk))
    try:
        assert _records(small_disk / "clean") == 6
        with Store.open(small_disk / "killed") as store:
            assert {cell.status for cell in store.cells()} == {CellStatus.FAILED}
        with pytest.raises(StoreError, match="read-only"), Store.resume(small_disk / "clean") as s:
            s.update_run(s.run())
    finally:
        _mount("-o", "remount,rw", str(small_disk))


def _kill_while_writing(run: Path) -> None:
    """Mark every cell as failed in a process that dies before its log is folded in."""
    code = (
        "import os, pathlib, sys\n"
        "from harness.run.store import Store\n"
        "store = Store.resume(pathlib.Path(sys.argv[1]))\n"
        "store.set_cell_statuses([(c.cell_id, 'failed', 'killed') for c in store.cells()])\n"
        "os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run)], check=False)
    assert done.returncode == 9


def test_a_full_disk_is_not_damage(run: Path, small_disk: Path) -> None:
    """It is read while the disk is full, refused to writers, and goes on once there is space."""
    folder = shutil.copytree(run, small_disk / "run")
    before = (folder / FILE_NAME).read_bytes()
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    assert _records(folder) == 6
    with pytest.raises(StoreError, match="full") as caught, Store.resume(folder) as store:
        store.update_run(store.run())
    assert not isinstance(caught.value, DamagedStoreError)
    assert (folder / FILE_NAME).read_bytes() == before
    filler.unlink()
    with Store.resume(folder) as store:
        store.update_run(store.run())
    assert _records(folder) == 6


def test_a_locked_store_is_read_and_not_written(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program's write lock leaves readers alone; a writer is told that it is in use."""
    monkeypatch.setattr(store_files, "LOCK_WAIT_S", 0.05)
    other = sqlite3.connect(run / FILE_NAME)
    other.execute("BEGIN IMMEDIATE")
    assert _records(run) == 6
    with pytest.raises(StoreBusyError, match="in use"), Store.resume(run) as store:
        store.update_run(store.run())
    other.close()


def test_a_finished_record_waits_for_a_lock(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With patience a write waits, says so, and is done once the lock is gone."""
    monkeypatch.setattr(store_files, "LOCK_WAIT_S", 0.05)
    other = sqlite3.connect(run / FILE_NAME, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    said: list[str] = []
    with Store.resume(run) as store:
        store.patience_s = 30.0
        store.say = lambda line: (said.append(line), freed.set())[0]
        freed = threading.Event()
        thread = threading.Thread(target=lambda: (freed.wait(30), other.close()))
        thread.start()
        (cell, *_) = store.cells()
        store.set_cell_status(cell.cell_id, CellStatus.FAILED, "late")
        thread.join()
        assert store.cells()[0].reason == "late"
    assert said
    assert "in use" in said[0]


def test_reading_changes_no_byte(run: Path) -> None:
    """A store that is read is the same file afterwards, with nothing beside it."""
    before = (run / FILE_NAME).read_bytes()
    with Store.open(run) as store:
        assert store.run().run_id == "synthetic"
        with pytest.raises(StoreError, match="cannot be written"):
            store.update_run(store.run())
    assert (run / FILE_NAME).read_bytes() == before
    assert [path.name for path in run.iterdir()] == [FILE_NAME]


@pytest.fixture
def older(run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of the version before, which lacks a table that the upgrade makes."""
    with sqlite3.connect(run / FILE_NAME) as db:
        db.execute("UPDATE meta SET value = '0' WHERE key = 'schema_version'")
    monkeypatch.setitem(store_schema.UPGRADES, 0, "CREATE TABLE new_in_1 (a)")
    return run


def _has_new_table(folder: Path) -> bool:
    with sqlite3.connect(folder / FILE_NAME) as db:
        return bool(db.execute("SELECT 1 FROM sqlite_master WHERE name = 'new_in_1'").fetchone())


def test_an_older_store_is_read_as_it_is_and_upgraded_when_resumed(older: Path) -> None:
    """Reading upgrades a copy in memory; only who adds to it changes the file."""
    assert _records(older) == 6
    assert not _has_new_table(older)
    Store.resume(older).close()
    assert _has_new_table(older)
    assert _records(older) == 6


def test_an_upgrade_that_fails_midway_changes_nothing(
    older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version and the tables stay as they were."""
    script = "CREATE TABLE new_in_1 (a); INSERT INTO no_such_table VALUES (1)"
    monkeypatch.setitem(store_schema.UPGRADES, 0, script)
    with pytest.raises(StoreError):
        Store.resume(older)
    assert not _has_new_table(older)
    monkeypatch.setitem(store_schema.UPGRADES, 0, "CREATE TABLE new_in_1 (a)")
    Store.resume(older).close()
    assert _records(older) == 6
