"""``harness calibrate``: choose a keep rate on one half of the data, judge it on the other.

The answer to "the keep rate was fixed after seeing the results":
:mod:`~harness.analysis.calibrate.split` divides the contexts by a hashed seed,
:mod:`~harness.analysis.calibrate.keep_rates` finds the keep rates of one arm,
:mod:`~harness.analysis.calibrate.choose` tests them in a fixed sequence on the calibration half and
reports on the held-out half only.
"""
