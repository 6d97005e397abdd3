"""Methods from outside: by reference, by entry point, by an arm's file; broken ones apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from packages import METHOD, install, write

from harness.cli.method_listing import describe
from harness.engines.base import EngineSpec
from harness.errors import ConfigError
from harness.methods import METHODS
from harness.methods.arms import load_arm
from harness.methods.registry import GROUP, method_class, origin_of, outside_code, outside_methods
from harness.run.arms import expand_arms
from harness.run.config import RunConfig

BASE = EngineSpec("fake", "nowhere")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that Python imports from."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def renamed(name: str, **changes: str) -> str:
    """Return the example's source under another name, and with other parts."""
    text = METHOD.replace('"mine"', f'"{name}"')
    for old, new in changes.items():
        text = text.replace({"base": "(Method)", "prepare": "def prepare"}[old], new)
    return text


def test_an_offered_method_has_its_package(site: Path) -> None:
    """It is found by its name, listed with its package and version, and expands by keep rate."""
    install(
        site,
        "nice-package",
        {"nice_pack/__init__.py": "", "nice_pack/it.py": renamed("nice")},
        {GROUP: {"nice": "nice_pack.it:Mine"}},
        "0.3",
    )
    cls = method_class("nice")
    assert (cls.name, origin_of(cls)) == ("nice", "nice-package 0.3")
    (row,) = (m for m in describe()["methods"] if m["from"] != "built in")
    assert (row["name"], row["from"], row["options"]) == ("nice", "nice-package 0.3", {"keep": 0.5})
    arms = expand_arms(RunConfig(arms={"nice": {}}, keep=(0.1, 0.3), reference=False))
    assert [(p.arm.name, p.method.keep) for p in arms] == [("nice-k10", 0.1), ("nice-k30", 0.3)]


def test_an_arms_file_may_name_a_class(site: Path) -> None:
    """The arm is called as its file; names, sweeps and listings take the file and the class."""
    write(site, {"lone_method.py": renamed("lone")})
    path = site / "my-arm.yaml"
    path.write_text("method: lone_method:Mine\ndescription: d\noptions: {keep: 0.2}\n")
    assert load_arm(str(path)).method == "lone_method:Mine"
    sweep = {"swept": {"method": str(path)}, str(path): {}, "lone_method:Mine": {}}
    arms = expand_arms(RunConfig(arms=sweep, keep=(0.4,), reference=False))
    facts = [(p.arm.name, p.arm.method, p.method.keep) for p in arms]
    assert facts == [("swept", "lone", 0.2), ("my-arm", "lone", 0.2), ("lone-k40", "lone", 0.4)]
    found = describe([str(path), "lone_method:Mine", "rag-dense"])
    assert [m["name"] for m in found["methods"]] == ["lone", "rag"]
    assert found["methods"][0]["from"] == f"file {site / 'lone_method.py'}"
    assert [(a["name"], a["from"]) for a in found["arms"]] == [
        ("my-arm", f"file {path}"),
        ("rag-dense", "built in"),
    ]


