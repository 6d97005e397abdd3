"""Every method through the whole pipeline, on a tiny real model in the transformers engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny import WORDS, tiny_model, tiny_tokenizer

from harness.analysis.summary import summarize
from harness.methods import METHODS
from harness.run.arms import asked_arms
from harness.run.config import RunConfig
from harness.run.folder import open_run
from harness.run.plan import build_plan
from harness.run.runner import execute


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """Two questions on four documents each, for a random model of three layers."""
    folder = tmp_path_factory.mktemp("all")
    model = folder / "model"
    tiny_model(model)
    tiny_tokenizer(model)
    documents = [
        " ".join(f"The {a} and the {b} are old." for a in WORDS[i::4] for b in WORDS[:1])
        for i in range(4)
    ]
    rows = [
        {"documents": documents, "question": f"Where is the {word}?", "answers": [word]}
        for word in ("river", "harbour")
    ]
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return RunConfig(
        data=str(data),
        arms={name: {} for name in asked_arms(["all"])},
        keep=(0.3, 0.5),
        look_ahead=(2,),
        target=str(model),
        speculator=str(model),
        engine="hf",
        dtype="float32",
        latency_samples=1,
    )


def test_every_method_is_run_and_timed(config: RunConfig, tmp_path: Path) -> None:
    """No cell fails; each has both records and a block of four times, or says why not.

    A strategy's arm is timed against full prefill on its own engine, which has no instructions
    for the strategy.
    """
    plan = build_plan(config)
    with open_run(plan, tmp_path / "run") as store:
        outcome = execute(plan, store, quiet=True)
        assert outcome.failed == {}
        summary = summarize(store).to_json()
        for cell in store.cells():
            timed = len(list(store.latency(cell.cell_id)))
            if str(cell.status) == "unsupported":
                assert cell.reason, cell.arm
            else:
                assert timed == (0 if cell.method == "full" else 4), cell.arm
            assert len(list(store.quality(cell.cell_id))) == 2, cell.arm
    methods = {arm["method"] for arm in summary["arms"]}
    assert methods == set(METHODS)
    json.dumps(summary, allow_nan=False)
