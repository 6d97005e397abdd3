"""vLLM's ``vllm.general_plugins`` entry point: SpecPrefill without touching a script.

vLLM calls :func:`register` in every process it starts, so where none of its variables is set it
does nothing but look them up.
"""

from __future__ import annotations

import os
import sys

from harness.engines.vllm import following, waiting


def register() -> None:
    """Act on this package's environment variables.

    ``SPECPREFILL_MODEL`` names a speculator and enables SpecPrefill in a user's own process;
    ``SPECPREFILL_CONFIG`` may name a configuration file, as ``spec_config_path`` does.
    ``SPECPREFILL_WAIT_POLLING_S`` and ``SPECPREFILL_FOLLOW_PARENT`` are set for engines that this
    package starts (:mod:`harness.engines.vllm.waiting`, ``.following``).
    """
    following.apply()
    waiting.apply()
    model = os.environ.get("SPECPREFILL_MODEL")
    if not model:
        return
    import multiprocessing

    if multiprocessing.parent_process() is not None:
        return  # vLLM's own engine and worker processes build no LLM
    if "vllm.entrypoints.launchers.api_server.entry" in sys.modules:
        return  # a server builds none either: harness.serving.plugin
    from harness.methods.specprefill.vllm.drop_in import enable_prefill_spec

    enable_prefill_spec(model, os.environ.get("SPECPREFILL_CONFIG"))
