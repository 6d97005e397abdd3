"""One run in every format: JSON is the truth, and what another format shows must be the same."""

from __future__ import annotations

import io
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from statistics import fmean
from typing import Any

import pytest
from report_pages import READERS, Page, estimate, labels, means_of, seconds, shown, without
from rich.console import Console
from synthetic import Arm, CellStatus, Status, Task, build_store

import harness
from harness.cli.main import main
from harness.report.terminal import render_table  # no command prints a stored run's table

Raw = dict[str, Any]
Read = Callable[[str, bool], Page]

TASKS = """
    longbench single_doc_qa qasper 0.9 narrativeqa 0.5
    longbench multi_doc_qa hotpotqa 0.8 2wikimqa 0.6 musique 0
    longbench summarization qmsum 0 gov_report 0
    longbench code lcc 0.7
    longbench synthetic passage_count 0.3 passage_retrieval_en 0.9 passage_retrieval_zh 0.6
    multidoc multi_doc_qa fiction 0.7
    ruler retrieval niah_single_1 0.95 niah_multikey_1 0.8
    ruler tracking vt 0.6
    ruler aggregation cwe 0.6 fwe 0
"""
"""Group, category, then its tasks with full prefill's score: some floor, some that count."""
AS_IN_JSON = [
    "level", "group", "category", "task", "length", "seed", "arm", "method", "look_ahead",
    "budget_kind", "keep_requested", "keep_achieved", "n", "evidence_kept", "floor", "counting",
    "timed_tokens",
]  # fmt: skip
"""Columns of the CSV that are a row's own fields."""
FIGURES = {"score": "mean", "delta": "mean"} | {
    f"{time}_speedup": "ratio" for time in ("ttft", "tpot", "e2e")
}
"""Figures with intervals, and the key of their point."""
PARTS = {"niah": "retrieval", "vt": "tracking", "aggregation": "aggregation"}
"""Part of the paper's RULER table → our category of the same tasks."""


def _tasks() -> Iterator[Task]:
    """RULER at two lengths, one of them with two data seeds; the rest at natural lengths."""
    for group, category, *pairs in map(str.split, TASKS.strip().splitlines()):
        for name, rate in zip(pairs[::2], map(float, pairs[1::2]), strict=True):
            size = 4 if name == "lcc" else 1  # two clusters are too few for an interval
            for length in (1024, 2048) if group == "ruler" else (None,):
                seeds = (0, 1) if (category, length) == ("retrieval", 2048) else (0,)
                where = (f"{group}_{name}", group, category, "m", length, seeds)
                n = 8 if rate else 24  # only many examples show that a model cannot
                yield Task(*where, n=n, cluster_size=size, full_rate=rate, graded=not length)


def _arms() -> Iterator[Arm]:
    """Two keep rates, rivals, and each reason why a row has something to remark."""
    for keep in (10, 30):
        name = f"specprefill-k{keep}-lah8"
        yield Arm(name, keep=keep / 100, loss=0.3, gain=0.1, tpot_ratio=1.25)
    skips = (Status.ACTIVE, Status.SKIPPED_MIN_TOKENS)
    yield Arm("rag-k30", "rag", 0.3, None, loss=0.4, statuses=skips)
    slow: dict[str, Any] = {"budget_kind": "attention", "kernel": "reference kernel"}
    yield Arm("minference-k10", "minference", 0.1, None, speed_up=0.8, **slow)
    yield Arm("random-k10", "random", 0.1, None, loss=0, method_seeds=(0, 1))
    stopped: dict[str, Any] = {"cell_status": CellStatus.UNSUPPORTED, "reason": "no evidence"}
    yield Arm("oracle-k10", "oracle", 0.1, None, **stopped)


