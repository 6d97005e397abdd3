"""Prompts are filled to a budget and never beyond it, whatever the units weigh."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_tokenizer

from harness.errors import DataError
from harness.tasks.framing import Frame, fill, largest_fit

SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=60)


@given(SIZES, st.integers(0, 2500), st.integers(0, 60), st.integers(1, 40))
def test_the_largest_fit_is_found(sizes: list[int], budget: int, guess: int, unit: int) -> None:
    """The answer never exceeds the budget and is within a unit of the best there is."""
    sums = [0, *accumulate(sizes)]
    found = largest_fit(lambda n: sums[n], budget, guess=guess, unit=unit, low=0, high=len(sizes))
    best = bisect_right(sums, budget) - 1
    assert found is not None
    assert sums[found] <= budget
    assert found == best or budget - sums[found] < unit


@given(SIZES, st.integers(0, 60))
def test_nothing_fits(sizes: list[int], guess: int) -> None:
    """None where even the smallest is beyond the budget, and the search ends."""
    sums = [0, *accumulate(sizes)]
    found = largest_fit(lambda n: sums[n] + 10, 9, guess=guess, unit=5, low=0, high=len(sizes))
    assert found is None


def test_a_good_guess_costs_one_measurement() -> None:
    """Prompts are long: measuring them is what generation costs."""
    asked: list[int] = []

    def measure(n: int) -> int:
        asked.append(n)
        return 23 * n

    assert largest_fit(measure, 1000, guess=43, unit=23, low=1, high=10**9) == 43
    assert asked == [43]


@given(st.lists(st.integers(1, 100), max_size=50), st.integers(0, 2000))
def test_a_filling_fits(sizes: list[int], budget: int) -> None:
    """Chosen items are distinct, in order, within the budget, and no left one would still fit."""
    chosen = fill(sizes, budget)
    total = sum(sizes[i] for i in chosen)
    assert chosen == sorted(set(chosen))
    assert total <= budget
    left = [size for i, size in enumerate(sizes) if i not in chosen]
    assert all(total + size > budget for size in left)


def test_items_of_one_kind_fill_closely() -> None:
    """Sentences of 78 to 99 tokens come within 1 % of any budget: a whole one is never missing."""
    sizes = [78 + (7 * i) % 22 for i in range(80)]
    for budget in range(900, 1100, 7):
        total = sum(sizes[i] for i in fill(sizes, budget, close=5))
        assert budget - 10 <= total <= budget


def without_system_role(folder: Path, *, passes_over: bool = False) -> Frame:
    """A tokenizer whose template raises on a system message, or passes it over."""
    refusal = "" if passes_over else "{{ raise_exception('no system role') }}"
    tokenizer = tiny_tokenizer(folder)
    tokenizer.hf.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'system' %}" + refusal + "{% else %}"
        "[{{ m['role'] }}] {{ m['content'] | trim }}\n{% endif %}{% endfor %}[assistant]"
    )
    return Frame.of(tokenizer)


@pytest.mark.parametrize("passes_over", [False, True])
def test_a_template_without_a_system_role(passes_over: bool, tmp_path: Path) -> None:
    """What the system says stands at the head of the user's turn (lm-evaluation-harness#2069)."""
    frame = without_system_role(tmp_path, passes_over=passes_over)
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]
    assert frame.chatted(turns, " It") == "[user] Be brief.\n\nWho?\n[assistant] It"
    assert frame.chatted(turns[1:]) == "[user] Who?\n[assistant]"


def test_a_conversation_that_cannot_be_shown(tmp_path: Path) -> None:
    """One line that says what the template refuses."""
    frame = without_system_role(tmp_path)
    turns = [{"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Yes."}]
    with pytest.raises(DataError, match="takes no system message") as error:
        frame.chatted(turns)
    assert "\n" not in str(error.value)
    frame.tokenizer.hf.chat_template = "{{ raise_exception('never') }}"
    with pytest.raises(DataError, match="refuses the roles user: never"):
        frame.render("Who?")
