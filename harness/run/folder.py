"""Opens a run's folder for writing: new, or resumed by the same configuration and code."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout

from harness.errors import ConfigError, DamagedStoreError, StoreError
from harness.paths import runs_dir
from harness.run import provenance
from harness.run.cells import by_examples
from harness.run.growing import changed_options, growth
from harness.run.plan import Plan
from harness.run.store import Store
from harness.run.store_files import FILE_NAME, set_aside
from harness.schema.records import RunRecord

LOCK = ".lock"
LOCK_WAIT_S = 2.0
"""A child of a killed run may hold the lock until it notices."""


NAME_LENGTH = 80
"""Letters of a task that a run's name takes: file systems allow 255 bytes in all."""


@contextmanager
def open_run(plan: Plan, out: Path | None, *, allow_mixed_code: bool = False) -> Iterator[Store]:
    """Open the store of a run and hold its lock; plan, cells and examples are in it then.

    Raises
    ------
    StoreError
        The folder's store is damaged (it is set aside), or another process writes to it, or it
        cannot be written just now (a full disk, another program's lock).
    ConfigError
        The folder holds a run of another configuration, or of other code.
    """
    folder = out or runs_dir() / new_run_id(plan)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--out {folder} is a file: name a folder")
    with _locked(folder):
        exists = (folder / FILE_NAME).exists()
        store = _resume(folder, plan, allow_mixed_code) if exists else _create(folder, plan)
        with store:
            store.add_cells(cell.record for cell in plan.cells)
            for alike in by_examples(plan.cells):
                store.add_examples(example.record for example in alike[0].examples.examples)
            yield store


def new_run_id(plan: Plan) -> str:
    """``20260102-030405-ruler-1a2b3c4d``: sorts by time, says what, differs by configuration."""
    first = "data" if plan.config.data else Path(plan.config.task[0]).stem[:NAME_LENGTH]
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{first}-{run_digest(plan)[:8]}"


def run_digest(plan: Plan) -> str:
    """Hash of what shapes the run's results: the configuration and every cell's identity."""
    from harness.run.config import canonical_digest

    cells = [cell.record.cell_id for cell in plan.cells]
    return canonical_digest([plan.config.digest, cells])


def _create(folder: Path, plan: Plan) -> Store:
    models = plan.models
    run = RunRecord(
        run_id=folder.resolve().name,
        created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        config=plan.config.model_dump(mode="json"),
        config_hash=run_digest(plan),
        command=provenance.command_line(),
        commits=(provenance.commit(),),
        machine=provenance.machine(),
        software=provenance.software(),
        models={
            "preset": models.preset,
            "target": models.target_name,
            "speculator": models.speculator_name,
            "digests": dict(models.digests),
            "note": models.note,
            "max_positions": models.max_positions,
        },
        note=plan.config.note,
    )
    return Store.create(folder, run)


def _resume(folder: Path, plan: Plan, allow_mixed_code: bool) -> Store:
    try:
        store = Store.resume(folder)
    except DamagedStoreError as error:
        kept = set_aside(folder)
        raise StoreError(f"{error}; it is kept as {kept.name}: run again for a new one") from error
    try:
        run = _checked(store, folder, allow_mixed_code=allow_mixed_code)
        if run.config_hash != run_digest(plan):
            _grow(store, run, plan, folder)
        elif run != store.run():
            store.update_run(run)
    except BaseException:
        store.close()
        raise
    return store


def _checked(store: Store, folder: Path, *, allow_mixed_code: bool) -> RunRecord:
    """Return a store's run with this code among its commits, or refuse other code."""
    run, code = store.run(), provenance.commit()
    if code in run.commits:
        return run
    if not allow_mixed_code and _code(code) not in map(_code, run.commits):
        raise ConfigError(
            f"{folder} was written by other code ({run.commits[-1]}, now {code}): choose "
            "another --out, or --allow-mixed-code to resume it and have the report say so"
        )
    return replace(run, commits=(*run.commits, code))


def _grow(store: Store, run: RunRecord, plan: Plan, folder: Path) -> None:
    """Take what a store holds into a larger plan, or refuse a plan that has no place for it."""
    successors = growth(store, run, plan)
    if successors is None:
        what = ", ".join(changed_options(run, plan)) or "an arm, a model, data, or code of others"
        raise ConfigError(
            f"{folder} holds a run of another configuration ({what} differs), whose records this "
            "one has no place for: choose another --out, or repeat its own options to resume it; "
            "more examples, tasks, keep rates or seeds may be added"
        )
    grown = replace(
        run,
        config=plan.config.model_dump(mode="json"),
        config_hash=run_digest(plan),
        command=provenance.command_line(),
        note=plan.config.note or run.note,
    )
    store.take_over(grown, successors)


def _code(commit: str) -> str:
    """Return the code digest in a recorded commit: a new commit of the same code is no change."""
    return commit.rpartition("(")[2]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so that two processes never write to one store."""
    made = not folder.exists()
    lock = FileLock(folder / LOCK, timeout=LOCK_WAIT_S)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise StoreError(f"{folder} is being written by another process: wait for it") from None
    except NotImplementedError:  # filelock's word for a file system without locks
        raise ConfigError(
            f"the file system of {folder} has no locks: choose another --out"
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot write to {folder}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()
        if made and not (folder / FILE_NAME).exists():
            _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    """Take back a folder that nothing was written to."""
    (folder / LOCK).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()
