"""What a server shows of itself before it takes requests: both hooks run; how fast it prefills."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from harness.engines.scorer import ScoreRequest
from harness.engines.vllm.refusals import refused
from harness.engines.vllm.wire import POSITIONS_KEY, encode_positions
from harness.errors import HarnessError
from harness.methods.specprefill.config import SpecPrefillConfig
from harness.serving.speculator import Speculator, SpeculatorUnavailableError

if TYPE_CHECKING:
    from harness.serving.client import SpecPrefillLLM

_CHECK_TOKENS = 64
_RATE_TOKENS = 2048


async def check_hooks(
    client: SpecPrefillLLM, speculator: Speculator, config: SpecPrefillConfig
) -> None:
    """Run one small prompt through both engines, so that no request is the first.

    Raises
    ------
    HarnessError
        A model's layers are none that SpecPrefill can serve, the target's positions were not
        edited, or the speculator captured no row.
    """
    why = next(filter(None, await client.collective_rpc("specprefill_refusal")), None)
    if why is not None:
        raise refused(client.model_config.model, "target", why)
    count = max(1, min(_CHECK_TOKENS, client.model_config.max_model_len - 1))
    steps = await _positions_applied(client, count)
    if not steps:
        raise HarnessError("the target's position hook did not run: is its worker_cls another?")
    request = ScoreRequest("check", tuple([1] * count), config.scoring())
    try:
        scores = await speculator.score(request)
    except SpeculatorUnavailableError as error:
        raise HarnessError(f"the speculator gave no scores at start: {error}") from error
    if not scores.counters.get("rows_captured"):
        raise HarnessError("the speculator's hook captured no query row")


async def _positions_applied(client: SpecPrefillLLM, count: int) -> int:
    """Steps in which the hook wrote positions of a prompt kept whole, the least of all ranks."""
    params = _one_token()
    params.extra_args = {POSITIONS_KEY: encode_positions(range(count), count)}
    queue = await client.add_request("specprefill-check", _tokens(count), params)
    while not (queue.get_nowait() or await queue.get()).finished:
        pass
    ranks = await client.collective_rpc("specprefill_take_steps", args=([queue.request_id],))
    return min(int(rank[queue.request_id]) for rank in ranks)


async def measure_rates(client: SpecPrefillLLM, speculator: Speculator) -> dict[str, float]:
    """Prefill tokens per second of both engines, each alone: the second of two runs."""
    count = min(_RATE_TOKENS, client.model_config.max_model_len - 1)
    rates: dict[str, float] = {}
    for offset in (1, 2):  # other tokens each time: nothing may come from the prefix cache
        ids = [offset] * count
        rates["scorer"] = count / await speculator.prefill_seconds(ids)
        began = time.perf_counter()
        queue = await client.add_request(
            f"specprefill-rate-{offset}", _tokens(count, offset), _one_token()
        )
        while not (queue.get_nowait() or await queue.get()).finished:
            pass
        rates["target"] = count / (time.perf_counter() - began)
    return rates


def _one_token() -> Any:
    from vllm import SamplingParams

    return SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True)


def _tokens(count: int, token: int = 1) -> Any:
    from vllm.inputs import tokens_input

    return tokens_input([token] * count)
