"""Latency records as blocks, and what they say about an arm: medians, stages, speed-ups.

Three measures of a request, by one protocol and one estimator: the time to first token, the time
per output token after it, and end to end, from the prompt's arrival to the last token timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.analysis.stats.latency import Shift, hodges_lehmann, lag1, order_effect
from harness.schema.estimates import SpeedUp
from harness.schema.records import STAGES, CellRecord

if TYPE_CHECKING:
    import pandas as pd

    from harness.run.store import Store

MEASURES = {"ttft": "TTFT", "tpot": "time per output token", "e2e": "time end to end"}
"""Measure → its name in sentences; ``<measure>_s`` is its column of seconds."""

_BLOCK = ["cell_id", "session", "block", "example_id"]


class RunTiming:
    """Latency records of a store; read once."""

    def __init__(self, store: Store) -> None:
        self.frame = _with_end_to_end(store.latency_frame())
        self._rows = _positions(self.frame)
        self._blocks = {measure: blocks(self.frame, measure) for measure in MEASURES}
        self._block_rows = {measure: _positions(found) for measure, found in self._blocks.items()}
        self._kernels = store.kernels()
        self._is_arm = (self.frame["role"] == "arm").to_numpy(bool)

    def requests(self, cells: Sequence[CellRecord], arms: Sequence[CellRecord]) -> pd.DataFrame:
        """Timed requests of an arm: its own, and those it served as reference for ``arms``."""
        own = {c.cell_id for c in cells}
        served = [c for c in arms if c.reference_cell_id in own]
        mine = _pick(self._rows, cells)
        theirs = _pick(self._rows, served)
        wanted = np.concatenate([mine[self._is_arm[mine]], theirs[~self._is_arm[theirs]]])
        return self.frame.iloc[np.sort(wanted)]

    def kernel(self, cells: Sequence[CellRecord]) -> str | None:
        """Names of the kernels behind an arm's timed requests; None where it names none."""
        names = {name for cell in cells for name in self._kernels.get(cell.cell_id, ())}
        return ", ".join(sorted(names)) or None

    def blocks_of(self, cells: Sequence[CellRecord], measure: str = "ttft") -> pd.DataFrame:
        """Complete blocks of an arm's cells, one a prompt, in time order.

        Repetitions under other selector seeds time the same prompt: they are averaged first.
        """
        mine = self._blocks[measure].iloc[np.sort(_pick(self._block_rows[measure], cells))]
        if len(mine) == mine["example_id"].nunique():
            return mine
        logs = {name: (name, "mean") for name in ("r", "arm_log", "reference_log")}
        rest = {name: (name, "first") for name in mine.columns if name not in (*logs, "example_id")}
        return mine.groupby("example_id", sort=False).agg(**rest, **logs).reset_index()


def _with_end_to_end(frame: pd.DataFrame) -> pd.DataFrame:
    """Add ``e2e_s``: the first token's time and that of each token after it."""
    later = frame["tokens"].astype(float) - 1
    after = (frame["tpot_s"].astype(float) * later).where(later > 0, 0.0)
    return frame.assign(e2e_s=frame["ttft_s"].astype(float) + after)


def _positions(frame: pd.DataFrame) -> dict[str, npt.NDArray[np.intp]]:
    """Positions of each cell's rows."""
    found = frame.groupby("cell_id", sort=False).indices
    return {str(name): np.asarray(rows, np.intp) for name, rows in found.items()}


def _pick(
    positions: dict[str, npt.NDArray[np.intp]], cells: Sequence[CellRecord]
) -> npt.NDArray[np.intp]:
    parts = [positions[c.cell_id] for c in cells if c.cell_id in positions]
    return np.concatenate([np.array([], np.intp), *parts])


