"""SnapKV: full prefill, then a pruned key-value cache for decoding."""
