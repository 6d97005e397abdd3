"""Every knob of SpecPrefill, as one immutable configuration (ALGORITHM.md)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.engines.scorer import ScoringConfig


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Ends(_Frozen):
    """Token counts at the two ends of the prompt.

    ``template`` adds the chat template's own (control) tokens, wherever they stand.
    """

    first: int = Field(default=0, ge=0)
    last: int = Field(default=0, ge=0)
    template: bool = False


class Boost(_Frozen):
    """Multiplies the normalized scores of ``tokens`` tokens by ``factor``."""

    tokens: int = Field(ge=0)
    factor: float = Field(gt=0, allow_inf_nan=False)


class Boosts(_Frozen):
    """Boosts at the two ends of the prompt."""

    first: Boost = Boost(tokens=0, factor=1.0)
    last: Boost = Boost(tokens=0, factor=1.0)


class SelectionConfig(_Frozen):
    """How importance becomes kept tokens (ALGORITHM.md, Selection).

    Attributes
    ----------
    chunk
        Tokens a chunk; 1 is per-token selection.
    keep
        Keep rate in (0, 1], for ``select: rate``.
    select
        ``rate`` keeps ceil(keep × chunks); ``mass`` keeps chunks until their scores sum to
        ``mass`` of the total.
    min_keep, max_keep
        Limits in tokens on what either way of selecting keeps; ``max_keep`` drops the lowest
        scores first. Chunks of ``always_keep`` stay.
    order
        ``highest`` scores first; ``lowest`` is an ablation that should destroy quality.
    """

    keep: float = Field(default=0.1, gt=0, le=1, allow_inf_nan=False)
    chunk: int = Field(default=32, ge=1)
    select: Literal["rate", "mass"] = "rate"
    mass: float = Field(default=0.85, gt=0, le=1, allow_inf_nan=False)
    min_keep: int = Field(default=0, ge=0)
    max_keep: int | None = Field(default=None, ge=1)
    always_keep: Ends = Ends(first=0, last=1)
    boost: Boosts = Boosts()
    normalize_scores: Literal["none", "minmax", "percentile", "zscore"] = "none"
    order: Literal["highest", "lowest"] = "highest"

    @model_validator(mode="after")
    def _limits_agree(self) -> SelectionConfig:
        if self.max_keep is not None and self.min_keep > self.max_keep:
            raise ValueError(f"min_keep {self.min_keep} is above max_keep {self.max_keep}")
        return self

    @model_validator(mode="after")
    def _signs_agree(self) -> SelectionConfig:
        boosts = (self.boost.first, self.boost.last)
        boosting = any(boost.tokens and boost.factor != 1 for boost in boosts)
        if self.normalize_scores == "zscore" and (boosting or self.select == "mass"):
            raise ValueError(
                "normalize_scores: zscore gives negative scores, which neither boost nor "
                "select: mass can use"
            )
        return self


class GuardConfig(_Frozen):
    """When SpecPrefill leaves a prompt alone (ALGORITHM.md, Guards).

    ``scorer_rate`` and ``target_rate`` (tokens per second) override the measured rates.
    """

    enabled: bool = True
    min_tokens: int = Field(default=0, ge=0)
    break_even: bool = False
    safety: float = Field(default=1.2, gt=0, allow_inf_nan=False)
    scorer_rate: float | None = Field(default=None, gt=0)
    target_rate: float | None = Field(default=None, gt=0)
    tool_guard: bool = False


class SpecPrefillConfig(ScoringConfig, SelectionConfig, GuardConfig):
    """Scoring, selection and guards in one flat, frozen configuration.

    ``positions: compacted`` renumbers the kept tokens 0, 1, … (an ablation).
    """

    positions: Literal["original", "compacted"] = "original"

    def scoring(self) -> ScoringConfig:
        """Return the part that the speculator's pass depends on."""
        return ScoringConfig(**{k: getattr(self, k) for k in ScoringConfig.model_fields})
