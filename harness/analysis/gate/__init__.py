"""The CI gate: a run against committed per-example scores, with a verdict an arm and an exit code.

:mod:`~harness.analysis.gate.collect` reads a run, :mod:`~harness.analysis.gate.baseline` a baseline
file (both are the same cells), :mod:`~harness.analysis.gate.quality` and
:mod:`~harness.analysis.gate.ttft` judge, :mod:`~harness.analysis.gate.report` holds the result,
:mod:`~harness.analysis.gate.render`, :mod:`~harness.analysis.gate.junit` and
:mod:`~harness.analysis.gate.github` show it.
"""
