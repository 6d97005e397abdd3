"""Digests of source code: what they follow, and what they do not look at."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from packages import write

from harness.errors import ConfigError
from harness.schema.source_digest import digest_of_files, digest_of_module, with_imports

PACKAGE = {
    "deep_pack/__init__.py": "",
    "deep_pack/main.py": "from . import near\nimport deep_pack.inner.far as far\nimport numpy\n",
    "deep_pack/near.py": "def f():\n    from .inner import late\n",
    "deep_pack/inner/__init__.py": "",
    "deep_pack/inner/far.py": "x = 1\n",
    "deep_pack/inner/late.py": "from ..near import f\n",
    "deep_pack/unused.py": "",
}


def names(files: set[Path], root: Path) -> set[str]:
    """Paths below ``root``."""
    return {file.relative_to(root.resolve()).as_posix() for file in files}


def test_imports_are_followed_inside_a_package(tmp_path: Path) -> None:
    """Relative, absolute and late imports, packages on the way, circles; nothing foreign."""
    write(tmp_path, PACKAGE)
    found = names(with_imports([tmp_path / "deep_pack/main.py"]), tmp_path)
    assert found == {*PACKAGE} - {"deep_pack/unused.py"}


def test_a_file_in_no_package_has_its_folder(tmp_path: Path) -> None:
    """Neighbours count, other folders only where they are named."""
    files = {
        "tasks/mine.py": "import rules\nfrom harness.tasks.scoring import text\nimport other",
        "tasks/rules.py": "",
        "other.py": "",
    }
    write(tmp_path, files)
    mine = tmp_path / "tasks/mine.py"
    assert names(with_imports([mine]), tmp_path) == {"tasks/mine.py", "tasks/rules.py"}
    import harness.tasks.scoring

    scoring = Path(harness.tasks.scoring.__file__).parent
    more = with_imports([mine], [scoring]) - with_imports([mine])
    assert {file.name for file in more} == {"text.py", "__init__.py"}


def test_a_digest_follows_contents_and_places_only(tmp_path: Path) -> None:
    """Two copies are equal, other line ends too; a change, a move and a swap are not."""
    one, two = (write(tmp_path / name, PACKAGE) for name in ("one", "two"))
    digest = digest_of_files(one.rglob("*.py"))
    assert digest_of_files(two.rglob("*.py")) == digest
    far, late = two / "deep_pack/inner/far.py", two / "deep_pack/inner/late.py"
    far.write_bytes(b"x = 1\r\n")
    assert digest_of_files(two.rglob("*.py")) == digest
    texts = far.read_text(), late.read_text()
    far.write_text(texts[1])
    late.write_text(texts[0])
    assert digest_of_files(two.rglob("*.py")) != digest
    assert digest_of_files(one.rglob("*.py"), "settings") != digest


def test_a_module_stands_for_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any file of the package changes the digest; of a lone module, only what it imports."""
    monkeypatch.syspath_prepend(tmp_path)
    lone = {"lone_module.py": "import lone_helper\n", "lone_helper.py": "", "lone_other.py": ""}
    write(tmp_path, {**PACKAGE, **lone})
    import_module("deep_pack.inner.far")
    before = digest_of_module("deep_pack.inner.far"), digest_of_module("lone_module")
    write(tmp_path, {"lone_other.py": "x = 2\n", "deep_pack/unused.py": "x = 2\n"})
    after = digest_of_module("deep_pack.inner.far"), digest_of_module("lone_module")
    assert (before[0] != after[0], before[1] == after[1]) == (True, True)
    write(tmp_path, {"lone_helper.py": "x = 3\n"})
    assert digest_of_module("lone_module") != before[1]


def test_code_without_source_is_refused() -> None:
    """Results of code that cannot be told apart would pass for one another."""
    with pytest.raises(ConfigError, match="no_such_module_anywhere"):
        digest_of_module("no_such_module_anywhere")
