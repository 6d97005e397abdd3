"""MInference in vLLM, the engine's side: options to start with, requests, receipts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.engines.base import EngineSpec
from harness.errors import ConfigError, UnsupportedError
from harness.methods.minference.published import patterns_for
from harness.methods.minference.receipt import completed
from harness.models.config_facts import read_config
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt

KEY = "minference"
"""The path's name, and its entry in ``extra_args``."""

KNOBS = ("keep", "pattern", "block", "sink", "last_queries", "pattern_file")
_WORKERS = "harness.methods.minference.vllm_worker"
_BACKENDS = {"cpu": "CPU_ATTN", "cuda": "FLASH_ATTN"}  # those that the workers replace
_SEQUENCES = 4
_DECODED = 256  # room for answers in the cache, a request


def runs_in_vllm(base: EngineSpec) -> bool:
    """Whether the run's engine is a vLLM with this path.

    On a GPU it stands behind FlashAttention, which has no float32.
    """
    from harness.engines.vllm import flavour

    found = flavour.installed()
    if base.engine != "vllm" or found is None:
        return False
    return found.device == "cpu" or base.dtype != "float32"


class MInferencePath:
    """Implements :class:`harness.engines.vllm.attention.AttentionPath`."""

    collect = "minference_take"

    def __init__(self, spec: EngineSpec) -> None:
        """Refuse options under which a prompt could come in parts, or its keys from a cache.

        Raises
        ------
        ConfigError
            The options ask for chunked prefill, prefix caching, several ranks or small steps.
        UnsupportedError
            The target caps its attention's logits.
        """
        given = dict(spec.options)
        wrong = {
            "chunked_prefill is on": given.get("chunked_prefill", False),
            "prefix_caching is on": given.get("prefix_caching", False),
            "tensor_parallel is above 1": given.get("tensor_parallel", 1) > 1,
            "max_num_batched_tokens is below max_model_len": spec.max_model_len
            > given.get("max_num_batched_tokens", spec.max_model_len),
        }
        for reason, found in wrong.items():
            if found:
                raise ConfigError(f"MInference needs the whole prompt in one step: {reason}")
        config = read_config(spec.target)
        if config.get("attn_logit_softcapping"):
            raise UnsupportedError("MInference has no attention with logits_soft_cap")
        self._size = (config["num_hidden_layers"], config["num_attention_heads"])
        self._positions = spec.max_model_len

    def options(self, device: str) -> Mapping[str, Any]:
        """Each prompt whole in one step, nothing cached, and our worker's attention backend.

        The cache holds every running request to its end, so that none is preempted and prefilled
        again.
        """
        return {
            "attention_backend": _BACKENDS[device],
            "chunked_prefill": False,
            "kv_tokens": _SEQUENCES * (self._positions + _DECODED),
            "max_num_batched_tokens": max(self._positions + 1, 4096),
            "max_num_seqs": _SEQUENCES,
            "prefix_caching": False,
            "worker_cls": f"{_WORKERS}_{device}.MInference{device.upper()}Worker",
        }

    def extra_args(self, prepared: PreparedPrompt) -> dict[str, Any]:
        """Return the knobs and the prompt's length.

        Raises
        ------
        ConfigError
            The pattern file is for another model.
        """
        knobs = {name: prepared.directives[name] for name in KNOBS}
        patterns_for(*self._size, knobs["pattern_file"])
        return {KEY: {**knobs, "length": prepared.original_length}}

    def finish(
        self, prepared: PreparedPrompt, ranks: Sequence[Mapping[str, Any]]
    ) -> tuple[Receipt, Mapping[str, int]]:
        """Complete the receipt with the share of pairs that was computed."""
        (report,) = ranks
        receipt = completed(prepared, report["share"], report["kernel"])
        return receipt, {"sparse_layers": int(report["layers"])}
