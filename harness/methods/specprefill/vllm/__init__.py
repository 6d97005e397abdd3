"""SpecPrefill inside unmodified vLLM: workers, the speculator, and the switch for plain scripts."""