def _truth(row: Raw) -> Raw:
    """Return all that a format may show of a row; ``exact`` is of HTML, ``csv`` of the CSV."""
    ttft, asked, kept = row["ttft_s"], row["keep_requested"], shown(row["keep_achieved"])
    counts = sorted(row["status"].items(), key=lambda item: (-item[1], item[0]))
    exact = [row["n"], row["keep_achieved"], row["score"]["mean"], (row["delta"] or {}).get("mean")]
    exact += [ttft["median"], (row["ttft_speedup"] or {}).get("ratio")]
    tags = ["floor"] * row["floor"] + ["counting"] * (row["counting"] and not row["pooled"])
    return {
        "n": str(row["n"]),
        "keep": kept if asked is None else f"{asked:g} → {kept}",
        "score": estimate(row["score"], "mean"),
        "δ to full": estimate(row["delta"], "mean", sign="+"),
        "ttft": seconds(ttft["median"]),
        "speed-up": estimate(row["ttft_speedup"], "ratio", 2, unit="×"),
        "status": ", ".join(f"{number} {name}" for name, number in counts) or "–",
        "remarks": sorted(row["remarks"]),
        "requests": str(ttft["requests"] or ""),
        "tags": tags,
        "exact": [value for value in exact if value is not None],
        "csv": {k: "" if v is None else str(v) for k, v in _line(row).items()},
    }


def _line(row: Raw) -> Raw:
    """Return a row as the CSV must have it, by column."""
    line = {name: row[name] for name in AS_IN_JSON}
    line |= {f"{stage}_s": mean for stage, mean in row["stages_s"].items()}
    line |= {"run": "synthetic", "interval": "jackknife", "kernel": row["ttft_s"]["kernel"]}
    line |= {"status": " ".join(f"{name}={number}" for name, number in row["status"].items())}
    line |= {"remarks": "; ".join(row["remarks"])}
    verdict = row["verdict"] or {}
    line |= {"verdict": verdict.get("kind")}
    line |= {f"verdict_{name}": verdict.get(name) for name in ("margin", "needed")}
    for time in ("ttft", "tpot", "e2e"):
        line[f"{time}_median_s"] = row[f"{time}_s"]["median"]
        line[f"{time}_requests"] = row[f"{time}_s"]["requests"]
    for name, key in FIGURES.items():
        line |= _ends(name, row[name], key)
    for part in ("without_floor", "without_counting"):
        beside = row[part] or {}
        line[f"tasks_{part}"] = " ".join(beside.get("left_out", ())) or None
        for name in ("score", "delta"):
            line |= _ends(f"{name}_{part}", beside.get(name), "mean")
    return line


def _ends(name: str, raw: Raw | None, key: str) -> Raw:
    raw = raw or {}
    return {name: raw.get(key), f"{name}_low": raw.get("low"), f"{name}_high": raw.get("high")}


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Return a function that renders the one run by the command line, and reads the page."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    build_store(folder, tasks=[*_tasks()], arms=[*_arms()])

    @cache
    def rendered(kind: str, compare: bool) -> str:
        if kind == "terminal":
            console = Console(width=9999, file=io.StringIO(), color_system=None)
            render_table(harness.load(folder).summary, console)
            return console.file.getvalue()
        out = folder.parent / f"report.{kind}"
        words = ["report", folder, "--format", kind, "--out", out]
        words += ["--compare", "paper"] if compare else []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["harness", *map(str, words)])
            with pytest.raises(SystemExit) as ended:
                main()
        assert not ended.value.code
        return out.read_text(encoding="utf-8")

    return cache(lambda kind, compare: READERS[kind](rendered(kind, compare)))


@pytest.fixture(scope="module")
def summary(read: Read) -> Raw:
    """Return the JSON without a comparison, which all else is checked against."""
    raw: Raw = json.loads(read("json", False).texts[0])
    return raw


def _cases(*kinds: str) -> pytest.MarkDecorator:
    """Every pair of a format and plain or ``--compare paper``."""
    pairs = [(kind, compare) for kind in kinds for compare in (False, True)]
    ids = [f"{kind}-{'compare' if compare else 'plain'}" for kind, compare in pairs]
    return pytest.mark.parametrize(("kind", "compare"), pairs, ids=ids)


def _none(faults: Iterable[str]) -> None:
    if listed := "\n".join(faults):
        pytest.fail(listed, pytrace=False)


def _same(kind: str, wanted: Raw, got: Raw) -> None:
    """Fail with every key that only one side has, or that differs."""
    _none(
        f"{key}: JSON {wanted.get(key, 'absent')}, {kind} {got.get(key, 'absent')}"
        for key in dict.fromkeys([*wanted, *got])
        if wanted.get(key) != got.get(key)
    )


