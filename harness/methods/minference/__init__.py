"""MInference: sparse attention for the prefill, dense attention for decoding.

Source: Jiang et al. 2024, "MInference 1.0" (arXiv:2407.02490).
"""

from harness.methods.minference.method import MInference

__all__ = ["MInference"]
