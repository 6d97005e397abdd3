"""The speculator in plain transformers: the reference that the vLLM scorer is compared with."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from harness.engines.base import EngineSpec
from harness.engines.hf.model import eos_ids, forward, load_model, new_cache, position_range
from harness.engines.scorer import ScoreRequest, Scores
from harness.engines.vllm.refusals import check_model
from harness.errors import ConfigError
from harness.methods.specprefill.windows import Window, WindowPlan, plan_windows
from harness.models.config_facts import read_config
from harness.models.folders import digest_of

if TYPE_CHECKING:
    from torch import Tensor

    from harness.methods.specprefill.hf_capture import Capture, LayerCapture
    from harness.methods.specprefill.window_merge import WindowMerge


class _Pass(NamedTuple):
    """One run of the speculator over a window."""

    ahead: tuple[int, ...]
    layers: Mapping[int, LayerCapture]


class HfScorer:
    """Scores prompts one after another (implements ``harness.engines.scorer.Scorer``)."""

    def __init__(self, spec: EngineSpec, model: Any) -> None:
        from harness.methods.specprefill.hf_capture import capturing

        self.spec = spec
        self.model = model
        self._eos = eos_ids(model)
        self._bos = model.config.get_text_config().bos_token_id
        self._limit = position_range(model, spec)
        self._stack = ExitStack()
        self._capture: Capture = self._stack.enter_context(capturing(model, self._limit))

    @classmethod
    def open(cls, spec: EngineSpec) -> Self:
        """Load the speculator, ``spec.target``; seconds on a CPU.

        Raises
        ------
        EngineRefusedError
            As of :meth:`check`.
        """
        cls.check(spec)
        from harness.engines.vllm.cpu import prepare_environment

        prepare_environment()
        return cls(spec, load_model(spec))

    @classmethod
    def check(cls, spec: EngineSpec) -> None:
        """Refuse a model that cannot be scored, from ``config.json`` alone.

        Raises
        ------
        EngineRefusedError
            Its attention is not where the scores are taken from.
        """
        check_model(spec.target, read_config(spec.target), "speculator")

    @property
    def identity(self) -> Mapping[str, str]:
        """Engine, version, dtype, device and model digest, for the records."""
        import transformers

        from harness.models.folders import locate

        path = locate(self.spec.target)
        return {
            "engine": "hf",
            "version": f"transformers {transformers.__version__}",
            "dtype": self.spec.dtype,
            "device": str(self.model.device),
            "model_digest": digest_of(path) if path is not None else "unknown",
        }

    @property
    def max_positions(self) -> int:
        """The speculator's position range, which bounds a window."""
        return self._limit

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[Scores]:
        """Score prompts in order, each when it is pulled."""
        for request in requests:
            yield self._score(request)

    def _score(self, request: ScoreRequest) -> Scores:
        import torch

        from harness.methods.specprefill.window_merge import make_merge

        start = time.perf_counter()
        length = len(request.token_ids)
        if not length:
            raise ConfigError(f"{request.example_id}: there are no tokens to score")
        plan = plan_windows(
            length,
            self._limit,
            request.config,
            has_bos=self._bos is not None and request.token_ids[0] == self._bos,
            tail_tokens=request.tail_tokens,
        )
        merge = make_merge(plan, request.config)
        ahead = self.run_windows(request, plan, merge)
        with torch.inference_mode():
            rows = merge.rows().cpu().numpy()
        return Scores(
            example_id=request.example_id,
            rows=rows,
            look_ahead_tokens=ahead,
            windows=len(plan.windows),
            seconds=time.perf_counter() - start,
            counters={"rows_captured": len(rows)},
        )

    def run_windows(
        self, request: ScoreRequest, plan: WindowPlan, merge: WindowMerge
    ) -> tuple[int, ...]:
        """Run every window into ``merge`` and return the last one's look-ahead tokens.

        The last window comes first and decodes them. Under ``prompt_tail`` the others are given
        them (teacher forcing); under ``window_end`` each decodes its own.
        """
        import torch

        shared = request.config.window_query == "prompt_tail"
        ahead: tuple[int, ...] | None = None
        with torch.inference_mode():
            for window in reversed(plan.windows):
                forced = ahead if shared else None
                done = self._pass(window.tokens(request.token_ids), request, forced)
                _collect(merge, window, done)
                if ahead is None:
                    ahead = done.ahead
        assert ahead is not None  # a plan has windows
        return ahead

    def _pass(
        self, tokens: list[int], request: ScoreRequest, forced: tuple[int, ...] | None
    ) -> _Pass:
        """Run one window with its look-ahead rows: decoded, or given."""
        self._capture.start()
        cache = new_cache(self.model)
        try:
            if forced is not None:
                self._capture.rows = 1 + len(forced)
                ids = [*tokens, *forced]
                forward(self.model, ids, range(len(ids)), cache)
                return _Pass(forced, self._capture.layers)
            self._capture.rows = 1
            logits = forward(self.model, tokens, range(len(tokens)), cache)
            ahead = self._decode(logits, len(tokens), request, cache)
            return _Pass(ahead, self._capture.layers)
        finally:
            self._capture.rows = 0

    def _decode(
        self, logits: Tensor, position: int, request: ScoreRequest, cache: Any
    ) -> tuple[int, ...]:
        """Decode up to N−1 look-ahead tokens greedily; an EOS ends them and is none itself."""
        ahead: list[int] = []
        while len(ahead) < request.config.look_ahead - 1:
            token = int(logits[-1].argmax())
            if token in self._eos and not request.config.ignore_eos:
                break
            ahead.append(token)
            logits = forward(self.model, [token], [position], cache)
            position += 1
        return tuple(ahead)

    def close(self) -> None:
        """Restore the model's attention and let go of it. Idempotent."""
        self._stack.close()
        self.model = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _collect(merge: WindowMerge, window: Window, done: _Pass) -> None:
    """Hand a pass's attention logits to the merge, layer by layer."""
    import torch

    from harness.methods.specprefill.importance import attention_logits

    length = len(window)
    for index, layer in done.layers.items():
        assert layer.keys is not None  # noted together with the queries
        queries = torch.cat(layer.queries)
        keys = layer.keys[0].transpose(0, 1)
        logits = attention_logits(queries, keys, layer.scale, layer.softcap)
        merge.add(window, index, logits[..., :length], logits[..., length:])
