"""``harness run`` and ``sweep`` as a user calls them, on the fake engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from harness.cli.main import COMMANDS, main
from harness.models.embedded import prepare_smollm2
from harness.models.tokenizer import Tokenizer
from harness.run.store import Store

pytestmark = pytest.mark.e2e

FAKE = ["--engine", "fake", "--preset", "smollm2"]
NIAH = ["run", "--task", "ruler_niah_single_1", "--length", "1024", *FAKE]


class Result(NamedTuple):
    """What a command gave."""

    code: int
    out: str
    err: str


Cli = Callable[..., Result]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Call the command line in an empty working directory; streams as a shell would see them."""
    monkeypatch.chdir(tmp_path)

    def call(*words: object) -> Result:
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["harness", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capfd.readouterr()
        return Result(int(caught.value.code or 0), out, err)

    return call


def test_the_json_contract(cli: Cli) -> None:
    """--json prints one object with the promised keys; the table's numbers are in it."""
    result = cli(*NIAH, "--keep", "0.1,0.3", "--limit", "6", "--latency-samples", "2", "--json")
    assert result.code == 0, result.err
    summary = json.loads(result.out)
    assert {"run", "path", "arms"} <= summary.keys()
    arms = {arm["arm"]: arm for arm in summary["arms"]}
    assert arms.keys() == {"full", "specprefill-k10-lah8", "specprefill-k30-lah8"}
    sparse = arms["specprefill-k10-lah8"]
    assert sparse["method"] == "specprefill"
    assert (sparse["keep_requested"], sparse["look_ahead"], sparse["length"]) == (0.1, 8, 1024)
    assert 0.1 <= sparse["keep_achieved"] <= 0.13
    assert sparse["n"] == 6
    assert sparse["score"]["mean"] == arms["full"]["score"]["mean"] == 1.0
    assert sparse["delta"]["mean"] == 0.0
    assert arms["full"]["delta"] is None
    assert sparse["ttft_speedup"]["ratio"] > 1
    assert sparse["ttft_speedup"]["low"] is None  # two blocks: no interval
    assert sparse["stages_s"].keys() >= {"score", "select", "prefill", "other"}
    assert sparse["status"] == {"active": 6}


def test_the_table_names_where_the_run_is(cli: Cli) -> None:
    """The table shows both arms and the run's folder, which exists under results/runs."""
    result = cli(*NIAH, "--limit", "2")
    assert result.code == 0, result.err
    assert "specprefill" in result.out
    assert "full" in result.out
    (folder,) = Path("results/runs").iterdir()
    assert str(folder) in result.out


def test_the_same_command_thrice(cli: Cli) -> None:
    """Ten records after each of three runs, nothing generated anew, the same table (case 22)."""
    words = [*NIAH, "--limit", "5", "--out", "D"]
    first = cli(*words)
    again = [cli(*words), cli(*words)]
    assert [r.code for r in again] == [0, 0]
    assert {r.out for r in again} == {first.out}
    with Store.open(Path("D")) as store:
        assert len(list(store.quality())) == 10


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task", "nope"], "unknown task 'nope'"),
        (["--keep", "0"], "keep"),
        (["--keep", "1.5"], "keep"),
        (["--keep", "abc"], "--keep 'abc' is not a number"),
        (["--keep", "nan"], "keep"),
        (["--look-ahead", "0"], "look_ahead"),
        (["--look-ahead", "1.5"], "--look-ahead '1.5' is not a whole number"),
        (["--method", "magic"], "'magic'"),
        (["--method", "all,full"], "stands alone"),
        (["--preset", "nothing"], "unknown preset 'nothing'"),
        (["--length", "10"], "too short"),
        (["--length", "999999"], "positions"),
        (["--limit", "-3"], "limit"),
        (["--limit", "0"], "limit"),
        (["--dtype", "int3"], "dtype"),
        (["--engine", "warp"], "engine"),
        (["--set", "specprefill.chunk_sise=64"], "'chunk_sise'"),
        (["--set", "specprefill"], "ARM.OPTION=VALUE"),
        (["--set", "rag.units=5"], "no arm 'rag'"),
        (["--set", "specprefill.pool_kernel=4"], "odd"),
        (["--target", "/nonexistent", "--speculator", "/nonexistent"], "--preset"),
        (["--task", "longbench_hotpotqa"], "harness data"),
        (["--data", "nothing.jsonl"], "nothing.jsonl"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(cli: Cli, words: list[str], message: str) -> None:
    """Each wrong option exits 2 with one line on stderr; nothing is written or printed."""
    base = ["run", "--engine", "fake", "--task", "ruler_niah_single_1", "--keep", "0.1"]
    result = cli(*base, *words, "--json")
    assert result.code == 2
    lines = [line for line in result.err.splitlines() if not line.startswith("harness: the target")]
    assert len(lines) == 1, result.err
    assert message in lines[0]
    assert "Traceback" not in result.err
    assert result.out == ""
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "task: ruler_niah_single_1\narms:\n  specprefill:\n    chunk_sise: 64\n",
            "'chunk_sise'; did you mean 'chunk'",
        ),
        ("task: ruler_niah_single_1\nkeeps: [0.1]\n", "unknown key 'keeps'; did you mean 'keep'?"),
        ("task: [ruler_niah_single_1]\nlength: [1024, 9000]\nlimit: 2\n", "9000"),
    ],
)
def test_a_bad_sweep_file_starts_nothing(cli: Cli, text: str, message: str) -> None:
    """A misspelt key (nested or not) or an impossible length is refused whole (cases 13, 32)."""
    Path("s.yaml").write_text(text + "engine: fake\npreset: smollm2\n")
    result = cli("sweep", "s.yaml")
    assert result.code == 2
    assert message in result.err
    assert len([x for x in result.err.splitlines() if "the target" not in x]) == 1
    assert [p.name for p in Path().iterdir()] == ["s.yaml"]


