"""Which lengths a task runs at: made to a length, or as long as its data are."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.tasks.data.files import LONGBENCH, lines

from harness.run.cells import by_examples
from harness.run.config import RunConfig
from harness.run.plan import build_plan
from harness.tasks.data.importing import import_path


@pytest.fixture(autouse=True)
def _rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = tmp_path / "rows.jsonl"
    path.write_text(lines({**LONGBENCH, "context": "word " * 3000}), encoding="utf-8")
    import_path(path)


def planned(**changes: object) -> dict[str, tuple[int | None, int]]:
    """Length and tokens of each task's first example."""
    base = {"task": ("longbench_qasper", "ruler_niah_single_1"), "engine": "fake",
            "preset": "smollm2", "limit": 1}  # fmt: skip
    plan = build_plan(RunConfig.model_validate({**base, **changes}))
    cells = [alike[0] for alike in by_examples(plan.cells)]
    records = [cell.examples.examples[0].record for cell in cells]
    assert [cell.record.length for cell in cells] == [r.length for r in records]
    return {r.task: (r.length, r.token_count) for r in records}


def test_data_are_whole_unless_a_length_is_given() -> None:
    """The default length makes RULER's prompts and leaves LongBench's alone."""
    found = planned()
    assert found["longbench_qasper"][0] is None
    assert found["longbench_qasper"][1] > 3000
    assert found["ruler_niah_single_1"][0] == 2048


def test_a_given_length_holds_for_both() -> None:
    """``--length`` cuts a LongBench prompt's middle out."""
    found = planned(length=(1000,))
    assert {length for length, _ in found.values()} == {1000}
    assert all(tokens <= 1000 for _, tokens in found.values())


def test_room_for_continuations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's length counts context and continuation (lm-evaluation-harness#1053).

    252 and 8 tokens, and the one that vLLM decodes after them, need more than 256 positions.
    """
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    word, letters = " x", " y" * 8
    rows = [{"q": "x" + word * 251, "gold": 0}] * 2
    (tmp_path / "rows.jsonl").write_text(lines(*rows), encoding="utf-8")
    path = tmp_path / "choice.yaml"
    path.write_text(
        f"task: choice\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: "
        f"{tmp_path / 'rows.jsonl'}}}}}\ntest_split: test\noutput_type: multiple_choice\n"
        f"doc_to_text: '{{{{q}}}}'\ndoc_to_target: gold\ntarget_delimiter: ''\n"
        f"doc_to_choice: ['{letters}', ' z']\n",
        encoding="utf-8",
    )
    config = {"task": str(path), "engine": "fake", "preset": "smollm2", "arms": ["full"]}
    plan = build_plan(RunConfig.model_validate(config))
    example = plan.cells[0].examples.examples[0]
    assert [len(pair.prompt.token_ids) for pair in example.pairs] == [252, 252]
    assert [len(pair.continuation) for pair in example.pairs] == [8, 1]
    assert plan.max_model_len == 512
