"""``harness calibrate``: choose a keep rate on one half of the data, judge it on the other.

The answer to "the keep rate was fixed after seeing the results": :mod:`~harness.calibrate.split`
divides the contexts by a hashed seed, :mod:`~harness.calibrate.ladder` finds the keep rates of
one arm, :mod:`~harness.calibrate.choose` tests them in a fixed sequence on the calibration half
and reports on the held-out half only.
"""
