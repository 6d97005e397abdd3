"""The contract as someone else runs it: on their own method, from their own folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from packages import write

from harness.engines.base import EngineSpec
from harness.engines.vllm.attention import load_path
from harness.errors import ConfigError
from harness.methods.base import MethodContext
from harness.methods.contract.bench import method_of, run
from harness.schema.prompts import Prompt

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "tests" / "outside" / "harness-example-plugin"

FAULTY = '''"""Methods that each break one rule."""

import os
from dataclasses import dataclass, replace
from typing import ClassVar

from harness.methods.base import Method
from harness.methods.controls import RandomChunks
from harness.methods.truncate_middle import TruncateMiddle
from harness.schema.receipts import Cost


@dataclass(frozen=True)
class Greedy(Method):
    """Keeps three times what was asked."""

    name: ClassVar[str] = "greedy"
    keep: float = 0.1

    def prepare(self, prompts, context):
        rate = min(1.0, 3 * self.keep)
        for one in TruncateMiddle(keep=rate).prepare(prompts, context):
            receipt = replace(one.receipt, method=self.name, keep_requested=self.keep)
            yield replace(one, receipt=receipt)


@dataclass(frozen=True)
class Silent(Method):
    """Says nothing of its cost."""

    name: ClassVar[str] = "silent"
    keep: float = 0.1

    def prepare(self, prompts, context):
        for one in TruncateMiddle(keep=self.keep).prepare(prompts, context):
            yield replace(one, receipt=replace(one.receipt, method=self.name, cost=Cost()))


@dataclass(frozen=True)
class Moody(Method):
    """Follows the seed and says that it does not; remembers, and leaves a mark."""

    name: ClassVar[str] = "moody"
    keep: float = 0.1

    def prepare(self, prompts, context):
        os.environ["MOODY"] = str(int(os.environ.get("MOODY", 0)) + 1)
        rate = min(1.0, self.keep * (1.5 if context.memo else 1))
        context.memo["seen"] = True
        for one in RandomChunks(keep=rate).prepare(prompts, context):
            yield replace(one, receipt=replace(one.receipt, method=self.name))
'''


OWN_PREFILL = '''"""A method with a prefill of its own, and an attention path for vLLM."""

from dataclasses import dataclass, replace
from typing import ClassVar

from harness.engines.hf.engine import standard_prefill
from harness.methods.full import Full
from harness.methods.base import Method
from harness.methods.strategic import on_transformers
from harness.schema.receipts import BudgetKind


class OwnPrefill:
    """The ordinary one, counted."""

    def __call__(self, model, prepared):
        done = standard_prefill(model, prepared)
        return done._replace(facts={**done.facts, "own_prefill": prepared.directives["mark"]})


class OwnPath:
    """Knows its spec."""

    def __init__(self, spec):
        self.spec = spec


@dataclass(frozen=True)
class Own(Method):
    """Full prefill by another hand."""

    name: ClassVar[str] = "own"
    budget_kind: ClassVar[BudgetKind] = BudgetKind.NONE
    needs: ClassVar[frozenset[str]] = frozenset({"engine:hf"})

    def engine_spec(self, base):
        return on_transformers(base, prefill=f"{__name__}:OwnPrefill")

    def prepare(self, prompts, context):
        for one in Full().prepare(prompts, context):
            receipt = replace(one.receipt, method=self.name)
            yield replace(one, receipt=receipt, directives={"mark": 7})
'''


def contract(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the contract's command in a folder that is on the path."""
    return subprocess.run(
        [sys.executable, "-m", "harness.methods.contract", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])},
    )


def test_the_example_of_a_separate_package_passes() -> None:
    """Every rule on the method that the documentation shows."""
    done = contract(PLUGIN, "harness_example_plugin.every_nth:EveryNth", "-q")
    assert done.returncode == 0, done.stdout
    assert "failed" not in done.stdout


def test_faults_are_found(tmp_path: Path) -> None:
    """A method that breaks a rule fails that rule's test, and no method fails for another."""
    write(tmp_path, {"faulty.py": FAULTY})
    names = ("faulty:Greedy", "faulty:Silent", "faulty:Moody")
    done = contract(tmp_path, *names, "-q", "-rf", "--tb=no")
    assert done.returncode == 1, done.stdout + done.stderr
    failed = {
        line.split("::")[1].split(" ")[0]
        for line in done.stdout.splitlines()
        if line.startswith("FAILED")
    }
    assert failed == {
        "test_meets_its_budget[faulty:Greedy-0.3]",
        "test_meets_its_budget[faulty:Greedy-0.5]",
        "test_meets_its_budget[faulty:Silent-0.3]",
        "test_meets_its_budget[faulty:Silent-0.5]",
        "test_completes_its_receipt[faulty:Silent]",
        "test_scores_continuations[faulty:Silent]",
        "test_a_memo_changes_no_result[faulty:Moody]",
        "test_its_seed_matters_where_it_says_so[faulty:Moody]",
        "test_leaves_global_state_alone[faulty:Moody]",
    }


def test_a_name_that_is_no_method_is_one_line(tmp_path: Path) -> None:
    """Exit code 2, before pytest starts."""
    for words, says in (((), "name a method"), (("absent.module:X",), "no module 'absent'")):
        done = contract(tmp_path, *words)
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.strip().splitlines()
        assert says in line


def test_without_pytest_it_says_what_to_install(tmp_path: Path) -> None:
    """The harness does not depend on pytest: one line, not a traceback."""
    code = (
        "import sys; sys.modules['pytest'] = None; sys.argv = ['x', 'full'];"
        "from harness.methods.contract.__main__ import main; sys.exit(main(['full']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stderr == "harness: the contract tests need pytest: pip install pytest\n"


def test_a_method_may_bring_its_own_prefill(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prompts: list[Prompt],
    context: MethodContext,
    base: EngineSpec,
) -> None:
    """Strategy and attention path are ``module:Class``; a prompt's directives call the strategy."""
    monkeypatch.syspath_prepend(write(tmp_path, {"own_prefill.py": OWN_PREFILL}))
    ((_, own, receipt),) = run(method_of("own_prefill:Own"), prompts[:1], context, base)
    ((_, full, _),) = run(method_of("full"), prompts[:1], context, base)
    assert own.counters["own_prefill"] == 7
    assert own.token_ids == full.token_ids
    assert receipt.method == "own"
    spec = EngineSpec("vllm", "nowhere", attention="own_prefill:OwnPath")
    assert type(load_path(spec)).__name__ == "OwnPath"
    for attention, says in (("own_prefil", "takes package.module:Class"), ("own_prefill:X", "'X'")):
        with pytest.raises(ConfigError, match=says):
            load_path(EngineSpec("vllm", "nowhere", attention=attention))
