"""What a run says of the code that wrote it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import harness
from harness.run import provenance


def test_a_change_in_any_room_is_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest covers every room of the package, not only the one that computes it."""
    package = Path(harness.__file__).resolve().parent
    assert package == provenance._PACKAGE
    (tmp_path / "engines").mkdir()
    source = tmp_path / "engines" / "base.py"
    source.write_text("a = 1\n")
    monkeypatch.setattr(provenance, "_PACKAGE", tmp_path)
    before = provenance.code_digest.__wrapped__()
    source.write_text("a = 2\n")
    assert provenance.code_digest.__wrapped__() != before


def test_a_checkout_is_named_by_its_commit() -> None:
    """In a git checkout the record begins with HEAD, so that a run can be traced to it."""
    root = Path(harness.__file__).resolve().parents[1]
    if not (root / ".git").exists():
        pytest.skip("not a checkout")
    head = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout
    assert provenance.commit().startswith(head[:12])
