"""The vLLM engine: unmodified vLLM with tokens at their original positions."""
