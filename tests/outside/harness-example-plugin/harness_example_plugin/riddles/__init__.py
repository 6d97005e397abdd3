"""The task's folder, which the entry point names."""
