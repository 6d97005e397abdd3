"""Exports: nothing lost, nothing half-written, and other tools can read them."""

import hashlib
import json

import pandas as pd
import pytest
from synthetic import Arm, Task, build_store

from harness.errors import ConfigError, StoreError
from harness.report.exports import export
from harness.run.store import Store


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with two tasks, one of which has an example without a score."""
    return build_store(
        tmp_path_factory.mktemp("runs") / "run",
        tasks=[Task(n=6), Task("ruler_vt", category="tracing", n=6)],
        arms=[Arm("specprefill-k10")],
        score=lambda arm, task, index: None if (task, index) == ("ruler_vt", 2) else index % 2,
        output=lambda arm, task, index: f'=HYPERLINK("x"), "quoted"\n{index}',
    )


def read_lines(path):
    """Objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_lm_eval_files_have_its_layout(run, tmp_path):
    """A folder an arm, one results file, one samples file a task."""
    export(str(run), "lm-eval", tmp_path / "out")
    for arm in ("full", "specprefill-k10"):
        names = sorted(path.name for path in (tmp_path / "out" / arm).iterdir())
        assert [name.split("_2026")[0] for name in names] == [
            "results", "samples_ruler_niah_single_1", "samples_ruler_vt",
        ]  # fmt: skip


def test_lm_eval_means_and_errors_are_lm_evals_own(run, tmp_path):
    """The standard error equals lm_eval.api.metrics.mean_stderr of the samples."""
    from lm_eval.api.metrics import mean_stderr

    export(str(run), "lm-eval", tmp_path / "out")
    folder = tmp_path / "out" / "full"
    results = json.loads(next(folder.glob("results_*.json")).read_text(encoding="utf-8"))
    scores = [
        sample["string_match_all"]
        for sample in read_lines(next(folder.glob("samples_ruler_niah*")))
    ]
    task = results["results"]["ruler_niah_single_1"]
    assert task["string_match_all,none"] == sum(scores) / len(scores)
    assert task["string_match_all_stderr,none"] == pytest.approx(mean_stderr(scores))
    assert results["n-samples"]["ruler_niah_single_1"] == {"original": 6, "effective": 6}


def test_filters_keep_lm_evals_names(tmp_path):
    """A filtered metric is ``metric,filter`` in results and ``metric`` in samples."""
    store = build_store(
        tmp_path / "run",
        tasks=[Task(metric="exact_match,numbers", n=4)],
        arms=[],
        score=lambda *_: 1,
    )
    export(str(store), "lm-eval", tmp_path / "out")
    folder = next(path for path in (tmp_path / "out").rglob("results_*.json")).parent
    results = json.loads(next(folder.glob("results_*.json")).read_text(encoding="utf-8"))
    (task,) = results["results"].values()
    assert task["exact_match,numbers"] == 1.0
    assert "exact_match_stderr,numbers" in task
    assert list(results["higher_is_better"].values()) == [{"exact_match": True}]
    sample = read_lines(next(folder.glob("samples_*")))[0]
    assert (sample["exact_match"], sample["filter"]) == (1.0, "numbers")


def test_lm_eval_reads_its_own_format_back(run, tmp_path):
    """lm-eval's table of results takes the exported file as if it had written it."""
    from lm_eval.utils import make_table

    export(str(run), "lm-eval", tmp_path / "out")
    path = next((tmp_path / "out" / "specprefill-k10").glob("results_*.json"))
    table = make_table(json.loads(path.read_text(encoding="utf-8")))
    assert "ruler_niah_single_1" in table
    assert "string_match_all" in table


def test_missing_scores_are_null_not_dropped(run, tmp_path):
    """A mean over a missing score would look better than it is: it is null, and n stays."""
    export(str(run), "lm-eval", tmp_path / "out")
    folder = tmp_path / "out" / "full"
    results = json.loads(next(folder.glob("results_*.json")).read_text(encoding="utf-8"))
    assert results["results"]["ruler_vt"]["string_match_all,none"] is None
    assert results["results"]["ruler_vt"]["sample_len"] == 6
    samples = read_lines(next(folder.glob("samples_ruler_vt*")))
    assert [sample["doc_id"] for sample in samples] == list(range(6))
    assert samples[2]["string_match_all"] is None


