"""One task file through both doors, ``harness run`` and ``harness lm-eval``: one score."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from e2e.test_task_commands import harness, one_line

pytestmark = pytest.mark.e2e

FAKE = ("--engine", "fake", "--preset", "smollm2", "--method", "full", "--latency-samples", "0")
CODES = ((44710, 44712), (51230, 51232), (60010, 60014), (71110, 71112), (80020, 80022))


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with empty data and a cache of its own."""
    return {
        **os.environ,
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "HF_HOME": str(tmp_path / "hub"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(tmp_path / "datasets"),
    }


def write(folder: Path, name: str, body: str, rows: list[dict[str, str]]) -> Path:
    """Write a task over rows in a file beside it."""
    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    path = folder / f"{name}.yaml"
    path.write_text(
        f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\n"
        f"test_split: test\ndoc_to_text: '{{{{q}}}}'\ndoc_to_target: '{{{{a}}}}'\n{body}",
        encoding="utf-8",
    )
    return path


FILTERED = """output_type: generate_until
generation_kwargs: {max_gen_toks: 24, until: ["\\n"]}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
filter_list:
  - name: last_number
    filter:
      - {function: regex, regex_pattern: '(\\d+)', group_select: -1}
      - {function: take_first}
"""


def test_filters_through_both_doors(home: dict[str, str], tmp_path: Path) -> None:
    """The fake engine reads out both numbers; only the filter finds the second (lm-eval#1204)."""
    rows = [
        {"q": f"Locker one opens with {a}. Locker two opens with {b}. Which?", "a": str(b)}
        for a, b in CODES
    ]
    rows.append({"q": "Locker one opens with 90000. Which?", "a": "90001"})
    path = write(tmp_path, "lockers", FILTERED, rows)
    code, out, error = harness(
        home, "run", "--task", str(path), *FAKE, "--limit", "6", "--json",
        "--out", str(tmp_path / "run"),
    )  # fmt: skip
    assert code == 0, error
    (arm,) = [arm for arm in json.loads(out)["arms"] if arm["task"] == "lockers"]
    assert arm["metric"] == "exact_match,last_number"
    code, _, error = harness(
        home, "lm-eval", "--tasks", str(path), "--output_path", str(tmp_path / "theirs"),
        "--model_args", "preset=smollm2,engine=fake,method=full",
    )  # fmt: skip
    assert code == 0, error
    results = json.loads(next((tmp_path / "theirs").rglob("results_*.json")).read_text())
    theirs = results["results"]["lockers"]["exact_match,last_number"]
    assert arm["score"]["mean"] == pytest.approx(theirs) == pytest.approx(5 / 6)


@pytest.mark.parametrize(
    ("settings", "match"),
    [("num_beams: 4", "num_beams 4 is not honoured"), ("top_p: 7", "top_p 7 is out of range")],
)
def test_sampling_options_are_refused_by_both_doors(
    settings: str, match: str, home: dict[str, str], tmp_path: Path
) -> None:
    """Exit code 2 and one line, never another kind of decoding (lm-evaluation-harness#2726)."""
    body = FILTERED.replace("{max_gen_toks", f"{{do_sample: true, {settings}, max_gen_toks")
    path = write(tmp_path, "lockers", body, [{"q": "44710", "a": "44710"}])
    code, out, error = harness(home, "run", "--task", str(path), *FAKE)
    assert (code, out) == (2, "")
    assert match in one_line(error)
    code, _, error = harness(
        home, "lm-eval", "--tasks", str(path), "--model_args",
        "preset=smollm2,engine=fake,method=full",
    )  # fmt: skip
    assert code == 2, error
    assert match in one_line(error)


def test_a_key_written_twice_is_refused_by_both_doors(home: dict[str, str], tmp_path: Path) -> None:
    """lm-eval itself would read the second and say nothing (its PR #4077)."""
    path = write(tmp_path, "twice", FILTERED + "doc_to_target: q\n", [{"q": "1", "a": "1"}])
    for words in (("run", "--task", str(path), *FAKE), ("lm-eval", "--tasks", str(path))):
        code, out, error = harness(home, *words)
        assert (code, out) == (2, "")
        line = one_line(error)
        assert str(path) in line
        assert "'doc_to_target' stands twice" in line


def test_continuations_have_tokens_of_their_own(home: dict[str, str], tmp_path: Path) -> None:
    """``hello wor`` and ``ld``: scored, with a log-likelihood below 0 (lm-eval#1297)."""
    body = "output_type: multiple_choice\ntarget_delimiter: ''\ndoc_to_choice: ['ld', 'k']\n"
    rows = [{"q": "hello wor", "a": "ld"}, {"q": "the wor", "a": "k"}]
    path = write(tmp_path, "choice", body, rows)
    code, out, error = harness(
        home, "run", "--task", str(path), *FAKE, "--json", "--out", str(tmp_path / "run")
    )
    assert code == 0, error
    assert all(arm["n"] == 2 for arm in json.loads(out)["arms"])
