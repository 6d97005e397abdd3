"""Statistics over stored scores and timings: paired, clustered, seeded; no model, no engine.

One idea a file; ``docs/statistics.md`` explains each with its source. Everything here works on
arrays and knows nothing of stores: :mod:`harness.summary`, :mod:`harness.gate`,
:mod:`harness.plan_power` and :mod:`harness.calibrate` bring the records.
"""
