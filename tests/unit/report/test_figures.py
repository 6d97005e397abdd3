"""The figures: what they show, and that they can be read by everybody."""

import itertools
import re
import xml.etree.ElementTree as ET
from importlib import import_module

import pytest
from synthetic import Arm, build_store

from harness.report.figures import FIGURES
from harness.report.figures.pareto import front
from harness.report.figures.style import DARK, LIGHT, MARKERS, colours
from harness.report.figures.ttft_stages import break_even
from harness.report.panels import MAX_PANELS, panels
from harness.report.source import open_report


@pytest.fixture(scope="module")
def drawn(sweep):
    """Every figure of the sweep, by key."""
    with open_report([str(sweep)]) as report:
        return {key: import_module(name).draw(report) for key, name in FIGURES.items()}


@pytest.mark.parametrize("key", FIGURES)
def test_every_figure_of_a_sweep_is_drawn_with_its_numbers(drawn, key):
    """A full sweep leaves no figure out; each has a label, a caption and a table."""
    figure = drawn[key]
    assert figure.reason is None
    root = ET.fromstring(figure.svg)
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert figure.data.rows
    assert all(len(row) == len(figure.data.headers) for row in figure.data.rows)
    assert "made-up" in figure.caption  # the model
    assert "2,048" in figure.caption  # the length


@pytest.mark.parametrize("key", FIGURES)
def test_a_single_cell_run_has_every_figure_or_a_reason(single, key):
    """One task, one keep rate, one block: nothing fails, and what is absent says why."""
    with open_report([str(single)]) as report:
        figure = import_module(FIGURES[key]).draw(report)
    assert (figure.svg is None) == (figure.reason is not None)
    if key in {"quality-keep", "ttft-stages", "pareto", "forest"}:
        assert figure.svg is not None


def test_figures_are_the_same_bytes_every_time(sweep, drawn):
    """Ids and dates do not vary from one drawing to the next."""
    with open_report([str(sweep)]) as report:
        for key, name in FIGURES.items():
            assert import_module(name).draw(report).svg == drawn[key].svg


def test_no_two_figures_share_an_id(drawn):
    """Inline drawings of one page must not clip each other."""
    ids = [re.findall(r'\bid="([^"]+)"', figure.svg) for figure in drawn.values()]
    for one, other in itertools.combinations(ids, 2):
        assert not set(one) & set(other)
    for figure in drawn.values():
        known = set(re.findall(r'\bid="([^"]+)"', figure.svg))
        assert set(re.findall(r'(?:href="|url\()#([^")]+)', figure.svg)) <= known


def test_colours_follow_the_page(drawn):
    """Every palette colour is a variable, so that dark pages and print recolour the drawing."""
    for figure in drawn.values():
        for colour in LIGHT.values():
            assert not re.search(rf"(?<!, ){colour}", figure.svg)


