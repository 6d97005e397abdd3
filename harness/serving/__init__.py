"""vLLM's own OpenAI-compatible server with SpecPrefill inside."""
