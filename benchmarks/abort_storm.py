"""A storm of aborted scoring requests: the speculator lives, scores as before, holds no memory.

Prompts of 16 to 480 tokens are queued, cut off and finished at random in a cache so small that
running requests are preempted. Every hundred requests everything still on its way is aborted, a
reference prompt is scored and compared with its first scores, and the memory of the engine's
processes is read. Written beside this file: abort_storm.txt, as printed.

    python benchmarks/abort_storm.py > benchmarks/abort_storm.txt
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from harness.engines.base import EngineSpec
from harness.engines.scorer import ScoreRequest, Scores, ScoringConfig
from harness.methods.specprefill.vllm.passes import Pass
from harness.methods.specprefill.vllm.scorer import VllmScorer
from harness.models.embedded import prepare_smollm2

LIMIT = 1024
OPTIONS = (("kv_tokens", LIMIT), ("max_num_seqs", 8), ("max_num_batched_tokens", 64))
REFERENCE = tuple((7 * i * i + 13 * i) % 49_000 + 20 for i in range(300))


def small_model(folder: Path) -> str:
    """Write a random model of two layers with the embedded model's tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    embedded = prepare_smollm2()
    config = AutoConfig.from_pretrained(embedded)
    config.num_hidden_layers, config.hidden_size, config.intermediate_size = 2, 256, 512
    config.num_attention_heads, config.num_key_value_heads, config.head_dim = 4, 2, 64
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(embedded).save_pretrained(folder)
    return str(folder)


class Storm:
    """Requests on their way, and what has become of the others."""

    def __init__(self, scorer: VllmScorer, draw: random.Random) -> None:
        self.host = scorer._host
        self.scorer = scorer
        self.draw = draw
        self.live: dict[str, str] = {}
        self.finished = self.aborted = 0

    def add(self) -> None:
        """Queue a prompt whose look-ahead may outgrow the cache."""
        length, rows = self.draw.randint(16, 480), self.draw.choice((1, 8, 200))
        tokens = tuple(self.draw.randint(20, 49_000) for _ in range(length))
        config = ScoringConfig(look_ahead=rows, ignore_eos=True)
        name, internal = self.scorer._add(Pass(tokens, config, rows))
        self.live[name] = internal

    def step(self) -> None:
        """Look at the engine's next outputs; take the scores of what has ended."""
        for output in self.host.step():
            if output.finished and output.request_id in self.live:
                internal = self.live.pop(output.request_id)
                (taken,) = self.host.rpc("specprefill_take_scores", [internal])
                assert set(taken) == {internal}, "a finished request was not scored"
                self.finished += 1

    def abort(self, names: list[str]) -> None:
        """Give requests up, wherever they stand, as an interrupted caller does."""
        self.scorer._give_up([self.live.pop(name) for name in names])
        self.aborted += len(names)


def reference(scorer: VllmScorer) -> Scores:
    """Scores of the reference prompt."""
    config = ScoringConfig(look_ahead=4, ignore_eos=True)
    return next(iter(scorer.score([ScoreRequest("reference", REFERENCE, config)])))


def census(scorer: VllmScorer) -> dict[str, Any]:
    """What the worker counts, with the engine's processes' memory in MiB."""
    (found,) = scorer._host.rpc("specprefill_census")
    used = sum(process.memory_info().rss for process in scorer._host._processes)
    return {**found, "MiB": round(used / 2**20)}


def main() -> None:
    """Run the storm; print a line every hundred requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        spec = EngineSpec("vllm", small_model(Path(folder)), "float32", LIMIT, options=OPTIONS)
        with VllmScorer.open(spec) as scorer:
            run(scorer, given.requests, given.seed)


def run(scorer: VllmScorer, requests: int, seed: int) -> None:
    """Run the storm on an open speculator."""
    fresh = reference(scorer)
    storm = Storm(scorer, random.Random(seed))
    memory = []
    for number in range(1, requests + 1):
        storm.add()
        # Many are cut off somewhere: before, in or after their prefill.
        while len(storm.live) > storm.draw.randint(4, 12):
            if storm.draw.random() < 0.05:  # a step of the engine is a small part of a request
                storm.abort([storm.draw.choice(list(storm.live))])
            else:
                storm.step()
        if number % 100 == 0:
            storm.abort(list(storm.live))
            again = reference(scorer)
            error = float(np.abs(again.rows - fresh.rows).max())
            found = census(scorer)
            memory.append(found["MiB"])
            print(
                f"{number} requests: {storm.finished} finished, {storm.aborted} aborted; "
                f"worker {found}; reference prompt off by {error:.1e}",
                flush=True,
            )
            assert error <= 1e-6, "scores have changed"
            assert found["held"] == 0, "something is still held"
    assert memory[-1] <= 1.05 * memory[0], "memory grows"
    print(f"memory after the first and the last hundred: {memory[0]} and {memory[-1]} MiB")


if __name__ == "__main__":
    main()
