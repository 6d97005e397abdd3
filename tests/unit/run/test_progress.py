"""The progress line: an ETA from weighted work."""

from __future__ import annotations

import pytest

from harness.run.progress import RunProgress


def test_the_eta_follows_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a quarter of the units in ten seconds, thirty more are expected."""
    now = [100.0]
    monkeypatch.setattr("harness.run.progress.time.monotonic", lambda: now[0])
    progress = RunProgress(total=8.0, requests=4, quiet=True)
    assert progress.eta() == "?"
    now[0] += 10
    progress.advance(2.0)
    assert progress.eta() == "0:30"


def test_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal each step is a line on stderr, and stdout stays clean."""
    with RunProgress(total=1.0, requests=1) as progress:
        progress.say("starting [bold]x[/bold]")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "harness: starting [bold]x[/bold]\n"
