"""Prefill strategies of the transformers engine: other ways from a prompt to a key-value cache.

An engine whose spec names an ``attention`` or ``prefill`` other than the ordinary one (a name from
here, or ``package.module:Class``) makes that strategy once, and calls it as
``strategy(model, prepared)`` for each prompt. The knobs are in ``prepared.directives``; decoding
goes on from the returned cache on the engine's ordinary path
(:class:`harness.engines.hf.model.Prefilled`).
"""

from __future__ import annotations

STRATEGIES: dict[str, str] = {
    "minference": "harness.methods.minference.strategy:MInferencePrefill",
    "snapkv": "harness.methods.snapkv.strategy:SnapKVPrefill",
    "gemfilter": "harness.methods.gemfilter.strategy:GemFilterPrefill",
    "draft_verify": "harness.methods.draft_verify.strategy:DraftVerifyPrefill",
}
"""Name in :class:`~harness.engines.base.EngineSpec` → ``module:Class``, made without arguments."""
