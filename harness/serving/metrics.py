"""What ``/metrics`` says of SpecPrefill, on the registry that vLLM's own metrics use.

``vllm:prompt_tokens_total`` counts what the target prefills, so kept tokens; the prompts' own
lengths are counted here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from harness.schema.receipts import Status

if TYPE_CHECKING:
    from harness.serving.receipts import ServedReceipt

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_TOKENS = {
    "prompt": "as clients sent them",
    "scored": "that the speculator has scored, in its own tokens",
    "kept": "that the target prefills",
}
_STAGES = ("score", "select", "prefill")


class Metrics:
    """Counters of one server; give a registry of its own to make a second one in a process."""

    def __init__(self, registry: Any = None) -> None:
        import prometheus_client as prometheus

        counter = partial(prometheus.Counter, registry=registry or prometheus.REGISTRY)
        gauge = partial(prometheus.Gauge, registry=registry or prometheus.REGISTRY)
        self._requests = counter(
            "specprefill_requests", "Prompts by what became of them.", ["status"]
        )
        for status in Status:
            self._requests.labels(str(status))  # zero is shown too
        self._tokens = {
            name: counter(f"specprefill_{name}_tokens", f"Prompt tokens {what}.")
            for name, what in _TOKENS.items()
        }
        self._stages = prometheus.Histogram(
            "specprefill_stage_seconds",
            "Seconds by stage: score, select, prefill (to the target's first token).",
            ["stage"],
            buckets=_SECONDS,
            registry=registry or prometheus.REGISTRY,
        )
        for stage in _STAGES:
            self._stages.labels(stage)
        self.queue = gauge("specprefill_speculator_queue", "Prompts that wait for their scores.")
        self.up = gauge("specprefill_speculator_up", "1 while the speculator runs, else 0.")
        self.restarts = counter(
            "specprefill_speculator_restarts", "Times the speculator was started anew."
        )

    def planned(self, receipt: ServedReceipt) -> None:
        """Count a prompt that has been planned."""
        assert receipt.prepared is not None
        self._requests.labels(str(receipt.prepared.receipt.status)).inc()
        self._tokens["prompt"].inc(receipt.prepared.original_length)
        self._tokens["scored"].inc(receipt.scored_tokens)
        self._tokens["kept"].inc(receipt.kept_tokens)
        for stage in ("score", "select"):
            if receipt.scored_tokens and stage in receipt.seconds:
                self._stages.labels(stage).observe(receipt.seconds[stage])

    def first_token(self, receipt: ServedReceipt) -> None:
        """Observe the target's part."""
        self._stages.labels("prefill").observe(receipt.seconds["prefill"])
