"""``harness models``: one JSON object, and errors that name what to do."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from harness.cli.models import app
from harness.errors import ConfigError, ModelError


@pytest.fixture(autouse=True)
def _empty(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_list_is_one_json_object():
    """Nothing but the object is on stdout; nothing is ready in an empty cache."""
    result = CliRunner().invoke(app, ["list", "--json"])
    assert result.exit_code == 0
    presets = json.loads(result.stdout)["presets"]
    assert [p["preset"] for p in presets if p["default"]] == ["smollm2-padded"]
    assert not any(p["ready"] for p in presets)
    assert all(p["note"] for p in presets)


def test_list_for_people_has_a_line_a_preset():
    """Each preset says whether it needs a hub."""
    result = CliRunner().invoke(app, ["list"])
    lines = result.stdout.splitlines()
    assert len(lines) == 1 + 6
    assert sum("needs a hub" in line for line in lines) == 4


def test_unknown_preset():
    """The known names are in the message."""
    result = CliRunner().invoke(app, ["prepare", "--preset", "smollm"])
    assert isinstance(result.exception, ConfigError)
    assert "smollm2-padded" in str(result.exception)


def test_hub_preset_without_a_hub():
    """One line that names the embedded preset; nothing is written."""
    result = CliRunner().invoke(app, ["prepare", "--preset", "qwen2.5-7b"])
    assert isinstance(result.exception, ModelError)
    assert "--preset smollm2-padded needs no hub" in str(result.exception)
    assert "\n" not in str(result.exception)


def test_help_has_an_example():
    """Every command shows how it is called."""
    for command in ("prepare", "list"):
        result = CliRunner().invoke(app, [command, "--help"])
        assert f"harness models {command}" in result.stdout