def test_options_of_a_plain_dataclass_are_checked(site: Path) -> None:
    """A method need not know pydantic: unknown knobs and wrong types are refused all the same."""
    write(site, {"plain_method.py": renamed("plain")})
    for options, says in (({"kep": 1}, "did you mean 'keep'"), ({"keep": "x"}, "option 'keep'")):
        with pytest.raises(ConfigError, match=says):
            expand_arms(RunConfig(arms={"plain_method:Mine": options}))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("Mine = 3\n", "no subclass of harness.methods.base.Method"),
        (renamed("bad", base="()"), "no subclass of harness.methods.base.Method"),
        (renamed("bad", prepare="def other"), "does not define prepare"),
        (renamed("bad").replace("@dataclass(frozen=True)", ""), "is no dataclass"),
        (renamed("a name"), "one word"),
        (renamed("full"), "'full' is a built-in method's or arm's"),
        (renamed("rag-dense"), "'rag-dense' is a built-in method's or arm's"),
        (renamed("bad").replace("keep: float = 0.5", "keep: float"), "building it.*fails"),
        (
            renamed("bad").replace("keep: float", 'budget_kind = "tokens"\n    keep: float'),
            "Budget",
        ),
        (
            renamed("bad").replace("keep: float", 'needs = "scorer"\n    keep: float'),
            "set of words",
        ),
        (renamed("other"), "calls itself 'other'"),
        ("import nothing_of_that_name\n", "ModuleNotFoundError"),
    ],
)
def test_a_broken_method_is_listed_with_its_reason(
    site: Path, request: pytest.FixtureRequest, source: str, says: str
) -> None:
    """What an installed package breaks is said in one line, and breaks nothing else."""
    module = f"broken_{abs(hash(request.node.name))}"
    install(site, "bad-package", {f"{module}.py": source}, {GROUP: {"bad": f"{module}:Mine"}})
    found = describe()
    assert [m["name"] for m in found["methods"]] == list(METHODS)
    (broken,) = found["broken"]
    assert (broken["name"], broken["from"]) == ("bad", "bad-package 1.0")
    assert broken["reason"].startswith("entry point 'bad' (harness.methods) of bad-package 1.0")
    assert "\n" not in broken["reason"]
    with pytest.raises(ConfigError, match=says):
        expand_arms(RunConfig(arms={"bad": {}}))
    assert expand_arms(RunConfig())


def test_what_ships_with_the_harness_comes_first(site: Path) -> None:
    """No installed package changes what a built-in name means."""
    install(
        site,
        "greedy-package",
        {"greedy.py": renamed("rag-bm25")},
        {GROUP: {"rag-bm25": "greedy:Mine", "full": "greedy:Mine"}},
    )
    arms = expand_arms(RunConfig(arms={"rag-bm25": {}}))
    assert [planned.arm.method for planned in arms] == ["full", "rag"]
    assert [one.name for one in outside_methods()[1]] == ["full", "rag-bm25"]


def test_a_name_that_two_packages_offer(site: Path) -> None:
    """Both are listed as broken, and using it names both."""
    write(site, {"twice.py": renamed("twice")})
    for package in ("one-package", "two-package"):
        install(site, package, {}, {GROUP: {"twice": "twice:Mine"}})
    assert len(outside_methods()[1]) == 2
    with pytest.raises(ConfigError, match=r"one-package 1\.0 and two-package 1.0"):
        expand_arms(RunConfig(arms={"twice": {}}))


def test_a_listing_survives_a_method_that_cannot_say_what_it_lacks(site: Path) -> None:
    """``missing`` is foreign code too."""
    source = renamed("moody").replace(
        "def prepare", "def missing(self):\n        1 / 0\n\n    def prepare"
    )
    install(site, "moody-package", {"moody.py": source}, {GROUP: {"moody": "moody:Mine"}})
    (broken,) = describe()["broken"]
    assert "describing it fails: ZeroDivisionError" in broken["reason"]


def test_two_arms_of_one_name_are_refused(tmp_path: Path) -> None:
    """Two files of the same name in two folders would stand in one row."""
    text = "method: random\ndescription: d\n"
    write(tmp_path, {"a/mine.yaml": text, "b/mine.yaml": text})
    arms = {str(tmp_path / name): {} for name in ("a/mine.yaml", "b/mine.yaml")}
    with pytest.raises(
        ConfigError, match=r"two arms are called 'mine': .*a/mine.yaml and .*b/mine"
    ):
        expand_arms(RunConfig(arms=arms))


def test_only_code_from_outside_is_part_of_an_identity(site: Path) -> None:
    """A built-in method's version stands for its code; a strategy of another module counts."""
    write(site, {"coded.py": renamed("coded"), "coded_strategy.py": "class S:\n    pass\n"})
    spec = EngineSpec("hf", "nowhere", prefill="coded_strategy:S")
    assert outside_code(method_class("full")(), BASE) == {}
    method = method_class("coded:Mine")()
    assert set(outside_code(method, BASE)) == {"coded"}
    before = outside_code(method, spec)
    assert set(before) == {"coded", "coded_strategy"}
    write(site, {"coded_strategy.py": "class S:\n    changed = 1\n"})
    after = outside_code(method, spec)
    assert (before["coded"], before["coded_strategy"] != after["coded_strategy"]) == (
        after["coded"],
        True,
    )
