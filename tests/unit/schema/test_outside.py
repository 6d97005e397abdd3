"""References and offers: foreign code is found by name, and its faults are one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from packages import install, write

from harness.errors import ConfigError, DataError
from harness.schema.outside import guarded, is_reference, load, offers, the_offer


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that Python imports from."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("package.module:Class", True),
        ("module:Class.Inner", True),
        ("specprefill", False),
        ("a:b:c", False),
        ("mine.yaml", False),
        ("./a:B", False),
        (":Class", False),
        ("C:/tasks/mine", False),
    ],
)
def test_what_is_a_reference(text: str, is_one: bool) -> None:
    """A path, an arm's name or a drive letter is none."""
    assert is_reference(text) is is_one


def test_a_reference_loads(site: Path) -> None:
    """A class, a nested class, or a module by its name alone."""
    write(site, {"outside_one/__init__.py": "class A:\n    class B:\n        pass\n"})
    assert load("outside_one:A.B", "method x").__qualname__ == "A.B"
    assert load("outside_one", "tasks x").__name__ == "outside_one"


@pytest.mark.parametrize(
    ("code", "reference", "says"),
    [
        ("", "outside_absent.deep:A", r"no module 'outside_absent'.*PYTHONPATH"),
        ("", "{m}:A", "no attribute 'A'|has no attribute"),
        ("import outside_missing_library", "{m}:A", "importing {m} fails: ModuleNotFoundError"),
        ("raise SystemExit(3)", "{m}:A", "importing {m} fails: SystemExit: 3"),
        ("raise ValueError('one\\ntwo')", "{m}:A", "importing {m} fails: ValueError: one$"),
        ("def (", "{m}:A", "SyntaxError"),
        ("", "not a reference", "is not written as package.module:Name"),
    ],
)
def test_a_broken_reference_is_one_line(
    site: Path, request: pytest.FixtureRequest, code: str, reference: str, says: str
) -> None:
    """The line names who asked, the module and the fault, whatever the module did."""
    module = f"outside_broken_{abs(hash(request.node.name))}"
    write(site, {f"{module}.py": code})
    with pytest.raises(ConfigError, match=says.format(m=module)) as caught:
        load(reference.format(m=module), "method mine of somewhere")
    assert str(caught.value).startswith("method mine of somewhere: ")
    assert "\n" not in str(caught.value)


def _raise(error: BaseException) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


def test_foreign_calls_are_guarded() -> None:
    """A foreign error is named with its type; one of ours keeps its own words."""
    with pytest.raises(ConfigError, match=r"^it: calling f fails: KeyError: 'x'$"):
        guarded("it", "calling f", _raise(KeyError("x")))
    with pytest.raises(ConfigError, match=r"^it: no rows$"):
        guarded("it", "calling f", _raise(DataError("no rows")))
    with pytest.raises(KeyboardInterrupt):
        guarded("it", "calling f", _raise(KeyboardInterrupt()))


def test_offers_are_found_without_an_import(site: Path) -> None:
    """An entry point is listed with its package, though its module would not even import."""
    files = {"outside_bad.py": "raise RuntimeError"}
    install(site, "bad-package", files, {"harness.test": {"bad": "outside_bad:A"}}, "2.5")
    (offer,) = offers("harness.test")
    assert (offer.name, offer.reference, offer.origin) == (
        "bad",
        "outside_bad:A",
        "bad-package 2.5",
    )
    assert str(offer) == "entry point 'bad' (harness.test) of bad-package 2.5"


def test_a_name_that_two_packages_offer_is_refused(site: Path) -> None:
    """Which of them it would be depends on the order of installation: both are named."""
    for package in ("first-package", "second-package"):
        install(site, package, {}, {"harness.test": {"same": f"{package[:5]}:A"}})
    with pytest.raises(ConfigError, match=r"first-package 1\.0 and second-package 1.0"):
        the_offer("same", offers("harness.test"))
    assert the_offer("other", offers("harness.test")) is None
