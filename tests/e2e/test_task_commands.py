"""Tasks, data and scores from the command line: one clear line where something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from samples import sample
from unit.tasks.data.files import LONGBENCH, lines, numbered

pytestmark = pytest.mark.e2e


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with empty data, and the prepared models."""
    return {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), "HF_HUB_OFFLINE": "1"}


def harness(env: dict[str, str], *words: str, timeout: float = 120) -> tuple[int, str, str]:
    """Run the command; return exit code, standard output and standard error."""
    code = (
        f"import sys; sys.argv = {['harness', *words]!r}; from harness.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return done.returncode, done.stdout, done.stderr


def one_line(error: str) -> str:
    """Check that an error is one line of the harness's and return it."""
    written = [line for line in error.splitlines() if line.startswith("harness: ")]
    assert len(written) == 1, error
    assert "Traceback" not in error
    return written[0]


def test_a_broken_import_changes_nothing(home: dict[str, str], tmp_path: Path) -> None:
    """File, line and exit code 2; the list is as before (openai/evals#259)."""
    bad = tmp_path / "bad.jsonl"
    rows = lines(*numbered(LONGBENCH, "_id", 2))
    bad.write_text(rows + '{"input":"q","context":"c","answers":["a"],', encoding="utf-8")
    before = harness(home, "data", "list", "--json")
    code, out, error = harness(home, "data", "import", str(bad))
    assert (code, out) == (2, "")
    assert "bad.jsonl line 3" in one_line(error)
    assert harness(home, "data", "list", "--json") == before


def test_import_list_verify(home: dict[str, str], tmp_path: Path) -> None:
    """An imported set is listed, makes its task ready, and verifies."""
    good = tmp_path / "good.jsonl"
    good.write_text(lines(*numbered(LONGBENCH, "_id")), encoding="utf-8")
    code, out, _ = harness(home, "data", "import", str(good))
    assert code == 0
    assert "LongBench rows, 3 rows, installed as longbench_qasper" in out
    code, out, _ = harness(home, "data", "verify")
    assert (code, out.strip()) == (0, "1 data sets, 1 files: all as they were installed")
    tasks = json.loads(harness(home, "tasks", "--json")[1])["tasks"]
    assert {t["name"]: t["ready"] for t in tasks}["longbench_qasper"]


def score(home: dict[str, str], tmp_path: Path, *rows: Any) -> tuple[int, str, str]:
    """Run ``harness score`` on rows."""
    path = tmp_path / "f.jsonl"
    path.write_text(lines(*rows), encoding="utf-8")
    return harness(home, "score", str(path), "--json")


def test_score_prints_one_object(home: dict[str, str], tmp_path: Path) -> None:
    """Rows in order and tasks with means, nothing else on standard output."""
    row = {"suite": "longbench", "dataset": "passage_retrieval_zh", "answers": ["段落3"]}
    code, out, _ = score(
        home,
        tmp_path,
        *({**row, "prediction": p} for p in ("段落13和段落3", "段落30", "答案是段落3")),
    )
    found = json.loads(out)
    assert code == 0
    assert [r["score"] for r in found["rows"]] == [0.5, 0.0, 1.0]
    assert found["tasks"]["longbench_passage_retrieval_zh"]["n"] == 3


def test_score_names_a_missing_prediction(home: dict[str, str], tmp_path: Path) -> None:
    """Not scored 0, not dropped: exit code 2, nothing on standard output."""
    row = {"suite": "ruler", "dataset": "niah_single_1", "prediction": "7319", "answers": ["7319"]}
    code, out, error = score(home, tmp_path, row, row, {**row, "prediction": None})
    assert (code, out) == (2, "")
    assert "line 3: prediction" in one_line(error)


RUN = ("run", "--preset", "smollm2", "--engine", "fake", "--keep", "0.1", "--limit", "1",
       "--latency-samples", "0")  # fmt: skip


def test_absent_data_fail_at_once(home: dict[str, str]) -> None:
    """Before a model is loaded, with the command that brings the data, and no retries."""
    code, out, error = harness(home, *RUN, "--task", "longbench_hotpotqa", timeout=20)
    assert (code, out) == (2, "")
    assert "harness data pull longbench_hotpotqa" in one_line(error)


@pytest.mark.parametrize("task", ["ruler_cwe", "ruler_niah_multikey_3"])
def test_too_short_a_length_ends(task: str, home: dict[str, str], tmp_path: Path) -> None:
    """Exit code 2 with the smallest length that works, which then runs (lm-eval#2963)."""
    out_dir = ("--out", str(tmp_path / "run"))
    code, _, error = harness(home, *RUN, *out_dir, "--task", task, "--length", "100")
    assert code == 2
    line = one_line(error)
    assert f"too short for {task}" in line
    smallest = line.split("--length ")[1].rstrip(")")
    code, out, error = harness(home, *RUN, *out_dir, "--task", task, "--length", smallest, "--json")
    assert code == 0, error
    assert json.loads(out)["arms"]


def test_a_group_leaves_out_what_is_absent(home: dict[str, str], tmp_path: Path) -> None:
    """``--task ruler`` runs its eleven offline tasks and names the two that need data."""
    code, out, error = harness(
        home, *RUN, "--task", "ruler", "--length", "1024", "--out", str(tmp_path / "run"), "--json",
        timeout=300,
    )  # fmt: skip
    assert code == 0, error
    tasks = {arm["task"] for arm in json.loads(out)["arms"]}
    assert len(tasks - {"ruler"}) == 11
    assert "ruler_qa_1 is left out" in error


@pytest.mark.parametrize(
    "name",
    ["longbench_multi_news_30.jsonl", "longbench_passage_retrieval_zh_20.jsonl",
     "hotpotqa_distractor_60.json", "musique_60.jsonl"],
)  # fmt: skip
def test_real_files_run_as_they_are(name: str, home: dict[str, str], tmp_path: Path) -> None:
    """``--data`` takes a publisher's file, whose task's metric then is in the table."""
    code, out, error = harness(
        home, *RUN, "--data", str(sample(name)), "--out", str(tmp_path / "run"), "--json"
    )
    assert code == 0, error
    assert all(arm["n"] == 1 for arm in json.loads(out)["arms"])
