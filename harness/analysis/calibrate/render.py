"""A calibration as JSON and as plain text.

Of the calibration half only the tests' outcomes are shown: figures to quote come from the
held-out half.
"""

from __future__ import annotations

import math
from typing import Any

from harness.analysis.calibrate.choose import ALPHA, Calibration, Goal, Look, passes
from harness.analysis.stats.estimate import Estimate


def to_json(found: Calibration) -> dict[str, Any]:
    """Return the object ``harness calibrate --json`` prints; every number is finite or None."""
    goal, rates = found.goal, found.rates
    return {
        "arm": rates.name,
        "length": rates.length,
        "goal": {name: getattr(goal, name) for name in Goal.__slots__},
        "alpha": ALPHA,
        "clusters": {"calibration": found.clusters[0], "held_out": found.clusters[1]},
        "floor_tasks": list(rates.floors),
        "keeps": [rate.keep for rate in rates.rates],
        "steps": [_step_json(step, goal) for step in found.steps],
        "chosen_keep": found.chosen,
        "held_out": None if found.held_out is None else _look_json(found.held_out, goal),
        "confirmed": found.confirmed,
        "exit_code": int(found.exit_code),
    }


def as_text(found: Calibration) -> str:
    """Return the steps, the choice, and what the held-out half says of it."""
    goal, rates = found.goal, found.rates
    where = rates.name if rates.length is None else f"{rates.name} at {rates.length} tokens"
    lines = [
        f"{where}: {found.clusters[0]} contexts calibrate, {found.clusters[1]} are held out "
        f"(split seed {goal.seed}); goal: {_goal_text(goal)}",
        *(f"floor, left out: {task}" for task in rates.floors),
        *(_step_text(step, goal) for step in found.steps),
    ]
    untested = len(rates.rates) - len(found.steps)
    if untested:
        lines.append(f"  {untested} more keep rates were not looked at: the first failure stops")
    if found.held_out is None:
        return "\n".join([*lines, "no keep rate meets the goal on the calibration half"])
    verdict = "confirmed" if found.confirmed else "NOT confirmed; reported, not retuned"
    lines += [
        f"chosen: keep {found.chosen:g}",
        f"held out: {_look_text(found.held_out, goal)}: {verdict}",
        *(f"  {task}: {_delta(part)}" for task, part in found.held_out.by_task.items()),
    ]
    return "\n".join(lines)


def _goal_text(goal: Goal) -> str:
    parts = []
    if goal.margin is not None:
        unit = "on every task" if goal.every_task else "over all examples"
        parts.append(f"a loss below {goal.margin:g} {unit}")
    if goal.speed_up is not None:
        parts.append(f"TTFT at least {goal.speed_up:g}× faster than full prefill")
    if goal.ttft_s is not None:
        parts.append(f"TTFT at most {goal.ttft_s:g} s")
    return ", ".join(parts)


def _step_text(step: Look, goal: Goal) -> str:
    p = step.quality_p if goal.margin is not None else step.ttft_p
    why = step.quality.reason if goal.margin is not None else step.ttft.reason
    verdict = "passes" if passes(step, goal) else "fails"
    return f"  keep {step.keep:g}: {verdict} ({_p_text(p) or why or 'not measured'})"


def _step_json(step: Look, goal: Goal) -> dict[str, Any]:
    return {
        "keep": step.keep,
        "keep_achieved": step.keep_achieved,
        "n": step.quality.n,
        "blocks": step.ttft.n,
        "quality_p": step.quality_p,
        "ttft_p": step.ttft_p,
        "passes": passes(step, goal),
    }


def _p_text(p: float | None) -> str | None:
    if p is None:
        return None
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _look_text(look: Look, goal: Goal) -> str:
    parts = [f"Δ {_delta(look.quality)}"]
    parts += filter(None, [_p_text(look.quality_p)])
    if goal.limit is not None or look.ttft.estimate is not None:
        parts.append(_ttft_text(look, goal))
    return ", ".join(parts)


def _delta(estimate: Estimate) -> str:
    if estimate.mean is None:
        return f"– ({estimate.reason})"
    text = f"{estimate.mean:+.3f}"
    if estimate.low is None or estimate.high is None:
        text += f" (n {estimate.n}; {estimate.reason})"
    else:
        text += f" [{estimate.low:+.3f}, {estimate.high:+.3f}] (n {estimate.n})"
    return text.replace("-0.", "−0.")


def _ttft_text(look: Look, goal: Goal) -> str:
    estimate, low, high = _ttft(look, goal)
    unit = "×" if goal.column == "r" else " s"
    if estimate is None:
        return f"TTFT – ({look.ttft.reason})"
    text = f"TTFT {estimate:.2f}{unit}"
    text += f" ({look.ttft.reason})" if low is None else f" [{low:.2f}, {high:.2f}]"
    return ", ".join(filter(None, [text, _p_text(look.ttft_p)]))


def _look_json(look: Look, goal: Goal) -> dict[str, Any]:
    name = "ttft_speedup" if goal.column == "r" else "ttft_s"
    estimate, low, high = _ttft(look, goal)
    return {
        "keep": look.keep,
        "keep_achieved": look.keep_achieved,
        "delta": {**look.quality.to_json(), "n": look.quality.n},
        "delta_by_task": {k: {**v.to_json(), "n": v.n} for k, v in look.by_task.items()},
        "quality_p": look.quality_p,
        name: {
            "estimate": estimate,
            "low": low,
            "high": high,
            "blocks": look.ttft.n,
            "reason": look.ttft.reason,
        },
        "ttft_p": look.ttft_p,
    }


def _ttft(look: Look, goal: Goal) -> tuple[float | None, float | None, float | None]:
    """Speed-up (full over arm, so the ends change places), or seconds."""
    shift = look.ttft
    if goal.column == "r":
        logs = [None if e is None else -e for e in (shift.estimate, shift.high, shift.low)]
    else:
        logs = [shift.estimate, shift.low, shift.high]
    estimate, low, high = (None if e is None else math.exp(e) for e in logs)
    return estimate, low, high
