"""One vLLM engine with the processes that belong to it: started whole, ended whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from harness.engines.base import EngineSpec
from harness.engines.vllm import arguments, contract, flavour
from harness.engines.vllm.childlog import ChildLog
from harness.engines.vllm.cpu import debugging, prepare_environment, thread_binding
from harness.engines.vllm.refusals import Role, refused
from harness.engines.vllm.wire import check_request
from harness.errors import ConfigError, EngineDiedError, HarnessError, ModelError, nearest
from harness.models.config_facts import (
    kv_bytes_per_token,
    longrope_threshold,
    overridden,
    position_range,
    read_config,
)

_BLOCK = 128  # tokens a KV block on CPU


@dataclass(frozen=True)
class HostOptions:
    """How an engine is started.

    Attributes
    ----------
    role
        ``target`` or ``speculator``: which of our workers runs the model.
    max_model_len
        Positions that tokens may stand at: 0 … max_model_len − 1.
    kv_tokens
        Tokens that the KV cache holds, all running requests together.
    worker_cls
        Another worker than the role's own (an attention path's, a test's).
    attention_backend
        vLLM's name of one, where vLLM shall not choose.
    engine
        Further arguments of vLLM's ``EngineArgs``, as
        :func:`~harness.engines.vllm.arguments.read_arguments` gives them.
    """

    model: str
    role: Role
    dtype: str
    max_model_len: int
    kv_tokens: int
    max_num_seqs: int = 8
    max_num_batched_tokens: int = 4096
    chunked_prefill: bool = True
    prefix_caching: bool = True
    tensor_parallel: int = 1
    load_format: str = "auto"
    trust_remote_code: bool = False
    worker_cls: str | None = None
    attention_backend: str | None = None
    pipeline_parallel: int = 1
    engine: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def from_spec(cls, spec: EngineSpec, role: Role, **defaults: Any) -> HostOptions:
        """Read an engine specification, whose options override ``defaults``.

        Raises
        ------
        ConfigError
            An option is neither one of these fields nor an argument of vLLM's engine.
        """
        given = dict(spec.options)
        taken = {"model", "role", "dtype", "max_model_len", "engine"}
        own = {field.name for field in fields(cls)} - taken
        known = own | arguments.known_types().keys()
        unknown = sorted(given.keys() - known)
        if unknown:
            hint = nearest(unknown[0], known)
            raise ConfigError(f"the vllm engine has no option {unknown[0]!r}{hint}")
        options = {"kv_tokens": 2 * spec.max_model_len, **defaults}
        options |= {name: value for name, value in given.items() if name in own}
        further = tuple(sorted((name, given[name]) for name in given.keys() - own))
        return cls(spec.target, role, spec.dtype, spec.max_model_len, **options, engine=further)

    def config(self) -> dict[str, Any]:
        """The model's ``config.json`` as ``hf_overrides`` change it."""
        return config_of(self.model, self.engine)


class Host:
    """An open ``LLMEngine``. :meth:`close` ends every process that its start made."""

    def __init__(
        self, engine: Any, processes: Sequence[Any], options: HostOptions, log: ChildLog
    ) -> None:
        self.engine = engine
        self.options = options
        self._processes = list(processes)
        self._log = log

    @classmethod
    def start(cls, options: HostOptions) -> Host:
        """Start an engine; takes seconds to tens of seconds.

        Raises
        ------
        HarnessError
            The model or an option does not fit; nothing is left running.
        """
        prepare_environment()
        given = engine_arguments(options)
        before = {child.pid for child in _children()}
        log = ChildLog()
        quiet = contextlib.nullcontext() if debugging() else log.capture()
        try:
            with quiet, _environment(start_variables(options.tensor_parallel)):
                engine = _start(given)
        except BaseException as error:
            _end([child for child in _children() if child.pid not in before])
            cause = log.cause()
            log.close()
            raise _one_line(error, cause, options.model) from error
        started = [child for child in _children() if child.pid not in before]
        host = cls(engine, started, options, log)
        host._check_layers()
        return host

    def _check_layers(self) -> None:
        """Close, and say why, where the loaded layers are none that SpecPrefill can serve."""
        why = next(filter(None, self.rpc("specprefill_refusal")), None)
        if why is not None:
            self.close()
            raise refused(self.options.model, self.options.role, why)

    def add(self, name: str, token_ids: Sequence[int], params: Any, salt: str | None = None) -> str:
        """Queue a request; returns the id under which the workers know it.

        Here is where a request is admitted: no worker sees what it could not read.

        Parameters
        ----------
        name
            The id that its outputs carry; unique among live requests.
        salt
            Cache salt: only requests with the same salt share cached blocks.

        Raises
        ------
        ConfigError
            ``params.extra_args`` holds positions or rows that are not this request's.
        """
        from vllm.inputs import tokens_input

        check_request(params.extra_args, len(token_ids), self.options.max_model_len)

        prompt = tokens_input(list(token_ids), cache_salt=salt)
        with self._alive():
            internal: str = self.engine.add_request(name, prompt, params)
        return internal

    def step(self) -> list[Any]:
        """Wait for the engine's next outputs."""
        with self._alive():
            outputs: list[Any] = self.engine.step()
        return outputs

    @contextlib.contextmanager
    def _alive(self) -> Iterator[None]:
        """Say in one line that, and why, the engine's processes have died."""
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            yield
        except EngineDeadError as error:
            cause = self._log.cause() or "out of memory?"
            raise EngineDiedError(
                f"the vLLM engine of {self.options.model} has died: {cause} "
                "(HARNESS_DEBUG=1 shows its log)"
            ) from error

    def has_outputs(self) -> bool:
        """Whether :meth:`step` would return without waiting."""
        queue = getattr(self.engine.engine_core, "outputs_queue", None)
        return queue is not None and not queue.empty()

    def abort(self, internal: Sequence[str]) -> None:
        """Drop requests by the ids that :meth:`add` gave."""
        if self.engine is not None and internal:
            self.engine.abort_request(list(internal), internal=True)

    def rpc(self, method: str, *args: Any) -> list[Any]:
        """Call a method of every worker by name; one result for each rank."""
        with self._alive():
            results: list[Any] = self.engine.engine_core.collective_rpc(method, args=args)
        return results

    def close(self) -> None:
        """End the engine and its processes. Idempotent."""
        if self.engine is None:
            return
        engine, self.engine = self.engine, None
        try:
            engine.engine_core.shutdown()
        finally:
            _end(self._processes)
            self._log.close()


