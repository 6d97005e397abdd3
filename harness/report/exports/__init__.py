"""Exports: a run's records in the formats of other tools."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from pkgutil import resolve_name

from harness.errors import ConfigError, StoreError, nearest
from harness.run.runs import find_run
from harness.run.store import Store

FORMATS = {
    "lm-eval": "harness.report.exports.lm_eval:write_lm_eval",
    "parquet": "harness.report.exports.tabular:write_parquet",
    "csv": "harness.report.exports.tabular:write_csv",
}
"""Format → function of (store, folder), imported on use."""


def export(name: str, format_: str, out: Path) -> list[Path]:
    """Write a run's records into a new folder and return the files.

    The folder appears whole or not at all.

    Raises
    ------
    ConfigError
        Unknown format, or ``out`` holds something already or cannot be written.
    StoreError
        The run is missing, damaged or without records.
    """
    if format_ not in FORMATS:
        raise ConfigError(f"--format {format_!r} is unknown{nearest(format_, FORMATS)}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out} holds something already: name a new folder")
    with Store.open(find_run(name)) as store:
        if not store.done_pairs():
            raise StoreError(f"{name} holds no finished example: there is nothing to export")
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
        except OSError as error:
            raise ConfigError(f"cannot write {out}: {error.strerror}") from error
        try:
            resolve_name(FORMATS[format_])(store, draft)
            draft.chmod(0o755)  # mkdtemp makes private folders
            if out.exists():
                out.rmdir()
            draft.rename(out)
        except OSError as error:
            raise ConfigError(f"cannot write {out}: {error.strerror}") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return sorted(path for path in out.rglob("*") if path.is_file())
