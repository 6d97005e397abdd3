"""``harness methods``, and rivals through ``harness run``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.methods import METHODS

pytestmark = pytest.mark.e2e


def harness(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = [sys.executable, "-c", "from harness.cli.main import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_lists_methods_and_arms() -> None:
    """One JSON object with every method; the text has no table that cuts anything off."""
    done = harness("methods", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert [m["name"] for m in found["methods"]] == list(METHODS)
    assert all(
        {"options", "needs", "available", "improves_ttft"} <= m.keys() for m in found["methods"]
    )
    text = harness("methods").stdout
    assert "…-" not in text
    assert all(arm["name"] in text for arm in found["arms"])


def run_on(tmp_path: Path, *words: str) -> dict[str, Any]:
    """Run methods on one short document without a target model."""
    row = {
        "document": "The old mill stands by the river below the bridge, next to the orchard of the "
        "Harland family. It was built in 1821 and ground flour for three villages until the flood "
        "of 1903 broke its wheel. Today children play on the stones, and a heron fishes from the "
        "broken dam in the morning.",
        "question": "Where is the mill?",
        "answers": ["by the river"],
    }
    data = tmp_path / "short.jsonl"
    data.write_text(json.dumps(row) + "\n", encoding="utf-8")
    done = harness(
        *("run", "--engine", "fake", "--preset", "smollm2", "--data", str(data), "--json"),
        *("--latency-samples", "0", "--out", str(tmp_path / "run"), *words),
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    arms: dict[str, Any] = {arm["method"]: arm for arm in json.loads(done.stdout)["arms"]}
    return arms


@pytest.mark.engine
def test_llmlingua_keeps_what_was_asked_of_a_short_prompt(tmp_path: Path) -> None:
    """Under 200 tokens, where the package alone compresses nothing (its issue 196)."""
    pytest.importorskip("llmlingua")
    arms = run_on(tmp_path, "--method", "full,llmlingua", "--keep", "0.5")
    assert arms["llmlingua"]["status"] == {"active": 1}
    assert 0.48 <= arms["llmlingua"]["keep_achieved"] <= 0.52


def test_what_a_task_lacks_is_listed_not_replaced(tmp_path: Path) -> None:
    """There is no oracle without gold evidence: the cell is unsupported and has no score."""
    arms = run_on(tmp_path, "--method", "full,oracle,random", "--keep", "0.5")
    assert arms["oracle"]["status"] == {"unsupported": 1}
    assert arms["oracle"]["score"]["mean"] is None
    assert arms["random"]["status"] == {"active": 1}
