"""Benchmarks of the method itself, apart from tasks and quality."""
