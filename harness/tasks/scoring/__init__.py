"""Metrics that score as the benchmarks' official code does; pure functions of text."""
