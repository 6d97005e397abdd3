"""Names beside points, only where they cover nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PLACES = (
    (8, 4, "left"),
    (8, -12, "left"),
    (-8, 4, "right"),
    (-8, -12, "right"),
    (0, 18, "center"),
)
"""Offsets in points to try, in this order, with the text's alignment."""

_RADIUS = 7.0  # pixels around a point that a name must not cover


def name_points(
    axis: Axes, named: Sequence[tuple[float, float, str]], points: Sequence[tuple[float, float]]
) -> None:
    """Write each name at the first place that is free; a name without one is left out.

    Parameters
    ----------
    named
        Coordinates and names, the most important first.
    points
        Every point of the panel, in data coordinates. The figure must have been laid out.
    """
    from matplotlib.transforms import Bbox

    taken = [
        Bbox.from_extents(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS)
        for x, y in (axis.transData.transform(point) for point in points)
    ]
    frame = axis.get_window_extent()
    for x, y, name in named:
        for dx, dy, alignment in _PLACES:
            text = axis.annotate(
                name,
                (x, y),
                xytext=(dx, dy),
                textcoords="offset points",
                ha=alignment,
                fontsize=8.5,
            )
            # A constrained layout would make room for names; they are to use what is there.
            text.set_in_layout(False)
            area = text.get_window_extent()
            inside = frame.x0 <= area.x0 and area.x1 <= frame.x1 and area.y1 <= frame.y1
            if inside and not area.count_overlaps(taken):
                taken.append(area)
                break
            text.remove()
