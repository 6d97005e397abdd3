"""Statistics over stored scores and timings: paired, clustered, seeded; no model, no engine.

One idea a file; ``docs/statistics.md`` explains each with its source. Everything here works on
arrays and knows nothing of stores: :mod:`harness.analysis.summary`, :mod:`harness.analysis.gate`,
:mod:`harness.analysis.power` and :mod:`harness.analysis.calibrate` bring the records.
"""
