"""Arms at every keep rate, look-ahead and seed; overrides."""

from __future__ import annotations

import pytest

from harness.errors import ConfigError
from harness.methods import METHODS
from harness.methods.specprefill.method import SpecPrefill
from harness.run.arms import asked_arms, expand_arms, parse_overrides
from harness.run.config import RunConfig


def names(config: RunConfig) -> list[str]:
    """Display names of a configuration's arms."""
    return [planned.arm.name for planned in expand_arms(config)]


def test_each_arm_takes_the_axes_it_has() -> None:
    """Full prefill has no axis, random a keep rate, SpecPrefill a look-ahead too."""
    config = RunConfig(arms={"specprefill": {}, "random": {}}, keep=(0.1, 0.125), look_ahead=(1, 8))
    assert names(config) == [
        "full",
        "specprefill-k10-lah1",
        "specprefill-k10-lah8",
        "specprefill-k12.5-lah1",
        "specprefill-k12.5-lah8",
        "random-k10",
        "random-k12.5",
    ]


def test_what_an_arm_file_fixes_stays() -> None:
    """A baseline with its own keep rate keeps it, whatever the run asks for."""
    (planned,) = expand_arms(
        RunConfig(arms={"specprefill-p3-full-lah4": {}}, keep=(0.1, 0.9), reference=False)
    )
    arm = planned.arm
    assert (arm.name, arm.keep, arm.look_ahead) == ("specprefill-p3-full-lah4", 0.3, 4)


def test_full_prefill_comes_first_and_once() -> None:
    """The reference is there whether named, named last, or left out; unless switched off."""
    assert names(RunConfig(arms={"random": {}, "full": {}})) == ["full", "random-k10"]
    assert names(RunConfig(arms={"random": {}})) == ["full", "random-k10"]
    assert names(RunConfig(arms={"random": {}}, reference=False)) == ["random-k10"]


def test_method_seeds_matter_to_stochastic_methods_only() -> None:
    """Two seeds make two random arms and one SpecPrefill arm."""
    config = RunConfig(arms={"random": {}, "specprefill": {}}, method_seed=(0, 1))
    assert names(config) == ["full", "random-k10-m0", "random-k10-m1", "specprefill-k10-lah8"]


def test_an_override_keeps_the_name_and_reaches_nested_options() -> None:
    """--set changes the method and its identity, not the display name."""
    overrides = parse_overrides(
        ["specprefill.order=lowest", "specprefill.always_keep.last=64", "specprefill.chunk=16"]
    )
    plain = expand_arms(RunConfig())[1]
    (_, changed) = expand_arms(RunConfig(), overrides)
    assert changed.arm.name == plain.arm.name
    assert isinstance(changed.method, SpecPrefill)
    assert changed.method.config.order == "lowest"
    assert changed.method.config.always_keep.last == 64
    assert changed.method.config.chunk == 16
    assert changed.arm.options != plain.arm.options


@pytest.mark.parametrize(
    "setting", ["x", "specprefill=1", ".a=1", "specprefill.=1", "specprefill.a={", "=3"]
)
def test_a_malformed_override_is_refused(setting: str) -> None:
    """An override that is no ARM.OPTION=VALUE says how to write one."""
    with pytest.raises(ConfigError, match="--set"):
        parse_overrides([setting])


def test_an_override_of_no_arm_is_refused() -> None:
    """A misspelt arm name would silently change nothing."""
    with pytest.raises(ConfigError, match="did you mean 'specprefill'"):
        expand_arms(RunConfig(), parse_overrides(["specprefil.chunk=1"]))


def test_all_names_every_method() -> None:
    """``--method all`` is the registry, in its order, with retrieval in both orders."""
    names = asked_arms(["all"])
    assert [name for name in names if name in METHODS] == list(METHODS)
    assert set(names) - set(METHODS) == {"rag-bm25-relevance"}
    orders = {
        planned.arm.name: planned.arm.options["order"]
        for planned in expand_arms(RunConfig(arms=names))
        if planned.arm.method == "rag"
    }
    assert orders == {"rag-k10": "original", "rag-bm25-relevance-k10": "relevance"}
    with pytest.raises(ConfigError, match="stands alone"):
        asked_arms(["all", "full"])


def test_every_method_of_the_registry_expands() -> None:
    """Each method's defaults are valid, so that it can be run by its name alone."""
    config = RunConfig(arms={name: {} for name in METHODS})
    assert {planned.arm.method for planned in expand_arms(config)} == set(METHODS)


def test_an_arms_facts_are_fields() -> None:
    """Pool and curve come from the facts: user names that look like rates stay whole."""
    config = RunConfig(
        arms={"my-k2-arm": {"method": "random"}, "my-k4-arm": {"method": "random"}},
        keep=(0.1, 0.3),
        method_seed=(0, 1),
        reference=False,
    )
    arms = [planned.arm for planned in expand_arms(config)]
    assert {arm.series for arm in arms} == {"my-k2-arm", "my-k4-arm"}
    assert {arm.pool for arm in arms if arm.base == "my-k2-arm"} == {
        "my-k2-arm-k10",
        "my-k2-arm-k30",
    }
    assert arms[0].name == "my-k2-arm-k10-m0"
