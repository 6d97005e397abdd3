"""The terminal table."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from harness.report.terminal import render_table
from harness.schema.rows import Row, RunSummary


def printed(arms: Sequence[Row], width: int = 170) -> str:
    """Return what is printed on a terminal of ``width`` columns."""
    console = Console(width=width, file=io.StringIO(), color_system=None)
    render_table(RunSummary(run="r", path="results/runs/r", arms=tuple(arms)), console)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 140, 170, 220])
def test_every_figure_is_whole_at_every_width(entry, width):
    """A terminal of any width shows each figure and interval uncut and stays inside its width."""
    text = printed([entry("ruler_vt", "full"), entry("ruler_vt")], width)
    for figure in (
        "0.950", "[0.810, 0.990]", "−0.020", "[−0.110, +0.070]", "0.651 s", "3.42×", "[3.10, 3.80]",
        "→ 0.109", "20 active", "20 kept_all",
    ):  # fmt: skip
        assert figure in text
    assert max(map(len, text.splitlines())) <= width


def test_pooled_row_leads_and_says_that_it_is_too_small(entry):
    """The pooled group row is first, marked, and carries its note beside its name."""
    text = printed(
        [
            entry("ruler", "full", n=40, level="group"),
            entry(
                "ruler", n=40, level="group", undecided=True,
                note="too few to conclude: both are possible",
            ),
            entry("ruler_vt"),
        ]
    )  # fmt: skip
    assert text.index("ruler (pooled)") < text.index("ruler_vt")
    heading = next(line for line in text.splitlines() if "ruler (pooled)" in line)
    assert "too few to conclude" in heading
    assert "(1) too few to conclude: both are possible" in text


def test_silent_fallbacks_are_announced_above_the_table(entry):
    """Prompts that were not pruned as asked are counted once, in the first line."""
    silent = {"active": 15, "skipped_break_even": 3, "failed": 2}
    text = printed([entry("g", level="group", status=silent), entry("ruler_vt", status=silent)])
    first = text.splitlines()[0]
    assert "5 of 20 prompts" in first
    assert "2 failed, 3 skipped_break_even" in first


def test_no_notice_without_silent_prompts(entry):
    """Active and kept_all are what an arm promises and need no notice."""
    assert not printed([entry("ruler_vt", "full"), entry("ruler_vt")]).startswith("!")


def test_missing_interval_points_to_its_reason(entry):
    """A figure without an interval is marked, and the reason stands below, once."""
    reason = "2 blocks; an interval needs 6"
    speedup = {"ratio": 3.42, "low": None, "high": None, "reason": reason, "blocks": 2}
    text = printed([entry("a", ttft_speedup=speedup), entry("b", ttft_speedup=speedup)])
    assert text.count("specprefill-k10-lah8 (1)") == 2
    assert text.count(reason) == 1


def test_missing_figures_are_dashes(entry):
    """An unsupported cell shows dashes and its reason, never 0 or None."""
    text = printed(
        [
            entry(
                "a", n=0, score={"mean": None, "low": None, "high": None}, delta=None,
                ttft_s={"median": None}, ttft_speedup=None, keep_achieved=None,
                note="unsupported: no question segment",
            )
        ]
    )  # fmt: skip
    assert "None" not in text
    assert "unsupported: no question segment" in text
    assert "0.1 → –" in text


def test_names_are_never_markup(entry):
    """Rich markup and terminal escapes in names come out as they are, spelt out."""
    text = printed([entry("[bold]t[/bold]", arm="[link=x]a[/] \x1b[2J \u202eb")])
    assert "[bold]t[/bold]" in text
    assert "[link=x]a[/]" in text
    assert "\x1b[2J" not in text
    assert "⟨U+202E⟩" in text


def test_floor_rows_are_marked(entry):
    """A task on which full prefill fails is shown and marked as out of the headlines."""
    assert "floor" in printed([entry("ruler_vt", floor=True)])


def test_empty_summary_says_so():
    """A run without finished examples prints a sentence, not an empty table."""
    assert "no finished examples" in printed([])
