"""Every registered engine can be asked before it is opened."""

from __future__ import annotations

from dataclasses import replace
from pkgutil import resolve_name

import pytest

from harness.engines.base import Engine, EngineSpec
from harness.engines.registry import ENGINES, check_target, open_engine
from harness.errors import ConfigError
from harness.models.embedded import prepare_smollm2


@pytest.fixture(scope="module")
def fake() -> EngineSpec:
    """The fake engine on the embedded model's tokenizer."""
    return EngineSpec("fake", str(prepare_smollm2()))


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_has_the_seams_members(name: str) -> None:
    """The registry's classes offer all that the seam names: nobody asks for one with a default."""
    cls = resolve_name(ENGINES[name])
    members = {member for member in vars(Engine) if not member.startswith("_")}
    assert {"check", "open", "generate", "time_one", "close"} <= members
    assert [member for member in members if not hasattr(cls, member)] == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"attention": "minference"}, "attention path 'minference': use --engine hf"),
        ({"prefill": "a.b:C"}, "prefill strategy 'a.b:C': use --engine hf"),
        ({"options": (("kv_tokens", 4),)}, "no option 'kv_tokens'"),
    ],
)
def test_the_fake_engine_refuses_what_needs_a_model(
    fake: EngineSpec, changes: dict[str, object], says: str
) -> None:
    """A strategy that the fake engine cannot run is refused, not left out without a word."""
    check_target(fake)
    for call in (check_target, open_engine):
        with pytest.raises(ConfigError, match=says):
            call(replace(fake, **changes))  # type: ignore[arg-type]
