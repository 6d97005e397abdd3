"""The HTML report in a real, headless Chromium, with the network off."""

import sqlite3
import time

import pytest
from chromium import chromium, executable
from synthetic import Arm, Task, build_store

from harness.report.render import render

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        executable() is None,
        reason="no Chromium on this machine (Debian: apt-get install chromium)",
    ),
]

PAPER_WIDTH = 688  # CSS pixels between the margins of A4: 182 mm at 96 dpi

HOSTILE = (
    "<script>document.title='owned'</script>",
    "</style></script><img src=x onerror=\"document.title='owned'\">",
    "<a href=\"javascript:document.title='owned'\">x</a>",
    '" autofocus onfocus="document.title=\'owned\'" x="',
    '<svg onload="document.title=1"><iframe srcdoc="<script>top.document.title=1</script>">',
    "\u202egnp.exe \u2066",
    "A" * 1_000_000,
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Folder of the rendered pages."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One browser for every test here."""
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser):
    """The browser's tab, with what it noted forgotten."""
    browser.errors.clear()
    browser.requests.clear()
    browser.emulate()
    return browser


@pytest.fixture(scope="module")
def report(files):
    """A page with two tasks, two lengths and two arms."""
    tasks = [
        Task(name, category=category, length=length, n=8, full_rate=0.9)
        for name, category in (("ruler_niah_single_1", "retrieval"), ("ruler_vt", "tracing"))
        for length in (1024, 2048)
    ]
    arms = [
        Arm("specprefill-k10", loss=0.4),
        Arm("random-k10", "random", 0.1, None, loss=0.9, speed_up=5),
    ]
    run = build_store(files / "run", tasks=tasks, arms=arms)
    path = files / "report.html"
    path.write_text(render([str(run)], "html", "paper"), encoding="utf-8")
    return path


def choose(page, select, value):
    """Choose an option as a user would."""
    page.evaluate(
        f"(() => {{ const s = document.getElementById({select!r}); s.value = {value!r};"
        " s.dispatchEvent(new Event('change')); })()"
    )


def shown(page, selector):
    """How many elements are visible."""
    return page.evaluate(
        f"[...document.querySelectorAll({selector!r})].filter(e => e.checkVisibility()).length"
    )


def test_opens_offline_without_a_complaint(page, report):
    """No console error, no exception, and no request but the file itself."""
    page.open(report)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.errors == []
    assert page.requests == [report.as_uri()]


def test_a_single_cell_run_is_whole(page, files):
    """Case 33: one task, one keep rate, five examples: two rows, n 5 each, figures drawn."""
    run = build_store(files / "single", tasks=[Task(length=1024, n=5)], blocks=1)
    path = files / "single.html"
    path.write_text(render([str(run)], "html"), encoding="utf-8")
    page.open(path)
    rows = "[...document.querySelectorAll('#results-table tr[data-row]')]"
    assert page.evaluate(f"{rows}.map(r => r.cells[2].innerText)") == ["5", "5"]
    assert shown(page, "figure svg") >= 4
    assert page.errors == []


def test_row_filters_narrow_the_table(page, report):
    """Choosing arm and task leaves their rows, says how many, and hides emptied categories."""
    page.open(report)
    every = shown(page, "tr[data-row]")
    choose(page, "row-arm", "random-k10")
    choose(page, "row-task", "ruler_vt")
    assert shown(page, "tr[data-row]") == 2  # two lengths
    assert page.evaluate("document.getElementById('row-count').textContent") == f"2 of {every} rows"
    assert shown(page, "tr.heading") == 1
    choose(page, "row-arm", "")
    choose(page, "row-task", "")
    assert shown(page, "tr[data-row]") == every


def test_columns_sort_both_ways_inside_their_category(page, report):
    """A header's button sorts by value, missing last, and says the direction."""
    page.open(report)
    click = "document.querySelectorAll('#results-table thead button')[4].click()"
    values = (
        "[...document.querySelector('#results-table tbody').querySelectorAll('tr[data-row]')]"
        ".map(r => Number(r.cells[4].querySelector('data').value))"
    )
    page.evaluate(click)
    assert page.evaluate(values) == sorted(page.evaluate(values))
    direction = "document.querySelectorAll('#results-table thead th')[4].getAttribute('aria-sort')"
    assert page.evaluate(direction) == "ascending"
    page.evaluate(click)
    assert page.evaluate(values) == sorted(page.evaluate(values), reverse=True)
    assert page.evaluate(direction) == "descending"
    first = "document.querySelector('#results-table tbody').rows[0].className"
    assert page.evaluate(first) == "heading"


