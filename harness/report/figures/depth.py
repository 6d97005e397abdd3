"""Where in the prompt the needle was, against the keep rate: a heat map of the mean score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.report import formats
from harness.report.figures.style import LIGHT, DataTable, Figure, drawing, new_canvas, to_svg

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from harness.report.source import Report, RunView

KEY = "depth"
TITLE = "Needle depth and keep rate"
HEADERS = ("arms", "depth", "keep", "mean score", "n")
BANDS = 10
MAX_PANELS = 4
FULL = 1.0  # full prefill stands as the right-most column


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Mean score and number of examples by depth band and keep rate."""

    name: str
    keeps: tuple[float, ...]
    cells: Mapping[tuple[int, float], tuple[float, int]]


def draw(report: Report) -> Figure:
    """Draw a map for each series of arms."""
    maps = [found for run in report.runs for found in _maps(run)]
    if not maps:
        return Figure(KEY, TITLE, reason="no task of this run records its needle's depth")
    shown = maps[:MAX_PANELS]
    columns = min(2, len(shown))
    with drawing():
        canvas, axes = new_canvas(columns, -(-len(shown) // columns), height=3.9)
        for axis, heat in zip(axes, shown, strict=False):
            _heat(axis, heat)
        for axis in axes[len(shown) :]:
            axis.set_visible(False)
        svg = to_svg(canvas, KEY, f"{TITLE}, {len(shown)} maps; the numbers follow as a table")
    caption = (
        "Mean score by the needle's place (0 % is the prompt's start) and the keep rate, over "
        "every single-needle task (floor tasks left out), length and seed; small figures are n. "
        f"{report.setting_sentence}"
    )
    if len(shown) < len(maps):
        caption += f" The first {MAX_PANELS} of {len(maps)} maps are drawn."
    return Figure(KEY, TITLE, caption, svg, DataTable(HEADERS, _table(maps)))


def _maps(run: RunView) -> list[HeatMap]:
    scores = _scores(run)
    if scores is None:
        return []
    full = {c.cell_id: FULL for c in run.cells if c.method == "full"}
    series: dict[str, dict[str, float]] = {}
    for cell in run.cells:
        if cell.method != "full" and cell.keep is not None:
            series.setdefault(cell.series, dict(full))[cell.cell_id] = cell.keep
    found = []
    for name, keeps in series.items():
        part = scores[scores["cell_id"].isin(keeps)]
        grouped = part.groupby([part["band"], part["cell_id"].map(keeps)])["score"]
        table = grouped.agg(["mean", "count"])
        cells = {
            (int(band), float(keep)): (float(mean), int(count))
            for (band, keep), mean, count in zip(
                table.index, table["mean"], table["count"], strict=True
            )
        }
        title = name if run.label is None else f"{name} [{run.label}]"
        if cells:
            found.append(HeatMap(title, tuple(sorted({keep for _, keep in cells})), cells))
    return found


def _scores(run: RunView) -> pd.DataFrame | None:
    """Scores of the examples whose depth is known, with their depth band; None without any."""
    # Where full prefill fails too, depth and keep rate decide nothing.
    floor = {(row.task, row.length or 0) for row in run.rows if row.floor}
    examples = run.examples
    places = zip(examples["task"], examples["length"].fillna(0).astype(int), strict=True)
    depths = {
        example: depth
        for example, place, facts in zip(
            examples["example_id"], places, examples["facts"], strict=True
        )
        if place not in floor and (depth := _depth(facts)) is not None
    }
    if not depths:
        return None
    frame = run.quality
    frame = frame[frame["example_id"].isin(depths)][["cell_id", "example_id", "score"]].dropna()
    band = (frame["example_id"].map(depths).astype(float) * BANDS).clip(0, BANDS - 1)
    return frame.assign(band=band.astype(int))


def _depth(facts: object) -> float | None:
    """Depth of a single needle in [0, 1]; None where there are several or none."""
    value = facts.get("depth") if isinstance(facts, dict) else None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return float(value) if isinstance(value, int | float) else None


def _heat(axis: Axes, heat: HeatMap) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    ramp = colormaps["viridis"]
    places = {keep: x for x, keep in enumerate(heat.keeps)}
    for (band, keep), (mean, count) in heat.cells.items():
        x = places[keep]
        axis.add_patch(Rectangle((x, band), 1, 1, fc=ramp(mean), ec=LIGHT["page"], lw=1.2))
        style: Any = {
            "ha": "center",
            "va": "center",
            "color": "#ffffff" if mean < 0.45 else "#000000",
        }
        axis.text(x + 0.5, band + 0.42, f"{mean:.2f}", **style)
        axis.text(x + 0.5, band + 0.8, str(count), size=6.5, **style)
    axis.set_xlim(0, len(heat.keeps))
    axis.set_ylim(BANDS, 0)
    axis.set_xticks([x + 0.5 for x in places.values()], [_keep(keep) for keep in places])
    axis.set_yticks(range(0, BANDS + 1, 2), [f"{10 * d} %" for d in range(0, BANDS + 1, 2)])
    axis.set(title=heat.name, xlabel="requested keep", ylabel="needle depth")
    axis.grid(visible=False)
    for spine in axis.spines.values():
        spine.set_color(LIGHT["page"])


def _keep(keep: float) -> str:
    return "full" if keep == FULL else f"{100 * keep:g} %"


def _table(maps: Sequence[HeatMap]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            heat.name,
            f"{100 * band // BANDS}–{100 * (band + 1) // BANDS} %",
            _keep(keep),
            formats.number(mean),
            str(count),
        )
        for heat in maps
        for (band, keep), (mean, count) in sorted(heat.cells.items())
    )
