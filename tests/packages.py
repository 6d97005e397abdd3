"""Packages of others, written to a folder as an installer would leave them there."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path

METHOD = '''"""A method from outside."""

from dataclasses import dataclass
from typing import ClassVar

from harness.methods.base import Method
from harness.methods.full import Full


@dataclass(frozen=True)
class Mine(Method):
    """Full prefill under another name."""

    name: ClassVar[str] = "mine"
    keep: float = 0.5

    def prepare(self, prompts, context):
        """Yield each prompt as it is."""
        yield from Full().prepare(prompts, context)
'''

TASK = """task: {name}
dataset_path: ""
custom_dataset: !function made.dataset
test_split: test
output_type: generate_until
doc_to_text: input
doc_to_target: answers
process_results: !function made.process
metric_list:
  - metric: holds
    aggregation: mean
    higher_is_better: true
generation_kwargs: {{do_sample: false, max_gen_toks: {tokens}, until: []}}
metadata: {{version: 1.0, group: {group}, category: retrieval}}
"""

MADE = '''"""One question about one number."""


def dataset(**metadata):
    import datasets

    rows = [{"input": f"The number is {n}.", "answers": [str(n)]} for n in (12345, 67890)]
    return {"test": datasets.Dataset.from_list(rows)}


def process(doc, results):
    return {"holds": float(doc["answers"][0] in results[0])}
'''


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write texts by their path below ``folder``, and return it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    importlib.invalidate_caches()
    return folder


def install(
    site: Path,
    package: str,
    files: Mapping[str, str],
    offers: Mapping[str, Mapping[str, str]],
    version: str = "1.0",
) -> None:
    """Install a package into ``site``: its files, its name and version, its entry points.

    ``offers`` maps an entry point group to names and what they stand for.
    """
    info = f"{package.replace('-', '_')}-{version}.dist-info"
    lines = [
        line
        for group, points in offers.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    notes = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n",
        f"{info}/entry_points.txt": "\n".join(lines) + "\n",
        f"{info}/RECORD": "".join(f"{name},,\n" for name in files),
    }
    write(site, {**files, **notes})