def test_text_stays_text(drawn):
    """Labels are searchable and read aloud; only the drawing is shapes."""
    assert ">specprefill-k10-lah8</text>" in drawn["forest"].svg


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio (WCAG 2.2)."""
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_contrast_meets_wcag(palette):
    """Text reaches 4.5 : 1 and marks 3 : 1 against the page, in both themes."""
    assert contrast(palette["ink"], palette["page"]) >= 7
    assert contrast(palette["muted"], palette["page"]) >= 4.5
    for number in range(8):
        assert contrast(palette[f"s{number}"], palette["page"]) >= 3


# Linear-RGB matrices of complete colour blindness (Viénot, Brettel, Mollon 1999).
BLINDNESS = {
    "protan": ((0.11238, 0.88762, 0), (0.11238, 0.88762, 0), (0.00401, -0.00401, 1)),
    "deutan": ((0.29275, 0.70725, 0), (0.29275, 0.70725, 0), (-0.02234, 0.02234, 1)),
}


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_first_series_stay_apart_for_the_colour_blind(palette, kind):
    """Full prefill and the first three methods differ visibly under red-green blindness."""
    seen = []
    for number in range(4):
        channels = [int(palette[f"s{number}"][i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c**2.2 for c in channels]
        mixed = [sum(m * c for m, c in zip(row, linear, strict=True)) for row in BLINDNESS[kind]]
        seen.append([max(0.0, value) ** (1 / 2.2) for value in mixed])
    for one, other in itertools.combinations(seen, 2):
        assert sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5 > 0.1


def test_no_two_methods_share_colour_and_marker():
    """Even more methods than colours can be told apart."""
    looks = colours([f"method-{n}" for n in range(7 * len(MARKERS))])
    assert len(set(looks.values())) == len(looks)


def entries(entry, **by_length):
    """Full prefill and one arm at lengths, with (full, arm) seconds."""
    made = []
    for name, (full, arm) in by_length.items():
        length = int(name.removeprefix("at"))
        made.append(entry("t", "full", length=length, ttft_s={"median": full}))
        made.append(entry("t", length=length, ttft_s={"median": arm}))
    return made


def test_break_even_is_interpolated_between_measured_lengths(entry):
    """From 0.1 s behind at 1,000 to 0.3 s ahead at 2,000 tokens the lines cross at 1,250."""
    (sentence,) = break_even(entries(entry, at1000=(1.0, 1.1), at2000=(2.0, 1.7)))
    assert "break-even near 1,250 tokens" in sentence


def test_break_even_needs_two_lengths(entry):
    """One length says sooner or later and that it cannot say where the lines cross."""
    (sentence,) = break_even(entries(entry, at1000=(1.0, 0.5)))
    assert "sooner than full prefill at 1,000 tokens" in sentence
    assert "needs two lengths" in sentence


@pytest.mark.parametrize(
    ("arm", "words"), [((0.5, 0.5), "sooner than full"), ((1.5, 2.5), "later than full")]
)
def test_no_crossing_is_said_as_such(entry, arm, words):
    """An arm that is always ahead or always behind gets no made-up break-even length."""
    (sentence,) = break_even(entries(entry, at1000=(1.0, arm[0]), at2000=(2.0, arm[1])))
    assert words in sentence
    assert "break-even" not in sentence


def test_front_holds_exactly_what_nothing_beats(entry):
    """Arms beaten on both axes leave the front; equal speed keeps the better score."""
    made = [
        entry("t", arm=name, ttft_s={"median": ttft}, score={"mean": score})
        for name, ttft, score in (
            ("fast", 1, 0.5), ("beaten", 2, 0.4), ("good", 2, 0.9),
            ("tie", 1, 0.3), ("slow", 3, 0.9),
        )
    ]  # fmt: skip
    assert [row.arm for row in front(made)] == ["fast", "good"]


def test_budget_kinds_never_share_a_panel(entry):
    """A share of attention pairs is no share of tokens: arms of both kinds stand apart."""
    rows = [
        entry("t", "full"),
        entry("t", arm="a", budget_kind="tokens"),
        entry("t", arm="b", budget_kind="attention"),
    ]
    found, note = panels(rows, lambda row: True, by_budget=True)
    assert [[row.arm for row in panel.rows] for panel in found] == [["full", "a"], ["full", "b"]]
    assert note == ""


def test_arms_of_like_names_are_curves_of_their_own(tmp_path):
    """A number in a user's name is no keep rate: two arms stay two curves, in every figure."""
    arms = [
        Arm(f"{name}-k{keep:g}-lah{depth}", keep=keep / 100, look_ahead=depth, given=name)
        for name in ("my-k2-arm", "my-k4-arm")
        for keep in (10, 30)
        for depth in (1, 8)
    ]
    with open_report([str(build_store(tmp_path / "run", arms=arms))]) as report:
        drawn = {key: import_module(name).draw(report) for key, name in FIGURES.items()}
    for name in ("my-k2-arm-lah1", "my-k2-arm-lah8", "my-k4-arm-lah1", "my-k4-arm-lah8"):
        assert f">{name}</text>" in drawn["quality-keep"].svg
        assert any(row[0] == name for row in drawn["depth"].data.rows)
    curves = {row[1].rpartition(" · ")[2] for row in drawn["look-ahead"].data.rows}
    assert curves == {
        f"{name} at keep {keep}" for name in ("my-k2-arm", "my-k4-arm") for keep in (0.1, 0.3)
    }


def test_left_out_panels_are_counted(entry):
    """What does not fit is said, not dropped silently."""
    made = [entry(f"t{n}") for n in range(MAX_PANELS + 3)]
    found, note = panels(made, lambda row: True)
    assert len(found) == MAX_PANELS
    assert "3 further panels" in note


def test_a_reference_kernel_has_no_place_among_the_fast(drawn):
    """Its bar says what it is; it is on no front and has no break-even."""
    pareto, bars = drawn["pareto"], drawn["ttft-stages"]
    assert not any("minference-k10" in row for row in pareto.data.rows)
    assert "Not shown, timed with a reference kernel: minference-k10." in pareto.caption
    assert any("minference-k10 (reference kernel)" in row for row in bars.data.rows)
    assert "minference-k10" not in bars.caption
