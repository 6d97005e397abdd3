"""The ``harness`` command: a table of verbs, each imported when it is called."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

from harness.errors import ExitCode, HarnessError, nearest

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("harness.cli.run", "Compare full prefill with SpecPrefill or its rivals on tasks."),
    "sweep": ("harness.cli.sweep", "Run a sweep file: tasks × arms × keep × look-ahead × seeds."),
    "inspect": ("harness.cli.inspect", "Show what a method keeps of one prompt."),
    "tasks": ("harness.cli.tasks", "List tasks, and whether their data are here."),
    "methods": ("harness.cli.methods", "List methods and arms with their knobs."),
    "data": ("harness.cli.data", "List, pull, import and verify data sets."),
    "models": ("harness.cli.models", "Prepare and list models."),
    "score": ("harness.cli.score", "Score predictions that were made elsewhere."),
    "lm-eval": ("harness.cli.lm_eval", "Run lm-eval's command line with our model and tasks."),
    "runs": ("harness.cli.runs", "List, show, compare and remove runs."),
    "report": ("harness.cli.report", "Render runs as Markdown, HTML, JSON or CSV."),
    "export": ("harness.cli.export", "Write records as lm-eval files, Parquet or CSV."),
    "gate": ("harness.cli.gate", "Compare a run with a committed baseline, for CI."),
    "plan": ("harness.cli.plan", "Say how many examples a margin needs."),
    "calibrate": ("harness.cli.calibrate", "Choose a keep rate, judged on held-out examples only."),
    "serve": ("harness.cli.serve", "Serve a pair over HTTP as vLLM does, SpecPrefill inside."),
    "bench": ("harness.cli.bench", "Time the method against its physical bound."),
    "doctor": ("harness.cli.doctor", "Say what this machine has and what is missing."),
}
"""Verb → (module with a Typer ``app``, help line)."""


def main() -> None:
    """Entry point: run one verb and exit with its code (DESIGN.md, rules 9 and 10)."""
    # OpenMP reads this when torch is imported. Threads that spin while they wait slow down the
    # other engine that shares the cores (docs/performance.md).
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    words = sys.argv[1:]
    debug = "--debug" in words or bool(os.environ.get("HARNESS_DEBUG"))
    code = _guarded([word for word in words if word != "--debug"], debug)
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (head, less) has gone: nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _guarded(words: list[str], debug: bool) -> int:
    """Run; turn every fault into one line on standard error and its exit code."""
    try:
        return _dispatch(words)
    except HarnessError as error:
        code, line = int(error.code), str(error)
    except KeyboardInterrupt:
        code, line = int(ExitCode.INTERRUPTED), "interrupted; what was finished is saved"
    except BrokenPipeError:
        return 0
    except Exception as error:
        if _is_usage_error(error):
            code, line = int(ExitCode.USAGE), _usage_line(error)
        else:
            code = int(ExitCode.USAGE)
            line = f"{type(error).__name__}: {error} (this is a bug; --debug shows where)"
    if debug:
        traceback.print_exc()
    print(f"harness: {' '.join(line.split())}", file=sys.stderr)
    return code


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in {"--help", "-h", "help"}:
        print(_help())
        return 0
    if words[0] == "--version":
        from harness.run.provenance import version

        print(f"harness {version()}")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in COMMANDS:
        raise HarnessError(f"no command '{verb}'{nearest(verb, COMMANDS)}; try harness --help")
    import typer

    app = import_module(COMMANDS[verb][0]).app
    command = typer.main.get_command(app)
    result = command.main(args=rest, prog_name=f"harness {verb}", standalone_mode=False)
    return int(result) if isinstance(result, int) else 0


def _is_usage_error(error: Exception) -> bool:
    """Tell Typer's own errors, whichever click it carries."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _usage_line(error: Exception) -> str:
    message: str = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    where = f"; try {context.command_path} --help" if context is not None else ""
    return f"{message.rstrip('.')}{where}"


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {verb:<{width}}  {text}" for verb, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "Usage: harness COMMAND [OPTIONS]",
            "",
            "Measures what Speculative Prefill costs and buys: quality, TTFT, and how sure one",
            "can be of either.",
            "",
            "Commands:",
            *lines,
            "",
            "Options: --help (of every command, with examples), --version, --debug (tracebacks)",
            "",
            "Examples:",
            "  harness run --task ruler --keep 0.1",
            "  harness doctor",
        ]
    )
