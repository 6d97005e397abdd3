"""The file behind a results store: made whole, opened to read or to write, set aside if damaged.

A fault of the machine (a full disk, a lock, a folder that may not be written) is never called
damage: only what SQLite itself finds broken is.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.errors import DamagedStoreError, StoreBusyError, StoreError
from harness.run import store_schema as schema
from harness.schema.records import SCHEMA_VERSION, RunRecord

FILE_NAME = "store.sqlite"

LOCK_WAIT_S = 10.0
"""Seconds that one statement waits for another program's lock before it is a fault."""

SPARE_BYTES = 2**20
"""Free space under which a failed write is put down to a full disk: SQLite reports a file that
cannot grow as an I/O error, not as a full disk, where it is the one beside the database."""

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_FORBIDDEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_ENVIRONMENT = _FORBIDDEN | {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}


@contextmanager
def told(file: Path) -> Iterator[None]:
    """Turn SQLite's faults inside the block into one line about ``file``.

    Raises
    ------
    StoreError
        Told apart by :func:`explain`.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, file) from error


def explain(error: sqlite3.Error, file: Path) -> StoreError:
    """Say what an SQLite error means for the person who owns the store."""
    primary = _primary(error)
    if primary in _BUSY:
        return StoreBusyError(
            f"{file} is in use: another program holds its lock; nothing is lost, try again when "
            "it is done"
        )
    if primary == sqlite3.SQLITE_FULL or (primary in _ENVIRONMENT and _is_full(file)):
        return StoreError(
            f"the disk of {file.parent} is full: free some space and run the same command again "
            "with this --out; what was finished is saved"
        )
    if primary in _FORBIDDEN:
        return StoreError(f"{file} cannot be written here ({error}): its folder is read-only")
    if primary == sqlite3.SQLITE_IOERR:
        return StoreError(f"{file} cannot be read or written ({error}): is its disk there?")
    if primary in _DAMAGED or primary is None or primary == sqlite3.SQLITE_ERROR:
        return DamagedStoreError(f"{file} is damaged or not a results store ({error})")
    return StoreError(f"{file} cannot be used: {error}")


def _primary(error: sqlite3.Error) -> int | None:
    """Primary result code of an error; extended codes carry it in their low byte."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def _is_full(file: Path) -> bool:
    try:
        return shutil.disk_usage(file.parent).free < SPARE_BYTES
    except OSError:
        return False


def set_aside(folder: Path) -> Path:
    """Rename a damaged store so that nothing overwrites it; return its new name."""
    file = folder / FILE_NAME
    kept = folder / f"{FILE_NAME}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 0
    while kept.exists():
        number += 1
        kept = kept.with_name(f"{kept.name}-{number}")
    file.rename(kept)
    for suffix in ("-wal", "-shm"):
        beside = folder / f"{FILE_NAME}{suffix}"
        if beside.exists():
            beside.rename(kept.with_name(kept.name + suffix))
    return kept


def write_empty(path: Path, run: RunRecord) -> None:
    """Write a store with a run and no records, under a temporary name first.

    A process killed here leaves the temporary file and no half-made store.
    """
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    try:
        db = connect(new)
        try:
            with db:
                db.executescript(schema.DDL)
                db.execute("INSERT INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))
                db.execute("INSERT INTO meta VALUES ('run', ?)", (dump(dataclasses.asdict(run)),))
        finally:
            db.close()
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def connect(path: Path) -> sqlite3.Connection:
    """Open a database file to write, waiting :data:`LOCK_WAIT_S` for other writers."""
    db = sqlite3.connect(path, timeout=LOCK_WAIT_S)
    try:
        db.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        db.close()
        raise
    return db


def open_to_write(file: Path) -> sqlite3.Connection:
    """Open a store's file to write; an older schema is brought to this one in the file.

    Raises
    ------
    StoreError
        It is damaged, of a later schema, or cannot be written just now.
    """
    with told(file):
        db = connect(file)
        try:
            version = _checked(db, file)
            _upgrade(db, version, file)
        except BaseException:
            db.close()
            raise
        return db


def open_to_read(file: Path) -> sqlite3.Connection:
    """Open a store's file to read, wherever it lies: nothing is written to it.

    Raises
    ------
    StoreError
        It is damaged, of a later schema, or cannot be read just now.
    """
    with told(file):
        db = _connect_to_read(file)
        try:
            version = _checked(db, file)
            if version != SCHEMA_VERSION:
                own, db = db, _in_memory(db)
                own.close()
                _upgrade(db, version, file)
        except BaseException:
            db.close()
            raise
        return db


def _checked(db: sqlite3.Connection, file: Path) -> int:
    """Return the schema version of a file that SQLite finds sound; -1 is one that is no number."""
    row = db.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    check = db.execute("PRAGMA quick_check(1)").fetchone()
    if row is None or check[0] != "ok":
        raise DamagedStoreError(f"{file} is damaged or not a results store")
    return int(row[0]) if str(row[0]).isdigit() else -1


def _upgrade(db: sqlite3.Connection, found: int, file: Path) -> None:
    """Bring an older schema to the current one, a version at a time; refuse an unknown one."""
    version = found
    while version in schema.UPGRADES:
        # One script, one transaction: a disk that fills up midway leaves the version as it was.
        script = (
            f"BEGIN IMMEDIATE; {schema.UPGRADES[version]};"
            f" UPDATE meta SET value = '{version + 1}' WHERE key = 'schema_version'; COMMIT;"
        )
        try:
            db.executescript(script)
        except sqlite3.Error:
            db.rollback()
            raise
        version += 1
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{file} has schema version {found}, this harness reads {SCHEMA_VERSION}: use the "
            "harness that wrote it"
        )


def _connect_to_read(file: Path) -> sqlite3.Connection:
    """Connect without a need to write.

    A database in WAL mode needs two files beside it even to be read. Where they cannot be made (a
    read-only mount, a full disk) the file is read alone, and what a killed run left in the log is
    read from a copy in memory.
    """
    address = file.absolute().as_uri()
    try:
        return _probed(f"{address}?mode=rw")
    except sqlite3.OperationalError as error:
        if _primary(error) not in _ENVIRONMENT:
            raise
    log = file.with_name(f"{file.name}-wal")
    if log.exists() and log.stat().st_size:
        return _copied(file, log)
    # Without a log nobody has written since the last checkpoint: the file is whole as it stands.
    return _probed(f"{address}?mode=ro&immutable=1")


def _probed(address: str) -> sqlite3.Connection:
    """Open, and read once: SQLite opens a file no sooner."""
    db = sqlite3.connect(address, uri=True, timeout=LOCK_WAIT_S)
    try:
        db.execute("PRAGMA query_only = ON")
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def _copied(file: Path, log: Path) -> sqlite3.Connection:
    """Read a database and its log from a copy, where the log cannot be folded in in place."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / file.name
        shutil.copyfile(file, copy)
        shutil.copyfile(log, copy.with_name(log.name))
        db = sqlite3.connect(copy)
        try:
            return _in_memory(db)
        finally:
            db.close()


def _in_memory(db: sqlite3.Connection) -> sqlite3.Connection:
    """Copy a database into memory, where it may be changed without touching the file."""
    memory = sqlite3.connect(":memory:")
    db.backup(memory)
    return memory


def dump(value: Mapping[str, Any]) -> str:
    """Canonical JSON: sorted keys, text as it is."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
