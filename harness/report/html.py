"""The HTML report: one self-contained file that loads nothing and trusts nothing it shows.

Everything that comes from a model, a data set or a configuration is escaped by Jinja and has its
control and direction-changing characters spelt out. Beyond that, the page's own content security
policy lets no script run but the one inline script whose hash it names, and no request leave.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import import_module
from typing import TYPE_CHECKING, Any

from harness.analysis.floor import FLOOR_MEANS
from harness.analysis.summary.notes import silent_notice, some
from harness.paths import package_or_checkout
from harness.report import formats, paper
from harness.report.figures import FIGURES
from harness.report.figures.style import DARK, LIGHT, Figure
from harness.report.finding import find
from harness.report.pages.browser import OUTCOMES, browse
from harness.report.pages.categories import sections
from harness.report.pages.methods import method_rows
from harness.report.pages.provenance import provenance
from harness.report.pages.receipts import receipt_rows
from harness.report.pages.times import BAND_HEADERS, band_rows, time_caption, time_rows
from harness.report.pages.times import HEADERS as TIME_HEADERS
from harness.report.source import Report
from harness.report.verdicts import session_note, verdict_blocks
from harness.run.provenance import version

if TYPE_CHECKING:
    from jinja2 import Environment

_LIGHT_ONLY = {
    "line": "#8b929c",
    "tint": "#f1f4f7",
    "warn-tint": "#fdf1e7",
    "kept": "#dcebf8",
}
_DARK_ONLY = {
    "line": "#727a86",
    "tint": "#1e242b",
    "warn-tint": "#33261c",
    "kept": "#1d3a54",
}


def render_html(report: Report) -> str:
    """Return the report as one HTML document; the same records give the same text."""
    from markupsafe import Markup

    environment = _environment()
    style = environment.get_template("report.css.j2").render(
        light=Markup(_variables(LIGHT | _LIGHT_ONLY)), dark=Markup(_variables(DARK | _DARK_ONLY))
    )
    script = _source(environment, "report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    pairs = list(dict.fromkeys(formats.arm_label(row) for row in report.rows))
    return environment.get_template("report.html.j2").render(
        title=title(report),
        style=Markup(style),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
        version=version(),
        fmt=formats,
        setting=report.setting_sentence,
        model_notes=report.model_notes,
        notice=silent_notice(report.rows),
        finding=find(report),
        rows=report.rows,
        sections=sections(report),
        times=time_rows(report.rows),
        time_headers=TIME_HEADERS,
        time_caption=time_caption(report.rows),
        bands=band_rows(report.rows),
        band_headers=BAND_HEADERS,
        verdicts=verdict_blocks(report),
        session_note=session_note(report.rows),
        arms=[_pair(arm) for arm in pairs],
        tasks=[_pair(task) for task in dict.fromkeys(row.task for row in report.rows)],
        remarks=list(formats.numbered(report.rows)),
        floor_means=FLOOR_MEANS,
        figures=[_safe(import_module(module).draw(report)) for module in FIGURES.values()],
        receipts=receipt_rows(report),
        methods=method_rows(report),
        paper=paper.compare(report) if report.comparison == "paper" else None,
        browser=browse(report),
        outcomes=list(OUTCOMES.items()),
        provenance=provenance(report),
    )


def title(report: Report) -> str:
    """``specprefill-k10-lah8 against full prefill · ruler``, shortened where there are many."""
    arms = dict.fromkeys(row.arm for row in report.rows if not row.is_reference)
    groups = dict.fromkeys(row.group for row in report.rows)
    tasks = dict.fromkeys(row.task for row in report.rows if not row.pooled)
    against = " against full prefill" if any(row.is_reference for row in report.rows) else ""
    what = some(list(arms)) if arms else "full prefill"
    return f"{what}{against if arms else ''} · {some(list(tasks if len(tasks) < 3 else groups))}"


def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def spell_out(value: Any) -> Any:
        is_text = isinstance(value, str) and not isinstance(value, Markup)
        return formats.visible(value) if is_text else value

    environment = Environment(
        loader=FileSystemLoader(package_or_checkout("reports/templates")),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=spell_out,
        trim_blocks=False,
        keep_trailing_newline=False,
    )
    environment.filters["pair"] = _pair
    environment.filters["position"] = lambda text, texts: texts.index(text) + 1
    return environment


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0].strip()


def _variables(palette: dict[str, str]) -> str:
    return "\n".join(f"    --{name}: {colour};" for name, colour in palette.items())


def _pair(value: str) -> tuple[str, str]:
    return value, value


def _safe(figure: Figure) -> Figure:
    """Mark a drawing as markup: matplotlib has escaped the text in it."""
    from dataclasses import replace

    from markupsafe import Markup

    return figure if figure.svg is None else replace(figure, svg=Markup(figure.svg))
