"""What a user says to an engine: typed as vLLM types it, or refused by name."""

from __future__ import annotations

import pytest

from harness.engines.base import EngineSpec
from harness.engines.vllm import flavour
from harness.engines.vllm.arguments import for_vllm, known_types, read_arguments, split
from harness.engines.vllm.host import HostOptions, engine_arguments
from harness.errors import ConfigError

pytestmark = pytest.mark.skipif(flavour.installed() is None, reason="vLLM is not installed")


def test_commas_inside_brackets_and_quotes_are_no_separators():
    """JSON values stand among others; dashes in names are underscores."""
    text = 'max-num-seqs=4, hf_overrides={"a": {"b": "x,y"}, "c": [1, 2]},quantization=fp8'
    assert split(text) == {
        "max_num_seqs": "4",
        "hf_overrides": '{"a": {"b": "x,y"}, "c": [1, 2]}',
        "quantization": "fp8",
    }


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_num_seqs", "4", 4),
        ("gpu_memory_utilization", "0.4", 0.4),
        ("trust_remote_code", "true", True),
        ("quantization", "fp8", "fp8"),
        ("quantization", "none", None),
        ("kv_cache_dtype", "auto", "auto"),
        ("kv_tokens", "4096", 4096),
        ("hf_overrides", '{"b": 1, "a": [2]}', '{"a":[2],"b":1}'),
    ],
)
def test_values_have_vllm_s_types(name, text, value):
    """From a command line and from YAML alike."""
    assert read_arguments(f"{name}={text}") == {name: value}
    assert read_arguments({name: for_vllm(name, value)}) == {name: value}


def test_names_of_ours_stand_for_vllm_s():
    """One name in the end, whichever was said; sorted, so that equal ones hash equal."""
    said = read_arguments("tensor_parallel_size=2,enable_prefix_caching=false,block_size=16")
    assert list(said.items()) == [
        ("block_size", 16),
        ("prefix_caching", False),
        ("tensor_parallel", 2),
    ]
    assert said == read_arguments({"prefix_caching": False, "block_size": 16, "tensor_parallel": 2})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("max_num_seqz=2", "did you mean 'max_num_seqs'"),
        ("max_num_seqs=many", "max_num_seqs takes int"),
        ("max_num_seqs=1.5", "max_num_seqs takes int"),
        ("trust_remote_code=maybe", "trust_remote_code takes bool"),
        ("hf_overrides={bad", "hf_overrides takes"),
        ("max_num_seqs", "name=value"),
        ("max_num_seqs=1,max_num_seqs=2", "stands twice"),
        ("tensor_parallel=1,tensor_parallel_size=2", "say the same"),
        ("worker_cls=mine.Worker", "worker_cls cannot be set"),
        ("enforce_eager=false", "always eager"),
        ("max_model_len=99", "lengths"),
        ("dtype=float16", "--dtype"),
        ('speculative_config={"method": "ngram"}', "speculative decoding"),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(text, names):
    """Unknown, of the wrong type, twice, or SpecPrefill's own: one line each."""
    with pytest.raises(ConfigError) as caught:
        read_arguments(text)
    assert names in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_so_anyway_may_be_said():
    """enforce_eager=true asks for nothing."""
    assert read_arguments("enforce_eager=true,max_num_seqs=2") == {"max_num_seqs": 2}


def test_a_speculator_has_no_pipeline():
    """Its scores are a maximum over ranks that all see every row's end."""
    with pytest.raises(ConfigError, match="tensor_parallel"):
        read_arguments("pipeline_parallel_size=2", "speculator")
    assert read_arguments("pipeline_parallel_size=2") == {"pipeline_parallel": 2}


def test_every_refusal_and_alias_is_a_name_of_vllm_s():
    """A release that renames one is noticed here."""
    from harness.engines.vllm.arguments import _REFUSED, ALIASES

    assert set(known_types()) >= {*_REFUSED, *ALIASES}


def test_they_reach_vllm(tiny_folder):
    """Own fields by our name, others as they are, structured ones as objects again."""
    said = read_arguments('max_num_seqs=3,block_size=32,hf_overrides={"rope_theta":5.0}')
    spec = EngineSpec("vllm", str(tiny_folder), "float16", 512, options=tuple(said.items()))
    options = HostOptions.from_spec(spec, "target")
    assert options.max_num_seqs == 3
    assert options.config()["rope_theta"] == 5.0
    found = engine_arguments(options)
    assert (found["max_num_seqs"], found["block_size"], found["dtype"]) == (3, 32, "float16")
    assert found["hf_overrides"] == {"rope_theta": 5.0}
    with pytest.raises(ConfigError, match="did you mean 'block_size'"):
        HostOptions.from_spec(EngineSpec("vllm", "x", options=(("blok_size", 1),)), "target")


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory):
    """A model folder with a configuration."""
    from tiny import tiny_model

    folder = tmp_path_factory.mktemp("tiny")
    tiny_model(folder)
    return folder
