"""The report's figures, in the order in which they are read; one module a figure."""

FIGURES = {
    "quality-keep": "harness.report.figures.quality_keep",
    "ttft-stages": "harness.report.figures.ttft_stages",
    "pareto": "harness.report.figures.pareto",
    "forest": "harness.report.figures.forest",
    "depth": "harness.report.figures.depth",
    "look-ahead": "harness.report.figures.look_ahead",
}
"""Key → module with ``draw(report: Report) -> Figure``."""