def test_a_sweep_and_its_dry_run(cli: Cli) -> None:
    """A dry run prints the cells and starts nothing; the sweep then runs just those."""
    Path("s.yaml").write_text(
        "task: [ruler_niah_single_1]\nlength: 1024\nkeep: [0.1, 0.3]\nlook_ahead: [1, 4]\n"
        "limit: 2\nlatency_samples: 0\nengine: fake\npreset: smollm2\narms: [specprefill, random]\n"
    )
    planned = json.loads(cli("sweep", "s.yaml", "--dry-run", "--json").out)
    assert len(planned["cells"]) == 7  # full, 2 × 2 of SpecPrefill, 2 of random
    assert not Path("results").exists()
    ran = json.loads(cli("sweep", "s.yaml", "--json").out)
    assert {a["arm"] for a in ran["arms"]} == {c["arm"] for c in planned["cells"]}


def test_the_keep_rate_is_honoured_at_every_door(cli: Cli) -> None:
    """Keep 0.3 means ceil(0.3 × chunks) chunks by run, inspect and sweep alike (case 14)."""
    keep = 0.3
    tokenizer = Tokenizer.load(str(prepare_smollm2()))
    empty = len(tokenizer.encode(tokenizer.chat([{"role": "user", "content": ""}])))
    text = " word" * (2048 - empty)
    Path("d.jsonl").write_text(json.dumps({"prompt": text.strip(), "answers": ["x"]}) + "\n")
    inspected = json.loads(
        cli("inspect", "--data", "d.jsonl", "--keep", keep, *FAKE, "--json").out
    )["inspections"][0]
    chunks = -(-inspected["tokens"] // 32)
    expected = min(32 * -(-3 * chunks // 10), inspected["tokens"])
    assert abs(inspected["prefill_tokens"] - expected) < 32
    assert inspected["receipt"]["keep_requested"] == keep
    result = cli("run", "--data", "d.jsonl", "--keep", keep, *FAKE, "--out", "R", "--json")
    assert result.code == 0, result.err
    Path("s.yaml").write_text(
        f"data: d.jsonl\nkeep: {keep}\nengine: fake\npreset: smollm2\narms: [specprefill]\n"
    )
    assert cli("sweep", "s.yaml", "--out", "S").code == 0
    for folder in ("R", "S"):
        with Store.open(Path(folder)) as store:
            (cell,) = (c for c in store.cells() if c.method == "specprefill")
            (record,) = store.quality(cell.cell_id)
        assert record.receipt.cost.prefill_tokens == inspected["prefill_tokens"]
        assert record.receipt.keep_requested == keep


def test_runs_are_listed_shown_compared_and_removed(cli: Cli) -> None:
    """Each ``runs`` verb works on what run wrote."""
    cli(*NIAH, "--limit", "2", "--latency-samples", "0")
    cli(*NIAH, "--limit", "2", "--latency-samples", "0", "--keep", "0.5")
    rows = json.loads(cli("runs", "list", "--json").out)["runs"]
    assert len(rows) == 2
    shown = json.loads(cli("runs", "show", rows[0]["run"], "--json").out)
    assert [c["quality_records"] for c in shown["cells"]] == [2, 2]
    both = json.loads(cli("runs", "diff", rows[0]["path"], rows[1]["path"], "--json").out)
    assert both["config"]["keep"] == [[0.1], [0.5]]
    assert cli("runs", "rm", rows[0]["run"], "--yes").code == 0
    assert len(json.loads(cli("runs", "list", "--json").out)["runs"]) == 1
    assert cli("runs", "show", "nothing").code == 2


def test_every_command_has_help_with_an_example(cli: Cli) -> None:
    """``--help`` of every command, subcommands too, shows how to call it."""
    for words in _leaf_commands():
        result = cli(*words, "--help")
        assert result.code == 0, words
        assert f"harness {words[0]}" in result.out.partition("Options")[2], words
    assert cli().code == 0
    assert cli("--version").out.startswith("harness ")
    assert cli("rnu").code == 2


def _leaf_commands() -> list[list[str]]:
    found = []
    for verb, (module, _) in COMMANDS.items():
        command = typer.main.get_command(import_module(module).app)
        names = getattr(command, "commands", None)
        found += [[verb, name] for name in names] if names else [[verb]]
    return found


def test_doctor_says_what_is_there(cli: Cli) -> None:
    """The report names Python, CPU, vLLM, models, data and disk, each with a level."""
    facts = json.loads(cli("doctor", "--json").out)
    assert {"python", "cpu", "vllm", "model", "data", "disk"} <= {
        finding["what"] for finding in facts["findings"]
    }
