import sys
from types import SimpleNamespace

import pytest

from harness.models.embedded import prepare_smollm2
from harness.serving import plugin

ENTRY = "vllm.entrypoints.launchers.api_server.entry"


@pytest.fixture
def entry(monkeypatch):
    """Stands for vLLM's entry, as it is while a server reads its command line."""
    module = SimpleNamespace(build_app="vllm's", build_async_engine_client="vllm's")
    monkeypatch.setitem(sys.modules, ENTRY, module)
    monkeypatch.setattr("harness.serving.join.Metrics", lambda: None)
    monkeypatch.setattr("harness.engines.vllm.cpu.prepare_environment", lambda **_: None)
    monkeypatch.setattr("harness.engines.vllm.host.start_variables", lambda _: {})
    return module


def test_a_server_is_joined_where_a_speculator_is_named(entry, monkeypatch, capsys):
    """Both makers are ours, and one line says so; a second loading of plugins changes nothing."""
    monkeypatch.setenv("SPECPREFILL_MODEL", str(prepare_smollm2()))
    plugin.register()
    joined = (entry.build_app, entry.build_async_engine_client)
    assert "vllm's" not in joined
    assert capsys.readouterr().err.startswith("harness: SpecPrefill joins this server")
    plugin.register()
    assert (entry.build_app, entry.build_async_engine_client) == joined
    assert capsys.readouterr().err == ""


def test_without_a_speculator_vllm_stays_as_it_is(entry, monkeypatch):
    """The plugin is loaded in every process of every vLLM on the machine."""
    monkeypatch.delenv("SPECPREFILL_MODEL", raising=False)
    plugin.register()
    assert entry.build_app == "vllm's"


def test_a_wrong_configuration_is_one_line_and_code_2(entry, monkeypatch, capsys):
    """Before vLLM loads anything."""
    monkeypatch.setenv("SPECPREFILL_MODEL", "speculator")
    monkeypatch.setenv("SPECPREFILL_CONFIG", "/nowhere.yaml")
    with pytest.raises(SystemExit) as caught:
        plugin.register()
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "harness: /nowhere.yaml: cannot be read (No such file or directory)\n"
    )
