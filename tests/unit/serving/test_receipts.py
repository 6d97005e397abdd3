from prometheus_client import CollectorRegistry, generate_latest

from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt, Status
from harness.serving.metrics import Metrics
from harness.serving.receipts import ServedReceipt, timings


def served(status=Status.ACTIVE, kept=3, rows=8, **seconds) -> ServedReceipt:
    """Some of ten tokens kept."""
    receipt = Receipt("specprefill", status, keep_requested=0.3, details={"rows": rows})
    ids = tuple(range(kept))
    return ServedReceipt(PreparedPrompt("r", ids, ids, 10, receipt), dict(seconds))


def test_a_receipt_tells_tokens_and_seconds():
    """In the client's terms: the prompt's own length, and what was scored and kept of it."""
    made = served(score=0.5, select=0.1, prefill=1.5).to_json()
    assert made == {
        "status": "active",
        "reason": None,
        "keep_requested": 0.3,
        "keep_achieved": 0.3,
        "prompt_tokens": 10,
        "scored_tokens": 10,
        "kept_tokens": 3,
        "look_ahead": 8,
        "windows": 0,
        "seconds": {"score": 0.5, "select": 0.1, "prefill": 1.5},
    }


def test_nothing_is_scored_where_a_guard_held_back():
    """A prompt that was left alone cost the speculator nothing."""
    made = served(Status.SKIPPED_MIN_TOKENS, kept=10, rows=0).to_json()
    assert (made["scored_tokens"], made["kept_tokens"], made["keep_achieved"]) == (0, 10, 1.0)


def test_prompts_that_were_never_planned_have_no_receipt():
    """A request that failed before its plan."""
    assert timings([]) is None
    assert timings([ServedReceipt()]) is None
    assert timings([ServedReceipt(), served()])["specprefill"] == [served().to_json()]


def test_metrics_add_up_receipts():
    """Counters by status and tokens, histograms by stage; every status shows from the start."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    for receipt in (served(score=0.5, select=0.1), served(Status.DISABLED, 10, 0, score=0.0)):
        metrics.planned(receipt)
    lines = generate_latest(registry).decode().splitlines()
    for line in (
        'specprefill_requests_total{status="active"} 1.0',
        'specprefill_requests_total{status="disabled"} 1.0',
        'specprefill_requests_total{status="failed"} 0.0',
        "specprefill_prompt_tokens_total 20.0",
        "specprefill_scored_tokens_total 10.0",
        "specprefill_kept_tokens_total 13.0",
        'specprefill_stage_seconds_count{stage="score"} 1.0',
        'specprefill_stage_seconds_count{stage="prefill"} 0.0',
    ):
        assert line in lines
