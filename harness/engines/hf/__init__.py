"""The transformers engine: the reference implementation, and the engine of KV strategies."""
