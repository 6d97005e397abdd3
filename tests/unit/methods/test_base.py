"""The base class and the context: what a method is asked for, and what it may keep."""

from __future__ import annotations

import pytest

from harness.engines.base import EngineSpec
from harness.errors import ModelError
from harness.methods import METHODS
from harness.methods.base import Method, MethodContext
from harness.methods.options import build
from harness.methods.registry import method_class


def test_a_handle_is_made_once(context: MethodContext) -> None:
    """Cells share what is slow to open, also None; what could not be opened is tried again."""
    made: list[str] = []

    def make() -> None:
        made.append("model")

    def fail() -> str:
        raise ModelError("not here")

    for _ in range(2):
        assert context.handle("none", make) is None
    assert made == ["model"]
    with pytest.raises(ModelError):
        context.handle("model", fail)
    assert context.handle("model", lambda: "open") == "open"


def test_a_cold_context_forgets_examples_and_nothing_else(context: MethodContext) -> None:
    """The latency protocol's context: handles are shared both ways, the memo is its own."""
    context.memo["scores"] = 1
    cold = context.cold()
    assert cold.memo == {}
    cold.memo["scores"] = 2
    cold.handles["late"] = "model"
    assert (context.memo, context.handles["late"]) == ({"scores": 1}, "model")
    assert (cold.tokenizer, cold.method_seed) == (context.tokenizer, context.method_seed)


@pytest.mark.parametrize("name", METHODS)
def test_every_member_has_an_answer(name: str) -> None:
    """Whoever holds a method may ask for all of it, without a default of their own."""
    method = build(method_class(name), {})
    assert isinstance(method, Method)
    assert isinstance(method.version, int)
    assert isinstance(method.wants_rates, bool)
    assert all(isinstance(model, str) for model in method.own_models)
    assert method.requested is None or 0 < method.requested <= 1
    assert method.engine_spec(EngineSpec("fake", "nowhere")).target == "nowhere"
