"""The pages for outsiders show the example package's own files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "tests" / "outside" / "harness-example-plugin"
SHOWN = {
    "adding-a-method.md": ("harness_example_plugin/every_nth.py", "pyproject.toml"),
    "adding-a-task.md": (
        "harness_example_plugin/riddles/riddles.yaml",
        "harness_example_plugin/riddles/riddles.py",
    ),
}


@pytest.mark.parametrize(
    ("page", "file"), [(page, file) for page, files in SHOWN.items() for file in files]
)
def test_a_file_is_shown_as_it_is(page: str, file: str) -> None:
    """A block under a file's name is that file, which a test installs and runs."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.search(rf"`{re.escape(file)}`:\n\n```\w+\n(.*?)\n```\n", text, re.DOTALL)
    assert found, f"{page} shows no {file}"
    assert found[1] == (PLUGIN / file).read_text(encoding="utf-8").rstrip()