def test_the_run_has_every_kind_of_row(summary: Raw) -> None:
    """Nothing below agrees for want of rows: levels, floor, counting, remarks, no interval."""
    rows, means = summary["arms"], summary["categories"]
    assert {row["level"] for row in rows} == {"group", "task", "seed"}
    said = " ".join(remark for row in rows for remark in row["remarks"])
    for part in ("floor:", "floor task", "reference kernel", "deterministic", "no result on"):
        assert part in said
    assert any(row["floor"] and row["score"]["mean"] == 0 for row in rows)
    assert {0, 8} <= {row["n"] for row in rows if row["score"]["low"] is None}
    for part in ("without_floor", "without_counting"):
        assert any(row[part] for row in rows)
        assert any(mean[part] for mean in means)
    assert any(mean["left_out"] for mean in means)
    assert {mean["weighs"] for mean in means if mean["category"] == "overall"} == {
        "tasks",
        "categories",
    }


@_cases(*READERS)
def test_rows_agree(read: Read, summary: Raw, kind: str, compare: bool) -> None:
    """Each row is there with JSON's figures, intervals, labels, counts and remarks."""
    page = read(kind, compare)
    if kind == "json":
        assert json.loads(page.texts[0])["arms"] == summary["arms"]
        return
    truth = {labels(row): _truth(row) for row in summary["arms"]}
    assert page.rows.keys() == truth.keys()
    _none(
        f"{' · '.join(key)}, {name}: JSON {truth[key][name]}, {kind} {value}"
        for key, cells in page.rows.items()
        for name, value in cells.items()
        if value != truth[key][name]
    )


@_cases("terminal", "md", "html")
def test_what_stands_beside_a_pool_agrees(
    read: Read, summary: Raw, kind: str, compare: bool
) -> None:
    """Figures without floor tasks, and without counting ones, with n and the tasks' names."""
    wanted = {
        (*labels(row), without(part, row[f"without_{part}"]["left_out"])): (
            str(row[f"without_{part}"]["n"]),
            estimate(row[f"without_{part}"]["score"], "mean"),
            estimate(row[f"without_{part}"]["delta"], "mean", sign="+"),
            ", ".join(row[f"without_{part}"]["left_out"]),
        )
        for row in summary["arms"]
        for part in ("floor", "counting")
        if row[f"without_{part}"]
    }
    _same(kind, wanted, read(kind, compare).beside)


@_cases("md", "html")
def test_headings_agree(read: Read, summary: Raw, kind: str, compare: bool) -> None:
    """A row stands under its benchmark's and category's name, a pooled one under that."""
    names = {
        row["task"]: f"{row['group']} · {row['category'].replace('_', ' ')}"
        for row in summary["arms"]
        if not row["pooled"]
    }
    _none(
        f"{task} stands under {title}"
        for title, tasks in read(kind, compare).sections.items()
        for task in tasks
        if title != names.get(task, "tasks pooled, every example weighing alike")
    )


def test_averages_follow_from_rows(summary: Raw) -> None:
    """An average is that of its tasks' rows, or of its categories' averages; none is dropped."""
    rows = [row for row in summary["arms"] if row["level"] == "task"]
    found = {(row["task"], row["length"], row["arm"]): row for row in rows}
    everything = {(r["group"], r["category"], r["length"], r["task"]) for r in rows}
    for mean in summary["categories"]:
        wanted = {
            task
            for group, category, length, task in everything
            if (group, length) == (mean["group"], mean["length"])
            and mean["category"] in (category, "overall")
        }
        assert {*mean["tasks"]} == wanted
        for part in (mean, mean["without_floor"], mean["without_counting"]):
            if part is None or part["score"] is None:
                continue
            left = {*part["left_out"]} if part is not mean else set()
            parts: dict[str, list[Raw]] = defaultdict(list)
            for task in wanted - left:
                row = found[task, mean["length"], mean["arm"]]
                parts[row["category"] if mean["weighs"] == "categories" else ""].append(row)
            for name in ("score", "delta") if mean["arm"] != "full" else ("score",):
                means = [fmean(row[name]["mean"] for row in part) for part in parts.values()]
                assert part[name] == pytest.approx(fmean(means))


