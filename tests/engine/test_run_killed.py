"""A real run killed twice: nothing lost, nothing doubled, nothing left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import StoreError
from harness.run.store import Store

pytestmark = [pytest.mark.engine, pytest.mark.long]

COMMAND = (
    *(sys.executable, "-c", "from harness.cli.main import main; main()", "run"),
    *("--preset", "smollm2", "--task", "ruler_niah_single_1", "--keep", "0.1"),
    *("--length", "512", "--limit", "6", "--latency-samples", "2", "--out"),
)
DEADLINE_S = 300


def _counts(folder: Path) -> tuple[int, int]:
    """Quality and latency records so far; zeros before there is a store."""
    try:
        with Store.open(folder) as store:
            return len(store.done_pairs()), len(list(store.latency()))
    except StoreError:
        return 0, 0


def _kill_when(folder: Path, reached: Callable[[tuple[int, int]], bool]) -> tuple[int, int]:
    """Run until the store satisfies ``reached``, then kill the command with SIGKILL."""
    child = subprocess.Popen(
        [*COMMAND, str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + DEADLINE_S
        while not reached(_counts(folder)):
            assert child.poll() is None, "the run ended before it was killed"
            assert time.monotonic() < end, "the run took too long"
            time.sleep(0.05)
    finally:
        child.kill()
        child.wait()
    return _counts(folder)


def _engine_processes() -> set[int]:
    """Process ids of vLLM's children of any command of this user."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                title = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if title.startswith(b"VLLM::"):
                found.add(int(entry.name))
    return found


def test_two_kills_of_a_real_run(tmp_path: Path) -> None:
    """Killed amid the quality records and amid the times; the third run completes the store."""
    before = _engine_processes()
    folder = tmp_path / "run"
    first = _kill_when(folder, lambda counts: counts[0] >= 3)
    assert 3 <= first[0] <= 12
    second = _kill_when(folder, lambda counts: counts[1] >= 4)
    assert second[0] == 12
    done = subprocess.run(
        [*COMMAND, str(folder)], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert _counts(folder) == (12, 8)
    end = time.monotonic() + 30
    while (left := _engine_processes() - before) and time.monotonic() < end:
        time.sleep(0.5)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left, "engine processes outlived their command"
