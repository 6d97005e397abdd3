"""Tasks from outside: a folder anywhere, and folders that installed packages offer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packages import MADE, TASK, install, write

from harness.errors import ConfigError
from harness.models.tokenizer import Tokenizer
from harness.tasks.catalogue import all_tasks, list_tasks, resolve
from harness.tasks.examples import load_examples
from harness.tasks.outside import GROUP


def task(name: str, group: str = "mygroup") -> str:
    """Return a task's YAML."""
    return TASK.format(name=name, group=group, tokens=8)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that Python imports from, and the working directory."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_anywhere(site: Path, smollm2: Tokenizer) -> None:
    """All tasks of a folder and its folders; a shared YAML is none; they run as ours do."""
    files = {"t/one.yaml": task("one"), "t/deep/two.yaml": task("two"), "t/_shared.yaml": "a: 1\n"}
    write(site, {**files, "t/made.py": MADE, "t/deep/made.py": MADE})
    for name in ("t", "./t", str(site / "t")):
        assert [(t.name, t.group) for t in resolve([name])] == [
            ("two", "mygroup"),
            ("one", "mygroup"),
        ]
    (one,) = resolve(["t/one.yaml"])
    assert one.origin == "file t/one.yaml"
    loaded = load_examples(
        one, length=None, seed=0, limit=None, tokenizer=smollm2, max_positions=4096
    )
    assert loaded.score(loaded.examples[1], "It is 67890.") == {"holds": 1.0}


def test_a_package_offers_a_folder(site: Path) -> None:
    """As a package, a function or a path; asked for by entry point, group or task."""
    files = {
        "offering/__init__.py": "from pathlib import Path\nHERE = Path(__file__).parent / 'b'\n"
        "def folder():\n    return HERE\n",
        "offering/a/__init__.py": "",
        "offering/a/one.yaml": task("of_a", "group_a"),
        "offering/b/two.yaml": task("of_b", "group_b"),
    }
    points = {"pack": "offering.a", "function": "offering:folder", "path": "offering:HERE"}
    install(site, "tasky", files, {GROUP: points}, "3.1")
    for name in ("pack", "group_a", "of_a"):
        (found,) = resolve([name])
        assert (found.name, found.origin) == ("of_a", "tasky 3.1")
    assert [t.name for t in resolve(["function", "path", "of_b"])] == ["of_b"]
    every, broken = all_tasks()
    assert broken == []
    assert len(every) == len(list_tasks()) + 3


@pytest.mark.parametrize(
    ("files", "reference", "says"),
    [
        ({}, "absent_module", "no module 'absent_module'"),
        ({"m.py": "def f():\n    return 1 / 0\n"}, "m:f", "calling {m}:f fails: ZeroDivisionError"),
        ({"m.py": "F = '/no/such/folder'\n"}, "m:F", "'/no/such/folder', which is no folder"),
        ({"m.py": "F = 3\n"}, "m:F", "gives 3, which is no folder"),
        ({"m/__init__.py": ""}, "m", "no task in this folder"),
        ({"m/__init__.py": "", "m/a.yaml": "task: [\n"}, "m", "a.yaml: not valid YAML"),
        ({"m/__init__.py": "", "m/a.yaml": task("ruler_vt")}, "m", "'ruler_vt' is a built-in"),
        ({"m/__init__.py": "", "m/a.yaml": task("mine", "ruler")}, "m", "'ruler' is a built-in"),
        ({"m/a.yaml": task("mine")}, "m", "no __init__.py"),
    ],
)
def test_a_broken_offer_breaks_nothing_else(
    site: Path,
    request: pytest.FixtureRequest,
    files: dict[str, str],
    reference: str,
    says: str,
) -> None:
    """It is listed with its reason, refused where it is asked for, and unseen elsewhere."""
    module = f"broken_{abs(hash(request.node.name))}"
    files = {re.sub(r"^m(?=[./])", module, name): text for name, text in files.items()}
    reference = re.sub(r"^m\b", module, reference)
    install(site, "bad-package", files, {GROUP: {"bad": reference}})
    every, (broken,) = all_tasks()
    assert every == list_tasks()
    assert (broken.name, broken.origin) == ("bad", "bad-package 1.0")
    assert says.format(m=module) in broken.reason
    assert "\n" not in broken.reason
    with pytest.raises(ConfigError, match=re.escape(broken.reason)):
        resolve(["bad"])
    assert resolve(["ruler_vt", "arc_easy"])


def test_two_tasks_of_one_name_are_refused(site: Path) -> None:
    """Their results would stand in one row: both files are named."""
    write(site, {"a/one.yaml": task("same"), "b/two.yaml": task("same")})
    with pytest.raises(ConfigError, match=r"two tasks are called 'same': a/one.yaml, b/two.yaml"):
        resolve(["a", "b/two.yaml"])
    assert len(resolve(["a", "./a/one.yaml"])) == 1


def test_a_folder_without_tasks_or_none_at_all(site: Path) -> None:
    """The path is named."""
    (site / "empty").mkdir()
    with pytest.raises(ConfigError, match="empty: no task in this folder"):
        resolve(["empty"])
    with pytest.raises(ConfigError, match="task folder no/where does not exist"):
        resolve(["no/where"])


def test_names_come_before_folders(site: Path) -> None:
    """A folder called as a task is stays reachable by ./ and changes nothing."""
    write(site, {"ruler_vt/mine.yaml": task("mine"), "arc_easy/mine.yaml": task("mine")})
    assert [t.name for t in resolve(["ruler_vt"])] == ["ruler_vt"]
    assert [t.name for t in resolve(["arc_easy"])] == ["arc_easy"]
    assert [t.name for t in resolve(["./arc_easy"])] == ["mine"]
