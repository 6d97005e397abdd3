"""The documentation's notebooks run as they stand, and show what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.ipynb"))


def _texts(outputs: list[Any]) -> str:
    """What a cell showed, as plain text."""
    shown = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs]
    return "\n".join(shown)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    """Every cell runs in an empty folder; the run, its frames and its report come out."""
    nbformat = pytest.importorskip("nbformat")
    from nbclient import NotebookClient

    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [_texts(cell.get("outputs", [])) for cell in book.cells if cell.cell_type == "code"]
    assert "specprefill-k30-lah8" in shown[1]
    assert "Warning" not in "".join(shown)
    html = [o["data"].get("text/html", "") for o in book.cells[1].outputs if "data" in o]
    assert any("too few" in text or "full prefill" in text for text in html)
    assert (tmp_path / "first-run.html").is_file()


def test_notebooks_are_kept_with_their_output() -> None:
    """A reader on the web sees results: every example has an output, and none shows a path."""
    assert EXAMPLES
    for path in EXAMPLES:
        text = path.read_text(encoding="utf-8")
        assert "execute_result" in text
        assert "site-packages" not in text
