"""What a server is asked to be, checked before any model is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from harness.engines.base import EngineSpec
from harness.engines.vllm import flavour
from harness.engines.vllm.arguments import read_arguments
from harness.engines.vllm.host import HostOptions
from harness.engines.vllm.refusals import Role, check_model
from harness.errors import ConfigError
from harness.methods.arms import build_method
from harness.methods.specprefill.config import SpecPrefillConfig
from harness.methods.specprefill.cross_family import speculator_tokenizer
from harness.methods.specprefill.method import SpecPrefill
from harness.methods.specprefill.paper_config import MIN_TOKENS
from harness.models.config_facts import position_range, read_config
from harness.serving.tickets import MAX_LOOK_AHEAD

_DEFAULTS: dict[str, Any] = {
    "min_tokens": MIN_TOKENS,
    "tool_guard": True,
    # The template's own tokens say where a turn begins and who speaks (ALGORITHM.md, Selection).
    "always_keep": {"first": 0, "last": 1, "template": True},
}


@dataclass(frozen=True)
class JoinOptions:
    """What SpecPrefill adds to a vLLM server.

    Attributes
    ----------
    speculator
        Folder or hub name of the speculator's model.
    knobs
        SpecPrefill's options, in place of :data:`_DEFAULTS` and the method's own.
    kv_tokens
        Tokens that the speculator's KV cache holds; twice its range where left out.
    engine
        Further arguments of the speculator's engine, ``name=value,…``
        (:mod:`harness.engines.vllm.arguments`).
    timeout_s
        Seconds that a prompt may wait for its scores before it is prefilled whole.
    drain_s
        Seconds that requests in flight have when the server is told to stop.
    max_body
        Bytes that a request's body may have.
    """

    speculator: str
    knobs: Mapping[str, Any] = field(default_factory=dict)
    kv_tokens: int | None = None
    max_num_seqs: int = 8
    engine: str = ""
    timeout_s: float = 60.0
    drain_s: float = 30.0
    max_body: int = 16 * 2**20

    def __post_init__(self) -> None:
        for name in ("timeout_s", "max_body", "max_num_seqs"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0, not {getattr(self, name)}")
        if not self.drain_s >= 0:
            raise ConfigError(f"drain_s must be at least 0, not {self.drain_s}")
        self.config()
        read_arguments(self.engine, "speculator")

    def config(self) -> SpecPrefillConfig:
        """SpecPrefill's configuration.

        Raises
        ------
        ConfigError
            A knob is unknown or outside its range.
        """
        method = cast(SpecPrefill, build_method("specprefill", {**_DEFAULTS, **self.knobs}))
        if method.config.look_ahead > MAX_LOOK_AHEAD:
            raise ConfigError(
                f"look_ahead is {method.config.look_ahead}, above the server's {MAX_LOOK_AHEAD}"
            )
        return method.config

    def scorer(self, target_len: int, dtype: str) -> HostOptions:
        """How the speculator is started, beside a target of ``target_len`` positions.

        Raises
        ------
        HarnessError
            The model cannot be a speculator, or an argument of its engine does not fit.
        """
        config = read_config(self.speculator)
        check_model(self.speculator, config, "speculator")
        longest = target_len + MAX_LOOK_AHEAD
        length = min(position_range(config) or longest, longest)
        worker = flavour.require().worker_class("speculator", "harness.methods.specprefill.vllm")
        return _host_options(
            EngineSpec("vllm", self.speculator, dtype, length),
            "speculator",
            self.engine,
            kv_tokens=self.kv_tokens or 2 * length,
            max_num_seqs=self.max_num_seqs,
            # Long prompts are scored in steps this short, so that others' scores come in between.
            max_num_batched_tokens=2048,
            prefix_caching=True,
            worker_cls=worker,
        )

    def other_tokenizer(self, target: str) -> str | None:
        """The speculator's name where its tokenizer is not the target's; None where it is."""
        return None if speculator_tokenizer(target, self.speculator) is None else self.speculator


@dataclass(frozen=True)
class ServeOptions:
    """A server from its first word: ``harness serve``.

    Attributes
    ----------
    target
        Folder or hub name of the target's model.
    name
        What clients call it.
    max_model_len
        Tokens of prompt and answer together; the target's range where left out.
    kv_tokens
        Tokens that the target's KV cache holds; twice ``max_model_len`` where left out.
    engine
        Further arguments of the target's engine, ``name=value,…``.
    vllm
        Further options of vLLM's own server, as on its command line.
    """

    target: str
    name: str
    join: JoinOptions
    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: tuple[str, ...] = ()
    dtype: str = "bfloat16"
    max_model_len: int | None = None
    kv_tokens: int | None = None
    max_num_seqs: int = 32
    engine: str = ""
    vllm: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"--port is {self.port}: a port is a number 0…65535")
        if self.dtype not in {"bfloat16", "float32"}:
            raise ConfigError(f"--dtype is {self.dtype}: it takes bfloat16 or float32")
        if self.max_num_seqs < 1:
            raise ConfigError(f"--max-num-seqs is {self.max_num_seqs}: at least 1")
        read_arguments(self.engine, "target")

    def target_options(self) -> HostOptions:
        """How the target is started.

        Raises
        ------
        HarnessError
            The model cannot be a target, or its range is too short.
        """
        config = read_config(self.target)
        check_model(Path(self.target).name, config, "target")
        limit = position_range(config)
        length = self.max_model_len or limit or 8192
        if length < 2 or (limit is not None and length > limit):
            raise ConfigError(
                f"--max-model-len is {length}: {self.name} takes 2…{limit or 'any'} tokens"
            )
        return _host_options(
            EngineSpec("vllm", self.target, self.dtype, length),
            "target",
            self.engine,
            kv_tokens=self.kv_tokens or 2 * length,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=2048,
        )


def _host_options(spec: EngineSpec, role: Role, further: str, **ours: Any) -> HostOptions:
    """Ours, and on top of them what the user says of the engine."""
    given = tuple(read_arguments(further, role).items())
    return HostOptions.from_spec(replace(spec, options=given), role, **ours)
