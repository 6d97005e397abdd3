"""vLLM's ``vllm.general_plugins`` entry point: SpecPrefill without touching a script.

vLLM calls :func:`register` in every process it starts, so unless ``SPECPREFILL_MODEL`` names a
speculator it does nothing but look that up.
"""

from __future__ import annotations

import os


def register() -> None:
    """Enable SpecPrefill in a user's own process where ``SPECPREFILL_MODEL`` is set.

    ``SPECPREFILL_CONFIG`` may name a configuration file, as ``spec_config_path`` does.
    """
    model = os.environ.get("SPECPREFILL_MODEL")
    if not model:
        return
    import multiprocessing

    if multiprocessing.parent_process() is not None:
        return  # vLLM's own engine and worker processes build no LLM
    from harness.specprefill.vllm.enable import enable_prefill_spec

    enable_prefill_spec(model, os.environ.get("SPECPREFILL_CONFIG"))