def blocks(frame: pd.DataFrame, measure: str = "ttft") -> pd.DataFrame:
    """Turn timed requests into blocks with their r; incomplete blocks are left out.

    A block in which a request has no such time (one token only has no time per later token) is
    incomplete.

    Returns
    -------
    pandas.DataFrame
        Columns ``cell_id, session, block, example_id, order, original_length, r, reference_log,
        arm_log``; the logs are means of log seconds.
    """
    frame = frame.assign(log=np.log(frame[f"{measure}_s"].astype(float)))
    by_role = frame.groupby([*_BLOCK, "order", "role"], sort=False).agg(
        log=("log", "mean"), count=("log", "count"), original_length=("original_length", "first")
    )
    table = by_role.unstack("role")
    for role in ("arm", "reference"):
        if ("count", role) not in table:
            table[("count", role)], table[("log", role)] = 0, np.nan
            table[("original_length", role)] = np.nan
    table = table[(table[("count", "arm")] == 2) & (table[("count", "reference")] == 2)]
    out = table.index.to_frame(index=False)
    out["original_length"] = table[("original_length", "arm")].to_numpy()
    out["arm_log"] = table[("log", "arm")].to_numpy(float)
    out["reference_log"] = table[("log", "reference")].to_numpy(float)
    out["r"] = out["arm_log"] - out["reference_log"]
    return out


def speed_up(table: pd.DataFrame, measure: str = "ttft") -> SpeedUp:
    """Estimate the speed-up from the blocks of one length."""
    r = table["r"].to_numpy(float)
    order = order_effect(
        r[(table["order"] == "ABBA").to_numpy()], r[(table["order"] == "BAAB").to_numpy()]
    )
    facts: dict[str, Any] = {
        "blocks": len(r),
        "sessions": int(table["session"].nunique()),
        "order_effect": order.effect,
        "order_p": order.p,
        "lag1": lag1(r),
    }
    if order.too_large and order.effect is not None:
        size = f"{np.expm1(order.effect):+.0%}"
        reason = f"invalid: {MEASURES[measure]} depends on who goes first (order effect {size})"
        return SpeedUp(ratio=None, reason=reason, **facts)
    shift = hodges_lehmann(r)
    ratio, low, high = _as_speed_up(shift)
    return SpeedUp(ratio=ratio, low=low, high=high, reason=shift.reason, **facts)


def _as_speed_up(shift: Shift) -> tuple[float | None, float | None, float | None]:
    """Turn arm/reference logs into reference/arm factors: the ends change places."""
    ends = (shift.estimate, shift.high, shift.low)
    ratio, low, high = (None if e is None else float(np.exp(-e)) for e in ends)
    return ratio, low, high


def bands(table: pd.DataFrame, length: int | None) -> dict[str, pd.DataFrame]:
    """Split blocks by length: lengths are never pooled.

    A task of a fixed length is one length. Prompts of natural length are put in bands of a
    factor of two, named ``1024–2047`` (tokens of the whole prompt).
    """
    if table.empty:
        return {}
    if length is not None:
        return {str(length): table}
    powers = np.floor(np.log2(table["original_length"].to_numpy(float))).astype(int)
    return {
        f"{2**power}–{2 ** (power + 1) - 1}": table[powers == power]
        for power in sorted(set(powers.tolist()))
    }


def by_length(table: pd.DataFrame, length: int | None, measure: str = "ttft") -> dict[str, SpeedUp]:
    """Speed-ups by length."""
    return {name: speed_up(part, measure) for name, part in bands(table, length).items()}


def headline(found: dict[str, SpeedUp], measure: str = "ttft") -> SpeedUp | None:
    """The one speed-up of a row: that of its only length, else None with the reason."""
    if not found:
        return None
    if len(found) == 1:
        return next(iter(found.values()))
    count = sum(band.blocks for band in found.values())
    reason = f"prompts of {len(found)} length bands are not pooled: see {measure}_by_length"
    return SpeedUp(ratio=None, blocks=count, reason=reason)


def median(requests: pd.DataFrame, measure: str) -> float | None:
    """Median seconds of timed requests; None where none has such a time."""
    seconds = requests[f"{measure}_s"].astype(float).dropna()
    return float(seconds.median()) if len(seconds) else None


def stages(requests: pd.DataFrame) -> dict[str, float | None]:
    """Mean seconds by stage (means, so that they add up); None where a stage was not timed."""
    means = {stage: requests[f"{stage}_s"].astype(float).mean() for stage in STAGES}
    return {stage: None if np.isnan(value) else float(value) for stage, value in means.items()}
