"""``harness data``: list, pull, import and verify data sets."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")]


@app.command("list", epilog="Example:  harness data list")
def list_sets(json: Json = False) -> int:
    """List every known data set: whether it is here, licence, and where it comes from."""
    from harness.tasks.data_overview import overview

    rows = overview()
    if json:
        print(json_module.dumps({"data": rows}, ensure_ascii=False))
        return 0
    from harness.cli.shared import print_table

    print_table(
        ("data set", "here", "rows", "licence", "from"),
        [
            (r["name"], "yes" if r["here"] else "no", r["rows"] or "—", r["licence"], r["source"])
            for r in rows
        ],
    )
    return 0


@app.command(epilog="Example:  harness data pull longbench squad")
def pull(
    names: Annotated[
        list[str], typer.Argument(help="Data sets, longbench, or tasks of lm-eval's.")
    ],
    json: Json = False,
) -> int:
    """Fetch data sets from their publishers, verify and install them. Resumes where it stopped."""
    from harness.tasks import pull as pulling
    from harness.tasks.info import TaskInfo

    done = []
    for one in pulling.resolve(names):
        if isinstance(one, TaskInfo):
            print(pulling.pull_task(one), file=sys.stderr)
        else:
            done += pulling.pull(one, _progress if sys.stderr.isatty() else None)
    return _report(done, json)


@app.command(
    "import", epilog="Example:  harness data import hotpot_dev_distractor_v1.json data.zip"
)
def import_files(
    paths: Annotated[list[Path], typer.Argument(help="Files, LongBench's zip, or essay folders.")],
    json: Json = False,
) -> int:
    """Check files in the publishers' formats and install what they hold.

    LongBench JSONL or its zip, HotpotQA and 2WikiMultihopQA JSON, MuSiQue JSONL, SQuAD JSON,
    lost-in-the-middle JSONL, RULER JSONL, and folders of .txt essays.
    """
    from harness.tasks.data.importing import import_path

    return _report([one for path in paths for one in import_path(path)], json)


@app.command(epilog="Example:  harness data verify")
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; all where none.")] = None,
) -> int:
    """Compare installed files with the digests recorded when they were installed."""
    from harness.tasks.data_overview import verify_sets

    print(verify_sets(names or []))
    return 0


def _report(done: list, json: bool) -> int:  # type: ignore[type-arg]
    from harness.tasks.data.library import as_json
    from harness.tasks.data_overview import recognised

    if json:
        print(json_module.dumps({"installed": [as_json(one) for one in done]}, ensure_ascii=False))
    else:
        for one in done:
            print(recognised(one))
    return 0


def _progress(name: str, have: int, total: int | None) -> None:
    of = f" of {total / 1e6:.1f}" if total else ""
    print(f"\r{name}: {have / 1e6:.1f}{of} MB", end="", file=sys.stderr, flush=True)
    if have == total:
        print(file=sys.stderr)
