"""For every test: threads that wait do not spin, and nothing reaches for the network."""

from __future__ import annotations

import os

# Read by OpenMP when torch is imported, which is after this.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