def config_of(model: str, options: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A model's ``config.json`` as the option ``hf_overrides`` changes it."""
    overrides = dict(options).get("hf_overrides")
    return overridden(read_config(model), arguments.for_vllm("hf_overrides", overrides))


def engine_arguments(options: HostOptions) -> dict[str, Any]:
    """Arguments of vLLM's ``EngineArgs`` for an engine of ours.

    Raises
    ------
    HarnessError
        vLLM is not the one that the hooks are written for, the model's configuration cannot be
        read, or its range is too short.
    """
    contract.check()
    config = options.config()
    _check_range(options, config)
    given = {name: arguments.for_vllm(name, value) for name, value in options.engine}
    own = {
        "model": options.model,
        "dtype": options.dtype,
        "max_model_len": engine_length(options, config),
        "enforce_eager": True,
        "kv_cache_memory_bytes": _kv_bytes(options, config),
        "max_num_seqs": options.max_num_seqs,
        "max_num_batched_tokens": max(options.max_num_batched_tokens, options.max_num_seqs),
        "enable_prefix_caching": options.prefix_caching,
        "enable_chunked_prefill": options.chunked_prefill,
        "async_scheduling": False,
        "tensor_parallel_size": options.tensor_parallel,
        "pipeline_parallel_size": options.pipeline_parallel,
        "load_format": options.load_format,
        "trust_remote_code": options.trust_remote_code,
        "worker_cls": options.worker_cls or flavour.require().worker_class(options.role),
        "attention_backend": options.attention_backend,
        "disable_log_stats": True,
        "use_tqdm_on_load": debugging(),
        "seed": 0,
    }
    if "gpu_memory_utilization" in given and flavour.require().device != "cpu":
        del own["kv_cache_memory_bytes"]  # vLLM sizes the cache by the share of the card
    return own | given


def engine_length(options: HostOptions, config: Mapping[str, Any] | None = None) -> int:
    """Return vLLM's ``max_model_len``, in tokens of prompt and answer.

    A target's answers end inside its positions. A speculator's last row stands at the last
    position, and vLLM counts the token sampled there too, which is never fed: one token more.
    Where that would change the model (LongRoPE's factors follow from this length) the range is
    one position shorter instead.
    """
    length = options.max_model_len
    if options.role == "target":
        return length
    config = options.config() if config is None else config
    return length if longrope_threshold(config) == length else length + 1


def _start(given: Mapping[str, Any]) -> Any:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    return LLMEngine.from_engine_args(EngineArgs(**given))


def _check_range(options: HostOptions, config: dict[str, Any]) -> None:
    limit = position_range(config)
    if limit is not None and options.max_model_len > limit:
        raise ConfigError(
            f"the {options.role} {options.model} knows {limit} positions, "
            f"fewer than the {options.max_model_len} asked for: choose a smaller length"
        )


def _kv_bytes(options: HostOptions, config: dict[str, Any]) -> int:
    """Cache size in bytes: whole blocks, one request of full length at least, vLLM's null block."""
    tokens = max(options.kv_tokens, options.max_model_len + 1)
    blocks = -(-tokens // _BLOCK) + 1
    return blocks * _BLOCK * kv_bytes_per_token(config, options.dtype, options.tensor_parallel)


def start_variables(ranks: int) -> dict[str, str]:
    """Environment variables that differ from start to start."""
    # The one place more, see engine_arguments.
    variables = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}
    binding = os.environ.get("VLLM_CPU_OMP_THREADS_BIND")
    if binding is not None and ranks > 1 and binding.count("|") + 1 != ranks:
        variables["VLLM_CPU_OMP_THREADS_BIND"] = thread_binding(ranks)
    return variables


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _children() -> list[Any]:
    """Processes that ``multiprocessing`` started here, with all below them.

    Python's own resource tracker is no such process: everyone's engines share it.
    """
    import multiprocessing

    import psutil

    found: list[Any] = []
    for child in multiprocessing.active_children():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(child.pid)
            found += [process, *process.children(recursive=True)]
    return found


def _end(processes: Sequence[Any]) -> None:
    """End processes that are still there: ask, wait, then insist."""
    import psutil

    for act in ("terminate", "kill"):
        _, alive = psutil.wait_procs(processes, timeout=0.5 if act == "terminate" else 5)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                getattr(process, act)()
        processes = alive
    psutil.wait_procs(processes, timeout=5)


def kill_tree(pid: int) -> None:
    """Kill a process and all below it, at once: what hangs listens to nothing milder."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (*process.children(recursive=True), process):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()


def _one_line(error: BaseException, cause: str | None, model: str) -> BaseException:
    """Turn a failed start into one line, unless it is ours, an interrupt, or being debugged."""
    if debugging() or isinstance(error, HarnessError) or not isinstance(error, Exception):
        return error
    text = cause or f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return ModelError(f"vLLM could not start {model}: {text} (HARNESS_DEBUG=1 shows its log)")