@_cases("terminal", "md", "html")
def test_averages_agree(read: Read, summary: Raw, kind: str, compare: bool) -> None:
    """Every average, and what stands beside it, is JSON's, with the number of its tasks."""
    wanted = dict(means_of(summary, terminal=kind == "terminal"))
    assert any(label.startswith("without") for *_, label in wanted)
    _same(kind, wanted, read(kind, compare).means)


@_cases("terminal", "md", "html")
def test_times_agree(read: Read, summary: Raw, kind: str, compare: bool) -> None:
    """TTFT, time per token and end to end stand with their ratios for every timed row."""
    wanted = {}
    for row in summary["arms"]:
        if row["level"] != "seed" and row["ttft_s"]["requests"]:
            task, arm = labels(row)
            cells = [
                text
                for time in ("ttft", "tpot", "e2e")
                for text in (
                    seconds(row[f"{time}_s"]["median"], milli=time == "tpot"),
                    estimate(row[f"{time}_speedup"], "ratio", 2, unit="×"),
                )
            ]
            kernel = " (reference kernel)" if row["ttft_s"]["kernel"] else ""
            # The terminal's table above has the first two.
            wanted[task, arm + kernel] = tuple(cells[2:] if kind == "terminal" else cells)
    _same(kind, wanted, read(kind, compare).times)


@_cases("md", "html")
def test_length_bands_agree(read: Read, summary: Raw, kind: str, compare: bool) -> None:
    """Speed-ups by length band are JSON's, for every task of natural length."""
    (bands,) = (t for t in read(kind, compare).tables if "prompt tokens" in t[0])
    natural = [r for r in summary["arms"] if r["length"] is None and r["level"] == "task"]
    kernel = {True: " (reference kernel)", False: ""}
    assert [tuple(line.values()) for line in bands] == [
        (
            row["task"],
            row["arm"] + kernel[bool(row["ttft_s"]["kernel"])],
            band,
            *(
                estimate(row[f"{time}_by_length"][band], "ratio", 2, unit="×")
                for time in ("ttft", "tpot", "e2e")
            ),
        )
        for row in natural
        for band in row["ttft_by_length"]
    ]


@_cases("terminal", "md", "html")
def test_verdicts_and_rivals_agree(read: Read, summary: Raw, kind: str, compare: bool) -> None:
    """Every comparison's verdict, and that of rivals with its difference, is JSON's."""
    verdicts: dict[str, list[str]] = defaultdict(list)
    for row in summary["arms"]:
        if row["verdict"] and row["level"] != "seed":
            task, arm = labels(row)
            macro, average = row["macro"], ""
            if macro:  # a group's verdict is on the benchmark's own average, not on the pool
                weighs = f"(mean of {len(row['tasks'])} tasks, {macro['weighs']} weighing alike)"
                task = task.replace("(pooled)", weighs)
                average = f" (Δ {estimate(macro['delta'], 'mean', sign='+')})"
            verdicts[task].append(f"{arm} {_words(row['verdict'])}{average}")
    wanted = [f"{task}: {'; '.join(arms)}" for task, arms in verdicts.items()]
    lines = read(kind, compare).lines
    assert lines[: len(wanted)] == wanted
    rest = lines[len(wanted) :]
    assert len(rest) == len(summary["rival_comparisons"]) > 0
    for line, one in zip(rest, summary["rival_comparisons"], strict=True):
        figure = estimate(one["delta"], "mean", sign="+")
        words = _words(one["verdict"])
        assert f": {one['arm']} against {one['rival']} {words} (Δ {figure}" in line


def _words(verdict: Raw) -> str:
    needed = verdict["needed"]
    said = f" (about {needed} examples would tell)" if needed else ""
    return verdict["kind"].replace("_", "-") + said


@_cases("md", "html")
def test_receipts_agree(read: Read, summary: Raw, kind: str, compare: bool) -> None:
    """Receipts count the prompts of an arm's task rows, and the proof of those that needed it."""
    (lines,) = (t for t in read(kind, compare).tables if {"keep asked"} & {*map(str.lower, t[0])})
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in summary["arms"]:
        if row["level"] == "task":
            counts[row["arm"]].update(row["status"])
    shown_counts: dict[str, Counter[str]] = defaultdict(Counter)
    for line in ({key.lower(): value for key, value in line.items()} for line in lines):
        # A repetition under another method seed has a line of its own.
        arm = re.sub(r"-m\d$", "", line["arm"])
        statuses = line.get("receipts", line.get("statuses", "")).removeprefix("check ")
        for number, name in re.findall(r"(\d+) (\w+)", statuses.partition(";")[0]):
            shown_counts[arm][name] += int(number)
        proof = line.get("hooks’ proof", line.get("positions applied", ""))
        active = counts[arm]["active"]
        assert (f"{active} of {active}" in proof) == arm.startswith("specprefill")
    assert shown_counts == {arm: found for arm, found in counts.items() if found}


