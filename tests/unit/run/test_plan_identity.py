"""What a cell's id depends on: everything that decides its records."""

from __future__ import annotations

from pathlib import Path

from tiny import tiny_model, tiny_tokenizer

from harness.run.config import RunConfig, parse_config
from harness.run.plan import build_plan
from harness.schema.records import CellRecord


def cells(compressor: Path) -> dict[str, str]:
    """Cell ids by method, of a run whose LLMLingua has a compressor of its own."""
    config = RunConfig(
        task=("ruler_niah_single_1",),
        length=(1024,),
        arms={"full": {}, "llmlingua": {"compressor": str(compressor)}},
        limit=1,
        preset="smollm2",
        engine="fake",
    )
    return {cell.record.method: cell.record.cell_id for cell in build_plan(config).cells}


def test_a_methods_own_model_is_part_of_its_cells(tmp_path: Path) -> None:
    """Other weights under the same path are another cell; full prefill's stays what it was."""
    tiny_tokenizer(tmp_path)
    tiny_model(tmp_path, seed=0)
    before = cells(tmp_path)
    assert cells(tmp_path) == before
    tiny_model(tmp_path, seed=1)
    after = cells(tmp_path)
    assert after["full"] == before["full"]
    assert after["llmlingua"] != before["llmlingua"]


def planned(**given: object) -> dict[str, CellRecord]:
    """Cells by method of a small run with arguments for its engines; nothing is started."""
    raw = {
        "task": "ruler_niah_single_1",
        "length": 512,
        "arms": ["full", "specprefill", "snapkv"],
        "limit": 1,
        "preset": "smollm2",
        **given,
    }
    cells = build_plan(parse_config(raw, "test")).cells
    return {f"{cell.record.method}/{cell.record.engine}": cell.record for cell in cells}


def test_arguments_of_engines_are_part_of_a_cell() -> None:
    """The target's of every cell on it, the speculator's of those it scores; transformers has none.

    Without any, identities have nothing more in them than they had.
    """
    plain = planned()
    target = planned(engine_args="max_num_seqs=2")
    scorer = planned(speculator_args={"block_size": 32})
    changed = {name for name in plain if target[name].cell_id != plain[name].cell_id}
    assert changed == {"full/vllm", "specprefill/vllm"}
    assert target["full/vllm"].identity["engine_options"] == [["max_num_seqs", 2]]
    assert target["specprefill/vllm"].reference_cell_id == target["full/vllm"].cell_id
    changed = {name for name in plain if scorer[name].cell_id != plain[name].cell_id}
    assert changed == {"specprefill/vllm"}
    assert scorer["specprefill/vllm"].identity["speculator_options"] == [["block_size", 32]]
    assert "speculator_options" not in plain["specprefill/vllm"].identity
    assert plain["full/vllm"].identity["engine_options"] == []
