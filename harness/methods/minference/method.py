"""The method: what to ask of the engine, and with which budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator
from pydantic.dataclasses import dataclass

from harness.engines.base import EngineSpec
from harness.methods.base import MethodContext
from harness.methods.costs import target_shape
from harness.methods.minference.in_vllm import runs_in_vllm
from harness.methods.minference.published import read_patterns
from harness.methods.one_by_one import KeepsShare
from harness.methods.pruning import STRICT, Stopwatch
from harness.methods.strategic import on_transformers, whole_prompt
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind, Cost


@dataclass(frozen=True, config=STRICT)
class MInference(KeepsShare):
    """Compute about ``keep`` of the causal attention pairs; every token keeps its KV.

    It runs on each layer's q, k and v, in one step without chunks or a prefix cache: the estimate
    needs the prompt's last queries. In vLLM it stands behind vLLM's attention backend
    (:mod:`.vllm_step`), elsewhere in the transformers engine. Blocks that are skipped are not
    computed (but where a step of vLLM holds other requests too: its kernel then runs over all,
    and the arm's rows are overwritten). On a GPU that is vLLM's sparse kernel where it fits
    (:mod:`.fused`), else a loop of small matrix products, a *reference kernel*: its quality is
    comparable everywhere, its latency is not that of a sparse kernel, and the receipt says so.

    Attributes
    ----------
    keep
        Share of the causal (query, key) pairs; the achieved share is in the receipt.
    pattern
        ``vertical_slash`` (columns and diagonals estimated from the last ``last_queries``
        queries), ``a_shape`` (sink and local window) or ``block_sparse`` (blocks with the
        highest products of mean query and mean key).
    block
        Rows and columns of a block.
    sink
        First tokens that every query sees.
    pattern_file
        A per-head pattern file as the authors publish them (:mod:`.published`); its patterns and
        sizes then stand instead of ``keep``, ``pattern`` and ``sink``.
    engine
        ``run``: the run's own engine where it has this path, else transformers; ``hf``: always
        transformers.
    """

    name: ClassVar[str] = "minference"
    budget_kind: ClassVar[BudgetKind] = BudgetKind.ATTENTION

    pattern: Literal["vertical_slash", "a_shape", "block_sparse"] = "vertical_slash"
    block: Annotated[int, Field(ge=1)] = 64
    sink: Annotated[int, Field(ge=0)] = 4
    last_queries: Annotated[int, Field(ge=1)] = 64
    pattern_file: str | None = None
    engine: Literal["run", "hf"] = "run"

    @field_validator("pattern_file")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        if value is not None:
            read_patterns(value)
        return value

    def engine_spec(self, base: EngineSpec) -> EngineSpec:
        """Return this attention path on the run's engine, or on transformers."""
        if self.engine == "run" and runs_in_vllm(base):
            return replace(base, attention=self.name)
        return on_transformers(base, attention=self.name)

    @property
    def requested(self) -> float | None:
        """The share of pairs; None where the pattern file decides."""
        return self.keep if self.pattern_file is None else None

    def prepare_one(
        self, prompt: Prompt, context: MethodContext, watch: Stopwatch
    ) -> PreparedPrompt:
        """Return a prompt whole; the strategy counts the pairs it computes."""
        length = len(prompt.token_ids)
        return whole_prompt(
            self,
            prompt,
            watch,
            keep_achieved=None,
            cost=Cost(prefill_tokens=length, kv_tokens=length),
            directives={
                "keep": self.keep,
                "pattern": self.pattern,
                "block": self.block,
                "sink": self.sink,
                "last_queries": self.last_queries,
                "pattern_file": self.pattern_file,
                "shape": target_shape(context),
            },
        )