def test_lm_eval_samples_have_its_fields_and_hashes(run, tmp_path):
    """Field names and hashes are those that lm-eval writes."""
    from lm_eval.result_schema import SampleResult

    export(str(run), "lm-eval", tmp_path / "out")
    for sample in read_lines(next((tmp_path / "out" / "full").glob("samples_ruler_niah*"))):
        assert set(SampleResult.__annotations__) <= set(sample)
        prompt = sample["arguments"]["gen_args_0"]["arg_0"]
        assert sample["prompt_hash"] == hashlib.sha256(prompt.encode()).hexdigest()
        assert sample["filtered_resps"] == sample["resps"][0]


def test_lm_eval_lengths_and_seeds_get_their_own_folders(tmp_path):
    """lm-eval knows one length and seed a result: several never overwrite each other."""
    tasks = [Task(length=length, seeds=(0, 1), n=3) for length in (1024, 2048)]
    run = build_store(tmp_path / "run", tasks=tasks)
    export(str(run), "lm-eval", tmp_path / "out")
    folders = {path.name for path in (tmp_path / "out").iterdir()}
    assert len(folders) == 2 * 2 * 2
    assert "full-1024-seed1" in folders


def test_parquet_holds_every_record_exactly(run, tmp_path):
    """Texts, scores and counts come back as they are in the store."""
    export(str(run), "parquet", tmp_path / "out")
    quality = pd.read_parquet(tmp_path / "out" / "quality.parquet")
    with Store.open(run) as store:
        records = list(store.quality())
        latency = list(store.latency())
        examples = {e.example_id: e.text for e in store.examples()}
    assert len(quality) == len(records)
    for row, record in zip(quality.itertuples(), records, strict=True):
        assert (None if pd.isna(row.text) else row.text) == record.text
        assert (None if pd.isna(row.score) else row.score) == record.score
    assert len(pd.read_parquet(tmp_path / "out" / "latency.parquet")) == len(latency)
    table = pd.read_parquet(tmp_path / "out" / "examples.parquet")
    assert dict(zip(table["example_id"], table["text"], strict=True)) == examples


def test_csv_quotes_what_a_spreadsheet_would_run(run, tmp_path):
    """Answers that look like formulas stay text; numbers stay numbers."""
    export(str(run), "csv", tmp_path / "out")
    quality = pd.read_csv(tmp_path / "out" / "quality.csv")
    assert quality["text"].dropna().str.startswith("'=HYPERLINK").all()
    assert pd.api.types.is_float_dtype(quality["score"])


@pytest.mark.parametrize("kind", ["lm-eval", "parquet", "csv"])
def test_names_from_outside_never_leave_the_folder(tmp_path, kind):
    """A task or arm named like a path becomes a plain file name."""
    arms = [Arm("../../up", keep=0.1)]
    run = build_store(tmp_path / "run", tasks=[Task("../t/..", n=3)], arms=arms)
    before = {path for path in tmp_path.rglob("*") if "out" not in path.parts}
    files = export(str(run), kind, tmp_path / "out")
    assert files
    assert {path for path in tmp_path.rglob("*") if "out" not in path.parts} == before


def test_an_existing_folder_is_never_overwritten(run, tmp_path):
    """Exporting over something is refused before anything is written."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds something already"):
        export(str(run), "csv", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_a_failed_export_leaves_nothing(run, tmp_path, monkeypatch):
    """A full disk half-way through leaves neither the folder nor a draft."""

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    with pytest.raises(ConfigError, match="No space left"):
        export(str(run), "csv", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_bad_input_is_one_line(run, tmp_path):
    """Unknown formats and empty runs are refused with what to do."""
    with pytest.raises(ConfigError, match="did you mean 'parquet'"):
        export(str(run), "parqet", tmp_path / "out")
    empty = build_store(tmp_path / "empty", arms=(), reference=False)
    with pytest.raises(StoreError, match="no finished example"):
        export(str(empty), "csv", tmp_path / "out")
    assert not (tmp_path / "out").exists()
