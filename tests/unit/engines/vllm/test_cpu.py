"""What is set up before vLLM starts on a CPU."""

from __future__ import annotations

import os

import pytest

from harness.engines.vllm import cpu


@pytest.fixture
def four_cores(monkeypatch):
    """A process that may use cores 2, 3, 6 and 7."""
    monkeypatch.setattr(cpu, "usable_cores", lambda: [2, 3, 6, 7])


@pytest.mark.parametrize(
    ("ranks", "binding"), [(1, "2,3,6,7"), (2, "2,6|3,7"), (5, "|".join(["2,3,6,7"] * 5))]
)
def test_cores_are_dealt_out_to_ranks(four_cores, ranks, binding):
    """Every rank has its own cores; more ranks than cores share all of them."""
    assert cpu.thread_binding(ranks) == binding


def test_usable_cores_are_those_of_this_process():
    """Never a core that the process may not run on, and at least one."""
    assert set(cpu.usable_cores()) <= os.sched_getaffinity(0)
    assert cpu.usable_cores()


def test_users_own_values_win(monkeypatch):
    """What is set already stays, a preloaded OpenMP included."""
    monkeypatch.setattr(os, "environ", {"OMP_WAIT_POLICY": "active", "LD_PRELOAD": "/x/libgomp.so"})
    cpu.prepare_environment()
    assert os.environ["OMP_WAIT_POLICY"] == "active"
    assert "libiomp5" not in os.environ["LD_PRELOAD"]
    assert os.environ["LD_PRELOAD"].endswith("/x/libgomp.so")
    assert os.environ["VLLM_LOGGING_STREAM"] == "ext://sys.stderr"


def test_second_call_changes_nothing(monkeypatch):
    """Preloads are not stacked."""
    monkeypatch.setattr(os, "environ", {})
    cpu.prepare_environment()
    first = dict(os.environ)
    cpu.prepare_environment()
    assert os.environ == first


def test_report_names_a_mend_for_what_is_missing(monkeypatch):
    """Each missing preload comes with the command that installs it."""
    monkeypatch.setattr(cpu, "find_intel_openmp", lambda: None)
    monkeypatch.setattr(cpu, "find_tcmalloc", lambda: None)
    report = cpu.report()
    assert report["preload"] == {"libiomp5": None, "tcmalloc": None}
    assert "install" in report["missing"]["tcmalloc"]
