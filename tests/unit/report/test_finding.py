"""The finding in words."""

import pytest

from harness.report.finding import find
from harness.report.source import Report, open_report
from harness.schema.rows import Row

PAIRS = {"n": 20, "clusters": 20}


class Rows(Report):
    """A report of rows alone."""

    def __init__(self, *rows: Row) -> None:
        super().__init__(())
        self.__dict__["rows"] = list(rows)
        self.__dict__["models"] = "MODEL (vllm, bfloat16)"


@pytest.mark.parametrize(
    ("delta", "words"),
    [
        ({"mean": -0.05, "low": -0.09, "high": -0.01}, "a loss of 0.050"),
        ({"mean": 0.05, "low": 0.01, "high": 0.09}, "a gain of 0.050"),
        ({"mean": -0.02, "low": -0.05, "high": 0.01}, "cannot tell from none"),
        ({"mean": 0.0, "low": -0.05, "high": 0.05}, "cannot tell from none"),
        (
            {"mean": 0.1, "low": None, "high": None, "reason": "2 clusters"},
            "too little to conclude from: 2 clusters",
        ),
    ],
)
def test_the_interval_decides_the_words(entry, delta, words):
    """Loss and gain are said only where the interval excludes zero."""
    found = find(Rows(entry("ruler_vt", "full"), entry("ruler_vt", delta={**delta, **PAIRS})))
    assert words in found.quality


def test_latency_names_batch_length_and_model(entry):
    """A TTFT headline says how it was measured, beside its interval and both medians."""
    found = find(Rows(entry("ruler_vt", "full"), entry("ruler_vt")))
    for part in (
        "3.42× sooner", "3.10× to 3.80×", "0.651 s against 2.35 s",
        "one request at a time", "2,048 tokens", "MODEL",
    ):  # fmt: skip
        assert part in found.latency


def test_slower_is_called_slower(entry):
    """A ratio under one is no speed-up."""
    slow = {"ratio": 0.8, "low": 0.7, "high": 0.9, "blocks": 8}
    found = find(Rows(entry("t", "full"), entry("t", ttft_speedup=slow)))
    assert "later" in found.latency
    assert "sooner" not in found.latency


def test_the_lead_is_the_first_specprefill_arm_not_the_best(entry):
    """The headline is not picked by its result."""
    best = {"mean": 0.2, "low": 0.1, "high": 0.3, **PAIRS}
    found = find(
        Rows(
            entry("t", "full"),
            entry("t", "rag", arm="rag-k10", delta=best),
            entry("t", arm="specprefill-k10"),
            entry("t", arm="specprefill-k50", delta=best),
        )
    )
    assert found.quality.startswith("specprefill-k10 ")
    assert len(found.more) == 2


def test_floor_tasks_are_out_of_the_headline_and_named(entry):
    """Where full prefill fails, nothing is concluded, and the reader is told which task."""
    found = find(Rows(entry("t", "full", floor=True), entry("t", floor=True)))
    assert "0.95" not in found.quality
    assert "t @ 2,048" in found.floors[0]


def test_floor_everywhere_concludes_nothing(entry):
    """A run whose every task is beyond the model names its arms and claims nothing."""
    found = find(Rows(entry("t", "full", floor=True), entry("t", floor=True)))
    assert found.quality.startswith("Nothing is concluded about specprefill-k10-lah8")
    assert found.latency is None


def test_no_shared_score_is_said_as_such(entry):
    """An arm that failed beside a full prefill that ran is not called unpaired."""
    nothing = {"mean": None, "low": None, "high": None, "reason": "failed"}
    found = find(Rows(entry("t", "full"), entry("t", score=nothing, delta={**nothing, **PAIRS})))
    assert "no example has a score both here and under full prefill" in found.quality


def test_the_fake_engine_is_owned_up_to(sweep):
    """Made-up answers are never passed off as measurements."""
    with open_report([str(sweep)]) as report:
        assert report.model_notes[0].startswith("No model ran")


def test_reference_alone_claims_nothing(entry):
    """A run of full prefill only has no comparison to report."""
    found = find(Rows(entry("t", "full")))
    assert "nothing to compare" in found.quality
    assert found.latency is None
    assert found.tiles == ()


def test_no_reference_reports_no_difference(entry):
    """With --no-reference there is no Δ, and the finding says so."""
    found = find(Rows(entry("t", delta=None, ttft_speedup=None)))
    assert "without a paired full prefill" in found.quality


def test_pooled_row_speaks_for_its_tasks(sweep):
    """The lead of a run with several tasks is the group's own average."""
    with open_report([str(sweep)]) as report:
        lead = find(report).quality
        assert "ruler (mean of 4 tasks, tasks weighing alike) at 1,024 tokens" in lead
        pooled = next(row for row in report.rows if row.pooled and not row.is_reference)
        assert isinstance(pooled, Row)
        assert f"(n = {pooled.n})" in lead


def test_a_reference_kernel_is_named_with_its_seconds(entry):
    """Neither as the lead nor in short does its TTFT pass for the method's own."""
    seconds = {"median": 5.0, "requests": 8, "kernel": "reference kernel"}
    rival = entry("t", "minference", arm="minference-k10", ttft_s=seconds)
    alone = find(Rows(entry("t", "full"), rival))
    assert "with a reference kernel" in alone.latency
    (short,) = find(Rows(entry("t", "full"), entry("t"), rival)).more
    assert "TTFT with a reference kernel" in short
    real = entry("t", "minference", ttft_s={**seconds, "kernel": "vLLM sparse kernel"})
    assert "kernel" not in find(Rows(entry("t", "full"), real)).latency