@pytest.mark.parametrize("kind", ["json", "md", "html"])
def test_means_beside_the_paper_agree(read: Read, summary: Raw, kind: str) -> None:
    """What stands beside the paper is JSON's mean of the category times 100."""
    means = {(m["group"], m["category"], m["length"], m["arm"]): m for m in summary["categories"]}
    faults, seen, cells = [], set(), ("here, full", "here, arm", "here, Δ", "tasks here")
    for line in (line for table in read(kind, True).tables for line in table):
        category = line.get("category", PARTS.get(line.get("part", "")))
        if category is None:
            continue
        seen.add(category)
        arm, length = line["arm here"], line.get("length here", "").replace(",", "")
        place = ("ruler" if length else "longbench", category, int(length) if length else None)
        full, mean = means[*place, "full"], means[*place, arm]
        percent = [100 * value for value in (full["score"], mean["score"], mean["delta"])]
        want = [shown(value, 2, sign) for value, sign in zip(percent, "--+", strict=True)]
        want.append(_tasks_here(mean))
        got = [line[name] for name in cells]
        faults += [f"{category}, {arm}: JSON {want}, table {got}"] if want != got else []
    _none(faults)
    assert seen >= {"single_doc_qa", "synthetic", "retrieval", "aggregation"}


def _tasks_here(mean: Raw) -> str:
    number, rest = str(len(mean["tasks"])), mean["without_floor"]
    if rest is None:
        return number + ", floor" * mean["floor"]
    score, delta = shown(100 * rest["score"], 2), shown(100 * rest["delta"], 2, "+")
    names = ", ".join(rest["left_out"])
    return f"{number}; {score}, Δ {delta} without {len(rest['left_out'])} floor ({names})"


@_cases("json", "md", "html")
def test_paper_tables_agree(read: Read, summary: Raw, kind: str, compare: bool) -> None:
    """The paper's tables are the same in every format, and its speed-ups stand beside JSON's."""
    tables = [t for t in read(kind, compare).tables if "arm here" in t[0]]
    assert tables == (read("json", True).tables if compare else [])
    rows = {labels(row): row for row in summary["arms"]}
    for line in tables[-1] if compare else ():
        row = rows[line["measured on"], line["arm here"]]
        assert line["keep, %"] == f"{100 * row['keep_requested']:g}"
        assert f"{line['here']} {line['95 % interval']}" == _truth(row)["speed-up"]


@_cases("terminal", "md", "html")
def test_notice_agrees(read: Read, summary: Raw, kind: str, compare: bool) -> None:
    """The notice counts the prompts of task rows that did not run as their arm says."""
    counts: Counter[str] = Counter()
    for row in summary["arms"]:
        counts.update(row["status"] if row["level"] == "task" else {})
    skipped = counts["skipped_min_tokens"]
    notice = f"{skipped} of {counts.total()} prompts did not run as their arm says"
    texts = read(kind, compare).texts
    assert any(f"{notice}: {skipped} skipped_min_tokens" in line for line in texts)


@_cases("terminal")
def test_headings_say_where_nothing_is_decided(
    read: Read, summary: Raw, kind: str, compare: bool
) -> None:
    """A heading counts the rows whose remarks say that the data are too few."""
    notes: dict[str, list[bool]] = defaultdict(list)
    for row in summary["arms"]:
        if row["delta"] and row["delta"]["mean"] is not None:
            notes[labels(row)[0]].append("too few to conclude" in (row["note"] or ""))
    lines = [line.strip() for line in read(kind, compare).texts]
    for task, few in notes.items():
        part = f" · too few to conclude in {sum(few)} of {len(few)} arms" if any(few) else ""
        assert task + (" · too few to conclude" if all(few) else part) in lines
