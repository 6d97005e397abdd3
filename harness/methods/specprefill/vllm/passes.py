"""What the speculator's engine is asked to run for one prompt: one pass, or one a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.engines.scorer import ScoreRequest, ScoringConfig
from harness.engines.vllm.wire import ROWS_KEY, Rows, WindowPart
from harness.errors import ConfigError
from harness.methods.specprefill.windows import WindowPlan, plan_windows


@dataclass(frozen=True)
class Pass:
    """One request to the speculator's engine.

    ``forced`` look-ahead tokens follow the prompt and are not decoded again (windows other than
    the last).
    """

    tokens: tuple[int, ...]
    config: ScoringConfig
    count: int
    forced: tuple[int, ...] = ()
    window: WindowPart | None = None

    @property
    def fed(self) -> tuple[int, ...]:
        """The tokens that are prefilled."""
        return self.tokens + self.forced

    def params(self) -> Any:
        """The request's ``SamplingParams``: greedy, with the rows to be kept."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        rows = Rows(len(self.tokens) - 1, self.count, self.config.model_dump(), self.window)
        return SamplingParams(
            max_tokens=self.count - len(self.forced),
            temperature=0.0,
            ignore_eos=self.config.ignore_eos,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            extra_args={ROWS_KEY: rows.encode()},
            # A cached row would have no query; only a prompt's last token is always computed.
            skip_reading_prefix_cache=bool(self.forced),
        )


@dataclass(frozen=True)
class Ended:
    """What became of a pass: generated tokens, and each rank's report."""

    tokens: tuple[int, ...]
    ranks: tuple[Mapping[str, Any], ...]

    @property
    def captured(self) -> int:
        """Rows that every rank has captured."""
        return min(int(rank["captured"]) for rank in self.ranks)


@dataclass(frozen=True)
class Speculating:
    """The speculator's facts that a plan depends on: its range, and its start token if any."""

    max_positions: int
    bos: int | None

    def plan(self, request: ScoreRequest) -> WindowPlan | None:
        """The windows of a prompt beyond the range; None where it fits.

        Raises
        ------
        ConfigError
            The prompt is empty, or a window is too short for its look-ahead.
        """
        if not request.token_ids:
            raise ConfigError(f"{request.example_id}: an empty prompt cannot be scored")
        plan = plan_windows(
            len(request.token_ids),
            self.max_positions,
            request.config,
            has_bos=self._has_bos(request),
            tail_tokens=request.tail_tokens,
        )
        return plan if len(plan.windows) > 1 else None

    def passes(self, request: ScoreRequest, plan: WindowPlan, name: str) -> list[Pass]:
        """One pass a window; the last decodes the look-ahead tokens that the others follow.

        Parameters
        ----------
        name
            Under which the workers collect the prompt's windows.
        """
        return [
            Pass(
                tuple(window.tokens(request.token_ids)),
                request.config,
                request.config.look_ahead,
                window=WindowPart(
                    name,
                    number,
                    len(request.token_ids),
                    self.max_positions,
                    self._has_bos(request),
                    request.tail_tokens,
                ),
            )
            for number, window in enumerate(plan.windows)
        ]

    def _has_bos(self, request: ScoreRequest) -> bool:
        return self.bos is not None and request.token_ids[0] == self.bos


def following(passes: Sequence[Pass], ahead: tuple[int, ...]) -> list[Pass]:
    """Windows other than the last, told the look-ahead tokens that the last has decoded.

    Under ``window_end`` each window decodes its own.
    """
    if not passes or passes[0].config.window_query != "prompt_tail":
        return list(passes)
    return [replace(item, forced=ahead, count=len(ahead) + 1) for item in passes]


def merge_ranks(ranks: Sequence[bytes], keys: int) -> npt.NDArray[np.float32]:
    """float32 [N, M]: each rank has its own heads, so the maximum over heads is over ranks."""
    rows = [np.frombuffer(rank, dtype=np.float32).reshape(-1, keys) for rank in ranks]
    merged: npt.NDArray[np.float32] = np.maximum.reduce(rows)
    return merged
