import pytest

from harness.errors import HarnessError
from harness.models.embedded import prepare_smollm2
from harness.serving.options import JoinOptions, ServeOptions


def options(**changes) -> ServeOptions:
    """A server of the embedded model."""
    folder = str(prepare_smollm2())
    join = JoinOptions(folder)
    return ServeOptions(**{"target": folder, "name": "m", "join": join, **changes})


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"keep": 0}, "keep"),
        ({"keep": 1.5}, "keep"),
        ({"look_ahead": 65}, "64"),
        ({"chunck": 3}, "did you mean 'chunk'"),
    ],
)
def test_a_wrong_knob_is_told_before_anything_starts(knobs, message):
    """One line that names the knob."""
    with pytest.raises(HarnessError, match=message):
        JoinOptions("speculator", knobs)


@pytest.mark.parametrize(
    "field", [{"timeout_s": 0}, {"drain_s": -1}, {"max_body": 0}, {"max_num_seqs": 0}]
)
def test_a_wrong_limit_is_told(field):
    """Limits that would let nothing through."""
    with pytest.raises(HarnessError, match=next(iter(field))):
        JoinOptions("speculator", **field)


@pytest.mark.parametrize("field", [{"port": 70000}, {"dtype": "fp8"}, {"max_num_seqs": 0}])
def test_a_wrong_server_option_is_told(field):
    """By its name on the command line."""
    with pytest.raises(HarnessError, match=next(iter(field)).replace("_", "-")):
        options(**field)


def test_the_targets_range_is_the_default_and_the_limit():
    """VLLM counts prompt and answer together, so its length is the range itself."""
    assert options().target_options().max_model_len == 8192
    assert options(max_model_len=1024).target_options().kv_tokens == 2048
    with pytest.raises(HarnessError, match="2…8192"):
        options(max_model_len=8193).target_options()


def test_the_speculator_has_room_for_the_longest_prompt_and_its_look_ahead():
    """Up to its own range; beyond it prompts are scored in windows."""
    join = options().join
    assert join.scorer(1024, "float32").max_model_len == 1024 + 64
    assert join.scorer(8192, "float32").max_model_len == 8192
    assert join.scorer(1024, "float32").prefix_caching


def test_a_shared_tokenizer_needs_no_translation():
    """The same folder twice."""
    assert options().join.other_tokenizer(str(prepare_smollm2())) is None
