"""The front door for Python: its names, the command's options, and what a run hands out."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import typer

import harness
from harness.api.options import make_config
from harness.api.running import FailedCellsWarning
from harness.api.running import run as run_function
from harness.cli.run import app

OPTIONS = {
    "task": "ruler_niah_single_1,ruler_cwe",
    "engine": "fake",
    "preset": "smollm2",
    "length": 1024,
    "limit": 3,
    "latency_samples": 1,
    "quiet": True,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> harness.Run:
    """Two tasks, full prefill beside SpecPrefill at two keep rates, on the fake engine."""
    return harness.run(keep=[0.1, 0.3], out=tmp_path_factory.mktemp("api") / "run", **OPTIONS)


def test_the_exported_names_are_pinned() -> None:
    """A name that appears or goes is a decision; each leads somewhere."""
    assert harness.__all__ == [
        "HarnessError",
        "Run",
        "__version__",
        "compare",
        "disable_prefill_spec",
        "enable_prefill_spec",
        "inspect",
        "load",
        "run",
        "sweep",
    ]
    assert all(getattr(harness, name) is not None for name in harness.__all__)
    assert set(harness.__all__) <= set(dir(harness))
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        _ = harness.runn


def test_import_costs_nothing() -> None:
    """``import harness`` loads neither torch nor vLLM, pandas or pydantic."""
    script = (
        "import sys, harness;"
        "heavy = {'torch', 'vllm', 'pandas', 'pydantic', 'numpy'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_run_is_a_function_and_a_room() -> None:
    """Importing a module of the room ``run`` leaves ``harness.run()`` callable."""
    import harness.run.plan

    assert callable(harness.run)
    assert harness.run.plan.build_plan is not None
    assert inspect.signature(harness.run) == inspect.signature(run_function)


def test_options_and_defaults_are_the_commands() -> None:
    """Every option of ``harness run`` is a parameter here, with the same default."""
    command = typer.main.get_command(app)
    given = {p.name: p.default for p in command.params if p.name not in {"json", "help"}}
    given["reference"] = not given.pop("no_reference")
    mine = {n: p.default for n, p in inspect.signature(run_function).parameters.items()}
    assert set(mine) - set(given) == {"quiet"}
    assert set(given) <= set(mine)
    beside = {"set_", "out", "allow_mixed_code", "fail_fast", "quiet", "address", "workers"}
    assert not any(mine[name] for name in beside)
    assert not any(given[name] for name in beside & {*given})
    assert mine["executor"] == given["executor"] == "local"
    beside.add("executor")
    configs = [
        make_config("x", **{n: None if v == "" else v for n, v in found.items()})
        for found in (
            {name: value for name, value in side.items() if name not in beside}
            for side in (mine, given)
        )
    ]
    assert configs[0] == configs[1]


def test_rows_are_the_reports(run: harness.Run) -> None:
    """The frame has the CSV's columns and values, typed, with units in the names."""
    rows = run.rows()
    lines = run.report("csv").splitlines()
    assert list(rows.columns) == lines[0].split(",")
    assert len(rows) == len(lines) - 1
    assert str(rows["length"].dtype) == "Int64"
    assert str(rows["score"].dtype) == "Float64"
    assert rows["ttft_median_s"].notna().any()
    full = rows[(rows["method"] == "full") & (rows["task"] == "ruler_niah_single_1")].iloc[0]
    assert full["score"] == 1.0
    assert pd.isna(full["delta"])


def test_records_carry_their_arm(run: harness.Run) -> None:
    """One line an example and cell: the arm's facts, the text, the receipt."""
    records = run.records()
    assert len(records) == 2 * 3 * 3
    assert set(records["keep"].dropna()) == {0.1, 0.3}
    assert records["text"].notna().all()
    assert "text" not in run.records(text=False)
    assert len(run.latency()) == 2 * 2 * 4
    assert len(run.examples(text=True)["text"]) == 2 * 3


def test_load_and_compare(run: harness.Run, tmp_path: Path) -> None:
    """A run is opened again by its path; against itself nothing differs."""
    again = harness.load(run.path)
    assert again.rows().equals(run.rows())
    found = harness.compare(run, str(run.path))
    assert set(found["delta"]) == {0.0}
    assert found.attrs["config"] == {}
    with pytest.raises(harness.HarnessError, match="is not a run"):
        harness.load(tmp_path / "nothing")


def test_reports_and_notebooks(run: harness.Run, tmp_path: Path) -> None:
    """Every format renders; a notebook shows the finding and the rows, escaped."""
    assert run.report("html", tmp_path / "r.html").startswith("<!")
    assert (tmp_path / "r.html").is_file()
    shown = run._repr_html_()
    assert "specprefill-k10-lah8" in shown
    assert "<script" not in shown
    assert "Run(" in repr(run)
    assert len(run.export(tmp_path / "x", "csv")) == 4


def test_resuming_generates_nothing(run: harness.Run) -> None:
    """The same call with the same folder returns the same run."""
    before = run.records()["output_digest"].tolist()
    again = harness.run(keep="0.1,0.3", out=run.path, **OPTIONS)
    assert again.records()["output_digest"].tolist() == before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"keep": 1.5}, "keep"),
        ({"task": "ruler_niah_singel_1"}, "did you mean"),
        ({"method": "specprefil"}, "did you mean"),
        ({"look_ahead": "x"}, "--look-ahead 'x'"),
        ({"engine": "vlm"}, "engine"),
    ],
)
def test_bad_options_are_one_line(options: dict[str, object], says: str) -> None:
    """The command's own error, before anything starts."""
    with pytest.raises(harness.HarnessError, match=says) as caught:
        harness.run(**{"engine": "fake", "preset": "smollm2", **options})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_failed_cell_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What failed is said and kept; what did not is in the result."""
    from harness.engines.fake import FakeEngine
    from harness.schema.prompts import PreparedPrompt

    real = FakeEngine._generate

    def generate(self: FakeEngine, prompt: PreparedPrompt, *rest: object, **named: bool) -> object:
        if prompt.positions is not None:
            raise RuntimeError("out of memory")
        return real(self, prompt, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(FakeEngine, "_generate", generate)
    with pytest.warns(FailedCellsWarning, match="2 of 4 cells failed"):
        found = harness.run(out=tmp_path / "run", **OPTIONS)
    assert set(found.failed.values()) == {"RuntimeError: out of memory"}
    assert len(found.records()) == 2 * 3
