"""From a store to statements: statistics, a run's rows, the gate, calibration, power."""
