"""What the mixins rely on in vLLM's classes: a new vLLM that moves it fails here, by name."""

from __future__ import annotations

import ast
import inspect
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.engines.vllm import contract, flavour

pytest.importorskip("vllm")


def parameters(function) -> list[str]:
    """Names of a function's parameters."""
    return list(inspect.signature(function).parameters)


def source(thing) -> str:
    """Source text."""
    return inspect.getsource(thing)


@pytest.fixture(scope="module")
def runner():
    """VLLM's V1 runner, the base of the CPU runner too."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    return GPUModelRunner


FOUND = flavour.require()
RELEASE = tuple(int(part) for part in FOUND.version.split("+")[0].split(".")[:2])
on_cuda_from_032 = pytest.mark.skipif(RELEASE < (0, 32), reason="the cuda extra starts at 0.32")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_cuda_from_032)])
def test_the_installed_vllm_is_the_one_the_hooks_are_written_for(device):
    """Every method and field that is overridden or read, on either device."""
    assert list(contract.faults(device)) == []


def test_positions_are_edited_after_metadata_is_built(runner):
    """Slot mapping and attention metadata see compact positions; only the model sees ours."""
    body = source(runner.execute_model)
    order = [
        body.index(name)
        for name in (
            "self._update_states(",
            "self._prepare_inputs(",
            "self._get_slot_mappings(",
            "self._build_attention_metadata(",
            "self._preprocess(",
            "self._model_forward(",
        )
    ]
    assert order == sorted(order)


def test_cpu_worker_looks_its_runner_up_in_its_module():
    """CPUWorker.init_device builds ``CPUModelRunner(...)`` inline; ours takes the name's place."""
    cpu_worker = pytest.importorskip("vllm.v1.worker.cpu_worker")

    assert "CPUModelRunner" in vars(cpu_worker)
    assert "CPUModelRunner(self.vllm_config" in source(cpu_worker.CPUWorker.init_device)


@on_cuda_from_032
def test_gpu_worker_has_the_documented_override():
    """Worker._make_model_runner is what workers_cuda overrides."""
    from vllm.v1.worker.gpu_worker import Worker

    assert "self._make_model_runner()" in source(Worker._init_workspace_and_model_runner)


def test_attention_layers_call_impl_with_the_query_second():
    """Capture wraps impl.forward(layer, query, …); the key layout is found by impl's own write."""
    from vllm.model_executor.layers.attention import Attention

    body = source(Attention.__init__)
    for name in ("num_heads", "num_kv_heads", "head_size", "sliding_window", "layer_name", "dtype"):
        assert f"self.{name} =" in body, name


def test_offline_entry_points_are_the_patched_ones():
    """enable_prefill_spec wraps these methods of vllm.LLM, through which every request passes."""
    from vllm.entrypoints.llm import LLM

    contract.check_llm(LLM)
    for name in ("_add_completion_requests", "_add_chat_requests"):
        assert "self._render_and_add_requests(" in source(getattr(LLM, name)), name


def test_only_the_repetition_penalty_counts_prompt_tokens():
    """PositionsMixin shows it the dropped ones, in the metadata that vLLM keeps between steps."""
    from vllm.model_executor.layers.utils import apply_penalties
    from vllm.v1.sample.metadata import SamplingMetadata
    from vllm.v1.worker.gpu_input_batch import InputBatch

    uses = [line for line in source(apply_penalties).splitlines() if "prompt_mask" in line]
    assert len(uses) == 2, "frequency and presence penalties count prompt tokens now"
    assert "prompt_token_ids" in SamplingMetadata.__dataclass_fields__
    assert "self.sampling_metadata = self._make_sampling_metadata()" in source(
        InputBatch.refresh_metadata
    )
    assert "self.vocab_size =" in source(InputBatch.__init__)


def test_engine_takes_prepared_inputs():
    """Host adds tokens_input(ids, cache_salt=…) and talks to workers by method name."""
    from vllm.inputs import tokens_input
    from vllm.v1.engine.core_client import EngineCoreClient

    assert "cache_salt" in parameters(tokens_input)
    assert "args" in parameters(EngineCoreClient.collective_rpc)


def test_both_flavours_of_worker_can_be_imported():
    """The qualified names that worker_cls is given resolve, GPU or not."""
    from harness.engines.vllm.flavour import Flavour
    from harness.methods.minference.in_vllm import MInferencePath

    class Sized:
        _positions = 4096

    for device in ("cpu", "cuda"):
        started = MInferencePath.options(Sized(), device)  # type: ignore[arg-type]
        module, _, name = started["worker_cls"].rpartition(".")
        assert hasattr(pytest.importorskip(module), name)
        for role in ("target", "speculator"):
            package = "harness.engines.vllm"
            if role == "speculator":
                package = "harness.methods.specprefill.vllm"
            worker = Flavour("vllm", "0.32.0", device).worker_class(role, package)
            module, _, name = worker.rpartition(".")
            assert hasattr(pytest.importorskip(module), name)


def test_the_cpu_attention_backend_is_replaced_through_the_registry():
    """MInference subclasses it; keys and values reach the cache before attention, by vLLM."""
    from vllm.model_executor.models.utils import extract_layer_index
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend, CPUAttentionBackendImpl
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    assert AttentionBackendEnum.CPU_ATTN.value.endswith("cpu_attn.CPUAttentionBackend")
    assert parameters(register_backend)[:2] == ["backend", "class_path"]
    assert CPUAttentionBackend.forward_includes_kv_cache_update is False
    assert parameters(CPUAttentionBackendImpl.forward)[:8] == [
        *("self", "layer", "query", "key", "value", "kv_cache", "attn_metadata", "output")
    ]
    assert extract_layer_index("model.layers.7.self_attn.attn") == 7


def test_the_gpu_attention_backend_is_replaced_the_same_way():
    """FlashAttention has the CPU backend's signature, names what it cannot leave out, and eager."""
    from vllm.config.attention import AttentionConfig
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl
    from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend, FlashAttentionImpl
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    assert AttentionBackendEnum.FLASH_ATTN.value.endswith("flash_attn.FlashAttentionBackend")
    assert FlashAttentionBackend.forward_includes_kv_cache_update is False
    for name in ("forward", "__init__"):
        ours = parameters(getattr(CPUAttentionBackendImpl, name))
        assert parameters(getattr(FlashAttentionImpl, name)) == ours
    body = source(FlashAttentionImpl.__init__)
    for name in ("logits_soft_cap", "alibi_slopes", "sinks"):
        assert f"self.{name} =" in body, name
    assert "attention_backend" in EngineArgs.__dataclass_fields__
    chosen = AttentionConfig.validate_backend_before("FLASH_ATTN")
    assert chosen is AttentionBackendEnum.FLASH_ATTN


def test_the_sparse_kernel_takes_lists_of_blocks_and_columns():
    """MInference's fused kernel on a GPU: its module is in CPU wheels too, to be read only."""
    package = find_spec("vllm")
    path = Path(package.submodule_search_locations[0], "vllm_flash_attn", "flash_attn_interface.py")
    functions = {
        node.name: [arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)]
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    wanted = ["q", "k", "v", "block_count", "block_offset", "column_count", "column_index"]
    assert functions["sparse_attn_func"][:7] == wanted
    assert {"softmax_scale", "causal"} <= set(functions["sparse_attn_func"])
    assert functions["is_fa_version_supported"][0] == "fa_version"
