"""Code that only the driver has reaches a process that knows nothing of it."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import ConfigError
from harness.methods.full import Full
from harness.models.tokenizer import Tokenizer
from harness.run.executors.on_ray.shipping import Scorings, local_modules, runtime_env, slim
from harness.tasks.catalogue import from_file, list_tasks
from harness.tasks.examples import TaskExamples, load_examples

ELSEWHERE = """
import pickle, sys
for name, examples, answer, score in pickle.load(open(sys.argv[1], "rb")):
    assert examples.score(examples.examples[0], answer) == score, name
print("equal")
"""


def check_elsewhere(found: list[tuple[str, TaskExamples, object, object]], folder: Path) -> None:
    """Score the same answers in a fresh process, in another working directory."""
    file = folder / "scorings.pickle"
    file.write_bytes(pickle.dumps(found))
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(file)],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert done.stdout.strip() == "equal", done.stderr[-2000:]


def taken(examples: TaskExamples, answer: object) -> tuple[str, TaskExamples, object, object]:
    """An example, an answer and its score here, ready to be compared elsewhere."""
    score = examples.score(examples.examples[0], answer)  # type: ignore[arg-type]
    return examples.task.name, slim(examples, 0, 1, Scorings()), answer, score


def test_every_task_of_ours_scores_elsewhere(smollm2: Tokenizer, tmp_path: Path) -> None:
    """Scoring functions from files beside the YAML give the same scores where no file is."""
    found = []
    for task in list_tasks():
        if not task.ready:
            continue
        examples = load_examples(
            task,
            length=1024 if task.sized else None,
            seed=0,
            limit=1,
            tokenizer=smollm2,
            max_positions=8192,
        )
        found.append(taken(examples, " ".join(examples.examples[0].record.references)))
    assert len(found) > 10
    check_elsewhere(found, tmp_path)


TASK = """
task: mine
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: {kind}
doc_to_text: "{{{{question}}}}"
doc_to_target: {target}
{rest}
"""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """One row of a user's own."""
    path = tmp_path / "rows.json"
    row = {"question": "Where is the mill?", "answer": "river", "right": 1, "options": ["a", "b"]}
    path.write_text(json.dumps(row) + "\n")
    return path


def own_task(folder: Path, text: str, smollm2: Tokenizer) -> TaskExamples:
    """Load a user's task from its YAML."""
    path = folder / "mine.yaml"
    path.write_text(text)
    return load_examples(
        from_file(path), length=None, seed=0, limit=1, tokenizer=smollm2, max_positions=8192
    )


def test_a_users_tasks_score_elsewhere(smollm2: Tokenizer, tmp_path: Path, rows: Path) -> None:
    """lm-eval's own metrics, options by log-likelihood, and functions in a file beside the YAML."""
    (tmp_path / "helper.py").write_text("def lower(text):\n    return text.lower()\n")
    (tmp_path / "judge.py").write_text(
        "import sys\nfrom pathlib import Path\n"
        "sys.path.insert(0, str(Path(__file__).parent))\n"
        "from helper import lower\n\n"
        "def judge(doc, results):\n"
        "    return {'acc': float(lower(doc['answer']) in lower(results[0]))}\n"
    )
    metric = "metric_list: [{metric: %s, aggregation: mean, higher_is_better: true}]"
    generate, choice = "generate_until", "multiple_choice"
    fields = {"data": rows, "target": "answer"}
    exact = TASK.format(**fields, kind=generate, rest=metric % "exact_match")
    options = TASK.format(
        data=rows, target="right", kind=choice, rest="doc_to_choice: options\n" + metric % "acc"
    )
    judged = TASK.format(
        **fields,
        kind=generate,
        rest="process_results: !function judge.judge\n" + metric % "acc",
    )
    found = [
        taken(own_task(tmp_path, exact, smollm2), "river"),
        taken(own_task(tmp_path, options, smollm2), [(-2.0, False), (-1.0, True)]),
    ]
    judging = own_task(tmp_path, judged, smollm2)
    found.append(taken(judging, "By the River."))
    assert [next(iter(score.values())) for *_, score in found] == [1.0, 1.0, 1.0]  # type: ignore[attr-defined]
    for name in ("judge.py", "helper.py", "mine.yaml"):
        (tmp_path / name).unlink()
    check_elsewhere(found, tmp_path)


def test_scoring_that_cannot_travel_is_one_line(smollm2: Tokenizer, tmp_path: Path) -> None:
    """It names the task and the way out."""
    (task,) = (task for task in list_tasks() if task.name == "ruler_vt")
    file = (tmp_path / "open").open("w")
    examples = TaskExamples(task, [], lambda doc, results: {"n": file.fileno()})
    with pytest.raises(ConfigError, match=r"ruler_vt .*cannot travel .*--executor local"):
        Scorings().of(examples)


def test_what_is_installed_is_not_shipped() -> None:
    """The built-in methods are on every node with the harness."""
    assert local_modules([Full()]) == []
    assert "py_modules" not in runtime_env([Full()])


def test_a_method_of_the_users_own_is_shipped_with_its_helpers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file and what it imports from beside it, and nothing else of the folder."""
    (tmp_path / "my_helper.py").write_text("X = 1\n")
    (tmp_path / "unrelated.py").write_text("Y = 1\n")
    (tmp_path / ".env").write_text("TOKEN=secret\n")
    (tmp_path / "my_method.py").write_text(
        "import my_helper\nfrom harness.methods.full import Full\n\nclass Mine(Full):\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    from my_method import Mine  # type: ignore[import-not-found]

    shipped = local_modules([Mine()])
    assert shipped == [str(tmp_path / "my_helper.py"), str(tmp_path / "my_method.py")]
    monkeypatch.delitem(sys.modules, "my_method")
    monkeypatch.delitem(sys.modules, "my_helper")


def test_only_two_variables_travel() -> None:
    """The driver's environment stays where it is."""
    assert set(runtime_env([Full()])["env_vars"]) == {"OMP_WAIT_POLICY", "HF_HUB_OFFLINE"}
