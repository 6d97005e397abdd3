"""Prepared folders: atomic, checked, built once."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from harness.errors import ModelError
from harness.models.prepared import ensure, is_intact, models_dir

RECIPE = {"source": "abc", "recipe": 1}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Builder:
    """Counts its builds."""

    def __init__(self, *, fails: bool = False) -> None:
        self.calls = 0
        self.fails = fails

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        (folder / "a.txt").write_text("first")
        if self.fails:
            raise OSError("no space left on device")
        time.sleep(0.02)
        (folder / "b.bin").write_bytes(bytes(range(256)))


def test_second_call_does_nothing():
    """An intact folder is used as it is, and nobody is told about a build."""
    build, said = Builder(), []
    first = ensure("m", RECIPE, build, said.append)
    second = ensure("m", RECIPE, build, said.append)
    assert first == second
    assert build.calls == 1
    assert len(said) == 1


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "manifest"])
def test_damage_is_found_and_mended(damage):
    """A flipped byte of unchanged length is found as surely as a missing file."""
    build = Builder()
    folder = ensure("m", RECIPE, build)
    victim = folder / "b.bin"
    if damage == "flip":
        victim.write_bytes(bytes([1]) + victim.read_bytes()[1:])
    elif damage == "truncate":
        victim.write_bytes(victim.read_bytes()[:-1])
    elif damage == "remove":
        victim.unlink()
    else:
        (folder / "manifest.json").write_text("{")
    assert not is_intact(folder)
    ensure("m", RECIPE, build)
    assert build.calls == 2
    assert is_intact(folder, RECIPE)


def test_other_recipe_rebuilds():
    """A folder made from something else is out of date."""
    build = Builder()
    ensure("m", RECIPE, build)
    ensure("m", {**RECIPE, "recipe": 2}, build)
    assert build.calls == 2


def test_failed_build_leaves_nothing_and_keeps_the_old():
    """A failing rebuild is one clear error; no scratch folder stays."""
    ensure("m", RECIPE, Builder())
    with pytest.raises(ModelError, match=r"no space left.*XDG_CACHE_HOME"):
        ensure("m", {"recipe": 2}, Builder(fails=True))
    assert is_intact(models_dir() / "m", RECIPE)
    assert [p.name for p in models_dir().iterdir() if p.is_dir()] == ["m"]


def test_scratch_of_a_killed_build_is_removed():
    """What a killed process left behind does not fill the disk for ever."""
    models_dir().mkdir(parents=True)
    (models_dir() / ".m.build-dead").mkdir()
    ensure("m", RECIPE, Builder())
    assert [p.name for p in models_dir().iterdir() if p.is_dir()] == ["m"]


def test_concurrent_callers_build_once():
    """Of several callers one builds; the others wait for its result."""
    build = Builder()
    threads = [threading.Thread(target=ensure, args=("m", RECIPE, build)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert build.calls == 1
    assert is_intact(models_dir() / "m", RECIPE)
