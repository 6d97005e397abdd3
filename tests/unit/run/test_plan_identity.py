"""What a cell's id depends on: everything that decides its records."""

from __future__ import annotations

from pathlib import Path

from tiny import tiny_model, tiny_tokenizer

from harness.run.config import RunConfig
from harness.run.plan import build_plan


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
