"""The HTML report as text: self-contained, escaped, complete. tests/e2e opens it in a browser."""

import base64
import hashlib
import re
import sqlite3
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from synthetic import Arm, Task, build_store

from harness.analysis.summary import summarize
from harness.report.render import render
from harness.run.store import Store


class Outline(HTMLParser):
    """Collects tags, attributes and the data values of table rows."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags = []
        self.rows = []
        self._row = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag == "tr":
            self._row = [] if "data-row" in attributes else None
            if self._row is not None:
                self.rows.append((attributes, self._row))
        elif tag == "data" and self._row is not None:
            self._row.append(float(attributes["value"]))


@pytest.fixture(scope="module")
def page(sweep):
    """The sweep's page."""
    return render([str(sweep)], "html", "paper")


def test_nothing_is_loaded_from_anywhere(page):
    """No element refers outside the file: anchors stay on the page, images do not exist."""
    for tag, attributes in Outline(page).tags:
        for name in ("src", "href", "xlink:href", "action", "srcset", "poster", "data"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_policy_allows_exactly_the_inline_script(page):
    """The content security policy names the hash of the one script, and forbids everything else."""
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = next(a["content"] for t, a in Outline(page).tags if a.get("http-equiv"))
    assert f"script-src 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy


def test_same_store_same_bytes(sweep, page):
    """Rendering twice gives the same file."""
    assert render([str(sweep)], "html", "paper") == page


def test_a_single_cell_run_shows_its_two_arms(single):
    """Case 33: two rows, n 5 each, and every number equals the JSON's."""
    with Store.open(single) as store:
        arms = summarize(store).to_json()["arms"]
    rows = Outline(render([str(single)], "html")).rows
    assert [attributes["data-arm"] for attributes, _ in rows] == [arm["arm"] for arm in arms]
    assert len(rows) == 2
    for (_, values), arm in zip(rows, arms, strict=True):
        expected = [
            arm["n"],
            arm["keep_achieved"],
            arm["score"]["mean"],
            arm["delta"] and arm["delta"]["mean"],
            arm["ttft_s"]["median"],
            arm["ttft_speedup"] and arm["ttft_speedup"]["ratio"],
        ]
        assert values == [value for value in expected if value is not None]
        assert values[0] == 5


def test_headings_and_regions_are_in_order(page):
    """One main heading, no skipped level, every scrollable region named and reachable by key."""
    tags = Outline(page).tags
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for tag, attributes in tags:
        if attributes.get("role") == "region":
            assert attributes.get("tabindex") == "0", (tag, attributes)
            assert attributes.get("aria-label")
    labelled = {attributes["for"] for tag, attributes in tags if tag == "label"}
    assert {attributes["id"] for tag, attributes in tags if tag == "select"} == labelled


def test_ids_are_unique(page):
    """No id stands twice: links and labels reach what they name."""
    ids = [attributes["id"] for _, attributes in Outline(page).tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_several_runs_stand_side_by_side(single, sweep):
    """Two runs in one page: every row names its run, ids stay unique, both have provenance."""
    page = render([str(single), str(sweep)], "html")
    outline = Outline(page)
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    runs = {attributes["data-arm"].rsplit("[")[1] for attributes, _ in outline.rows}
    assert runs == {"single]", "sweep]"}
    assert page.count('<dl class="facts">') == 2


HOSTILE = (
    "<script>document.title='owned'</script>",
    "</style><img src=x onerror=\"document.title='owned'\">",
    "</script><script>document.title='owned'</script>",
    "[click](javascript:alert(1)) <a href=\"javascript:document.title='owned'\">x</a>",
    "' onmouseover='document.title=1' \" autofocus onfocus=\"document.title=1",
    "abc\u202edef\u2066 \x00\x1b]0;owned\x07",
    "{{ 7 * 7 }} {% raw %} <!-- ",
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A run in which every text that can come from outside is hostile."""
    folder = build_store(
        tmp_path_factory.mktemp("runs") / "hostile",
        tasks=[
            Task(name="<b>t</b>\u202e", group="g<script>", category="c</style>", n=len(HOSTILE))
        ],
        arms=[Arm('specprefill-k10"><script>', reason="</script><script>x")],
        output=lambda arm, task, index: HOSTILE[index] + "A" * 1_000_000,
    )
    with sqlite3.connect(folder / "store.sqlite") as db:
        db.execute(
            'UPDATE examples SET "references" = ?', ('["</code><script>alert(1)</script>"]',)
        )
        db.execute("UPDATE quality SET receipt_reason = ?", ("<script>alert(2)</script>",))
    db.close()
    return folder


def test_hostile_text_is_inert(hostile):
    """No tag, attribute or control character of a hostile text survives into the page."""
    page = render([str(hostile)], "html")
    outline = Outline(page)
    assert sum(tag == "script" for tag, _ in outline.tags) == 1
    assert not any(tag == "img" for tag, _ in outline.tags)
    for _, attributes in outline.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert not (attributes.get("href") or "").startswith("javascript")
    for hidden in "\u202e\u2066\x00\x1b\x07":
        assert hidden not in page
    assert "⟨U+202E⟩" in page
    assert "&lt;script&gt;document.title" in page


def test_a_line_of_a_megabyte_is_cut_with_a_statement(hostile):
    """The page stays small, and says how much of an answer it does not show."""
    page = render([str(hostile)], "html")
    assert len(page) < 1_000_000
    assert "further characters are not shown" in page


@pytest.mark.parametrize("kind", ["md", "csv", "json"])
def test_other_formats_survive_hostile_text_too(hostile, kind):
    """Markdown shows it inert; JSON and CSV carry it as data."""
    text = render([str(hostile)], kind)
    if kind == "md":
        assert "<script>" not in text.replace(r"\<script\>", "")
        assert "\u202e" not in text
