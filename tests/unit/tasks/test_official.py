"""``--ruler-official``: lengths hold prompt and new tokens, filled in NVIDIA's steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.tasks.test_ruler import OFFLINE

from harness.errors import ConfigError
from harness.models.tokenizer import Tokenizer
from harness.run.config import RunConfig
from harness.run.plan import build_plan
from harness.tasks.catalogue import resolve
from harness.tasks.examples import Example, load_examples
from harness.tasks.generation import TooShortError
from harness.tasks.official import Steps, common_size, stepped_down

NOISE = "The grass is green."


def official(
    name: str, tokenizer: Tokenizer, length: int, limit: int = 12, max_positions: int = 8192
) -> list[Example]:
    """Examples of a task as NVIDIA's scripts size them."""
    (task,) = resolve([name])
    found = load_examples(
        task, length=length, seed=0, limit=limit, tokenizer=tokenizer,
        max_positions=max_positions, ruler_official=True,
    )  # fmt: skip
    return list(found.examples)


@pytest.mark.parametrize("name", [*OFFLINE, "ruler_qa_1"])
def test_new_tokens_count_into_the_length(name: str, tokenizer: Tokenizer, library: Path) -> None:
    """Prompt and new tokens stay within it; a start token outside a template is not counted."""
    free = 0 if tokenizer.has_chat_template else 1
    sizes = []
    for example in official(name, tokenizer, 2048, limit=6):
        sizes.append(len(example.prompt.token_ids) + example.sampling.max_tokens)
        assert example.record.length == 2048
        assert example.record.facts["official_length"] is True
    assert max(sizes) <= 2048 + free
    assert max(sizes) > 0.6 * 2048  # all may have gone a step of 500 words down


@pytest.mark.parametrize(("length", "step"), [(2048, 5), (4096, 25)])
def test_one_size_for_all_and_steps_down(length: int, step: int, smollm2: Tokenizer) -> None:
    """Samples have the common number of lines, or whole steps fewer."""
    examples = official("ruler_niah_single_1", smollm2, length, limit=30)
    counts = [example.prompt.text.count(NOISE) for example in examples]
    assert all((max(counts) - count) % step == 0 for count in counts)


def test_documents_are_counted(smollm2: Tokenizer, library: Path) -> None:
    """Question answering takes ten documents away at a time."""
    shown = [
        len(example.prompt.segments.documents)
        for example in official("ruler_qa_1", smollm2, 4096, limit=40)
        if example.prompt.segments is not None
    ]
    assert all((max(shown) - count) % 10 == 0 for count in shown)
    assert min(shown) >= 1


def test_the_length_asked_for_decides_on_repeats(smollm2: Tokenizer) -> None:
    """At 4,096 common words stand 30 times, though the prompt itself is shorter."""
    (example,) = official("ruler_cwe", smollm2, 4096, limit=1)
    assert len(example.prompt.token_ids) <= 4096 - 120
    assert example.record.facts["repeats"] == 30


def test_the_whole_range_may_be_asked_for(smollm2: Tokenizer) -> None:
    """8,192 positions hold 8,192 tokens of prompt and answer."""
    (example,) = official("ruler_niah_single_1", smollm2, 8192, limit=1)
    assert example.reach <= 8192
    with pytest.raises(ConfigError, match="the longest is 8192"):
        official("ruler_niah_single_1", smollm2, 8193, limit=1)


def test_too_short_a_length(smollm2: Tokenizer) -> None:
    """The smallest that works counts the new tokens too, and works."""
    with pytest.raises(TooShortError) as error:
        official("ruler_vt", smollm2, 300, limit=3)
    smallest = error.value.minimum
    assert f"--length {smallest}" in str(error.value)
    assert official("ruler_vt", smollm2, smallest, limit=3)


class Pilot:
    """Ten tokens, and seven a unit."""

    low, high, unit = 1, 1000, 7.0

    def guess(self, budget: int) -> int:
        return budget // 7

    def steps(self, *_: int) -> Steps:
        return Steps(5)


@pytest.mark.parametrize("budget", [80, 81, 87, 200, 1999])
def test_the_common_size_is_the_largest_that_fits(budget: int) -> None:
    """Every size is tried, or steps go up until the budget is reached and one back (fwe)."""

    def tokens(units: int) -> int:
        return 10 + 7 * units

    size = common_size(Pilot(), tokens, Steps(5), budget)
    assert tokens(size) <= budget < tokens(size + 1)
    grid = common_size(Pilot(), tokens, Steps(4, start=2), budget)
    assert (grid - 2) % 4 == 0
    assert tokens(grid) < budget <= tokens(grid + 4)


def test_samples_step_down_until_they_fit() -> None:
    """Whole steps, then the fewest there are; None where those do not fit."""

    def tokens(units: int) -> int:
        return 10 * units

    assert stepped_down(tokens, 23, Steps(5), 235, 1) == 23
    assert stepped_down(tokens, 23, Steps(5), 229, 1) == 18
    assert stepped_down(tokens, 23, Steps(5), 20, 1) == 1
    assert stepped_down(tokens, 23, Steps(5), 9, 1) is None


def planned(**changes: Any) -> Any:
    """Plan a run on the fake engine."""
    base = {"engine": "fake", "preset": "smollm2", "limit": 1, "ruler_official": True}
    return build_plan(RunConfig.model_validate({**base, **changes}))


def test_a_run_says_how_lengths_are_filled(tmp_path: Path) -> None:
    """A notice, other cells than without the option, and a refusal where it means nothing."""
    plan = planned(task="ruler_vt")
    assert any("as NVIDIA's scripts do" in notice for notice in plan.notices)
    plain = planned(task="ruler_vt", ruler_official=False)
    assert {c.record.cell_id for c in plan.cells}.isdisjoint(c.record.cell_id for c in plain.cells)
    with pytest.raises(ConfigError, match="no task of RULER's"):
        planned(task="multidoc_fiction")
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "x", "answers": ["y"]}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="--data brings its own"):
        planned(data=str(rows))
