"""How every figure is drawn: one palette for light and dark, text as text, the same bytes always.

Figures are drawn once, by matplotlib, in the light palette. In the SVG each palette colour then
becomes ``var(--name, #light)``, so that the page's style sheet recolours the same drawing for a
dark page and for print. Text stays text (searchable, read by screen readers, in the page's font).
"""

from __future__ import annotations

import html
import io
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.report import formats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

LIGHT = {
    "ink": "#1b1f24",
    "muted": "#565e69",
    "rule": "#d5d9df",
    "page": "#fdfdfc",
    "s0": "#4a4f57",
    "s1": "#0a62a9",
    "s2": "#c24e00",
    "s3": "#00785a",
    "s4": "#a3437f",
    "s5": "#7a6200",
    "s6": "#2a87b8",
    "s7": "#7353ba",
}
"""Palette of the light page: blues, oranges and greens that stay apart under the common kinds of
colour blindness, each at least 3 : 1 against the page. ``s0`` is full prefill everywhere."""

DARK = {
    "ink": "#e8eaed",
    "muted": "#a2a9b4",
    "rule": "#3a414b",
    "page": "#15181c",
    "s0": "#b9bec7",
    "s1": "#6cb6f5",
    "s2": "#ff9d5c",
    "s3": "#42c79b",
    "s4": "#ea9fcb",
    "s5": "#dcc04a",
    "s6": "#9bdcfa",
    "s7": "#bca4f3",
}
"""The same names on the dark page."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Shapes beside the colours: no figure says anything by colour alone."""

DASHES = ("-", "--", "-.", ":")

_RC: Any = {  # matplotlib's stubs want its 300 literal keys here
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same widths on every machine
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": LIGHT["muted"],
    "axes.edgecolor": LIGHT["rule"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LIGHT["rule"],
    "grid.linewidth": 0.6,
    "text.color": LIGHT["ink"],
    "xtick.color": LIGHT["muted"],
    "ytick.color": LIGHT["muted"],
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6.5,
    "lines.markeredgewidth": 0.6,
    "text.parse_math": False,  # a dollar sign in a task's name is a dollar sign
}

_FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class DataTable:
    """A figure's numbers, for readers who cannot see it or want them exactly."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the report, or the reason why the run has none.

    Attributes
    ----------
    key
        Names the figure in links and ids.
    caption
        Says what is seen, on which batch, length, keep rate and model.
    svg
        The drawing; None where ``reason`` says what is missing.
    """

    key: str
    title: str
    caption: str = ""
    svg: str | None = None
    data: DataTable = field(default_factory=lambda: DataTable((), ()))
    reason: str | None = None


@contextmanager
def drawing() -> Iterator[None]:
    """Apply the style while a figure is built and written."""
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        # The page's own font draws the text: what DejaVu lacks (CJK, say) is no fault here.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def new_canvas(
    columns: int = 1, rows: int = 1, *, width: float = 8.4, height: float = 3.4
) -> tuple[Canvas, list[Axes]]:
    """Return a figure with a grid of axes, ``height`` inches a row; unused axes stay blank."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(width, height * rows), layout="constrained")
    grid = canvas.subplots(rows, columns, squeeze=False)
    return canvas, list(grid.flat)


def to_svg(canvas: Canvas, key: str, label: str) -> str:
    """Write a figure as an inline SVG element.

    Ids are salted with ``key`` and prefixed by it: figures on one page never share one.

    Parameters
    ----------
    label
        What a screen reader says in place of the drawing.
    """
    import matplotlib as mpl

    mpl.rcParams["svg.hashsalt"] = key
    raw = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    canvas.savefig(raw, format="svg", metadata=nothing, transparent=True)
    svg = raw.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\bid="', f'id="{key}-', svg)
    svg = re.sub(r'(xlink:href="|url\()#', rf"\1#{key}-", svg)
    for name, colour in LIGHT.items():
        svg = svg.replace(colour, f"var(--{name}, {colour})")
    svg = svg.replace("'DejaVu Sans'", _FONT.replace('"', "'"))
    return _labelled(formats.visible(svg), formats.visible(label))


def _labelled(svg: str, label: str) -> str:
    """Give the root element its role and label; the page sets its width."""
    head, rest = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]+"', head)
    assert box is not None  # matplotlib always writes one
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'{box.group()} role="img" aria-label="{html.escape(label)}">{rest.strip()}'
    )


def wrapped(title: str, columns: int) -> str:
    """Break a panel's title so that it fits a figure of ``columns`` panels."""
    return "\n".join(textwrap.wrap(title, 84 // columns, break_long_words=True)[:3])


def colours(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Give each method its colour and marker: ``full`` always the same grey, the rest in order.

    There are seven colours and eight markers: 56 methods share a colour or a marker, never both.
    """
    found = {"full": (LIGHT["s0"], MARKERS[0])}
    series = [LIGHT[f"s{n}"] for n in range(1, 8)]
    for name in dict.fromkeys(names):
        if name not in found:
            position = len(found) - 1
            found[name] = (
                series[position % len(series)],
                MARKERS[(1 + position) % len(MARKERS)],
            )
    return found
