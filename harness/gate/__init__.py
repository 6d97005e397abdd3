"""The CI gate: a run against committed per-example scores, with a verdict an arm and an exit code.

:mod:`~harness.gate.collect` reads a run, :mod:`~harness.gate.baseline` a baseline file (both are
the same cells), :mod:`~harness.gate.quality` and :mod:`~harness.gate.ttft` judge,
:mod:`~harness.gate.report` holds the result, :mod:`~harness.gate.render`,
:mod:`~harness.gate.junit` and :mod:`~harness.gate.github` show it.
"""