def test_samples_filter_by_outcome(page, report):
    """The outcome filter leaves what it names, and an empty list says so in words."""
    page.open(report)
    lost = page.evaluate("document.querySelectorAll('.sample[data-outcome=lost]').length")
    assert lost > 0
    choose(page, "sample-outcome", "lost")
    choose(page, "sample-arm", "specprefill-k10")
    assert 0 < shown(page, ".sample") < lost
    assert shown(page, "#no-samples") == 0
    choose(page, "sample-outcome", "gained")
    assert shown(page, ".sample") == 0
    assert shown(page, "#no-samples") == 1


def test_samples_open_by_keyboard(page, report):
    """A sample is reached and opened without a pointer, and shows both answers."""
    page.open(report)
    page.evaluate("document.querySelector('.sample summary').focus()")
    page.press("Enter", 13)
    assert page.evaluate("document.querySelector('.sample').open")
    assert shown(page, ".sample[open] .answer") == 2


def test_a_prompt_opens_at_its_evidence(page, report):
    """The gold evidence of a long prompt is in view without scrolling."""
    page.open(report)
    page.evaluate("document.querySelector('.prompt').style.maxHeight = '3rem'")
    page.evaluate("document.querySelector('.sample summary').click()")
    visible = (
        "(() => { const p = document.querySelector('.prompt').getBoundingClientRect();"
        " const m = document.querySelector('.prompt mark').getBoundingClientRect();"
        " return m.top >= p.top && m.top <= p.bottom; })()"
    )
    deadline = time.monotonic() + 10
    while not page.evaluate(visible):
        assert time.monotonic() < deadline


def test_the_first_stop_of_the_keyboard_skips_to_the_results(page, report):
    """Tab shows the skip link first; sorting buttons and scroll regions can be focused."""
    page.open(report)
    page.press("Tab", 9)
    assert page.evaluate("document.activeElement.className") == "skip"
    reachable = "[...document.querySelectorAll('[role=region]')].every(e => e.tabIndex === 0)"
    assert page.evaluate(reachable)


def test_dark_and_light_pages_differ_and_the_button_overrides(page, report):
    """The page follows the system; the button turns it, figures included."""
    colour = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('figure svg text')).fill"
    page.emulate(scheme="light")
    page.open(report)
    light = page.evaluate(colour), page.evaluate(ink)
    page.emulate(scheme="dark")
    dark = page.evaluate(colour), page.evaluate(ink)
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    page.evaluate("document.getElementById('theme').click()")
    assert (page.evaluate(colour), page.evaluate(ink)) == light
    assert page.evaluate("document.getElementById('theme').getAttribute('aria-pressed')") == "false"


@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
def test_the_page_never_scrolls_sideways(page, report, width):
    """Wide tables and figures scroll inside their own regions."""
    page.emulate(width=width)
    page.open(report)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_prints_light_and_whole(page, report):
    """On paper even a dark page is light, and no table is cut at the sheet's edge."""
    page.emulate(width=PAPER_WIDTH, scheme="dark")
    page.open(report)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.send("Emulation.setEmulatedMedia", media="print", features=dark)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    width = page.evaluate("document.documentElement.scrollWidth")
    controls = shown(page, ".controls, nav, button#theme")
    page.send("Emulation.setEmulatedMedia", media="", features=[])
    assert background == "rgb(255, 255, 255)"
    assert width <= PAPER_WIDTH
    assert controls == 0
    pdf = page.pdf()
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") >= 3


def test_hostile_answers_do_nothing(page, files):
    """Scripts, closing tags, handlers, javascript: links, U+202E, lines of 1 MB: shown, inert."""
    run = build_store(
        files / "hostile",
        tasks=[Task("<i onclick=x>t", "g", "c</script>", n=len(HOSTILE))],
        arms=[Arm('k10"><script>document.title="owned"</script>')],
        output=lambda arm, task, index: HOSTILE[index],
    )
    with sqlite3.connect(run / "store.sqlite") as db:
        evil = ('["</code><script>document.title=1</script>"]',)
        db.execute('UPDATE examples SET "references" = ?', evil)
    db.close()
    path = files / "hostile.html"
    path.write_text(render([str(run)], "html"), encoding="utf-8")
    page.open(path)
    title = page.evaluate("document.title")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate("document.querySelectorAll('.sample *').forEach(e => e.click())")
    assert page.evaluate("document.title") == title
    assert "owned" not in title.replace('document.title="owned"', "")  # only inside the arm's name
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.querySelectorAll('img, iframe, .sample a').length") == 0
    assert "\u202e" not in page.evaluate("document.body.textContent")
    assert HOSTILE[0] in page.evaluate("document.getElementById('samples').textContent")
    assert page.errors == []
    assert page.requests == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
