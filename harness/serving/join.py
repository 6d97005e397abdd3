"""Where SpecPrefill enters vLLM's server: its engine client and its app are built by us.

vLLM's own entry (``vllm.entrypoints.launchers.api_server.entry``) makes an engine client, makes
an app around it, and serves. Both makers are looked up by name there; while a :class:`Join` is
installed they are ours, and all else is vLLM's own.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from harness.engines.vllm.childlog import ChildLog
from harness.errors import ConfigError, HarnessError, ModelError
from harness.methods.base import MethodContext
from harness.methods.specprefill.vllm.async_scorer import AsyncVllmScorer
from harness.models.tokenizer import Tokenizer
from harness.serving.arguments import check_server_options
from harness.serving.checks import check_hooks, measure_rates
from harness.serving.metrics import Metrics
from harness.serving.middleware import SpecPrefillMiddleware
from harness.serving.options import JoinOptions
from harness.serving.planner import Planner
from harness.serving.speculator import Speculator

if TYPE_CHECKING:
    from harness.serving.client import SpecPrefillLLM

_POLL_S = 0.05
_MAKERS = ("build_async_engine_client", "build_app")


class Join:
    """SpecPrefill in one server process.

    Parameters
    ----------
    quiet
        Keep what the engines' processes print while they start, and tell a failure in one line.
    ready
        Called once the server listens.
    """

    def __init__(
        self,
        options: JoinOptions,
        *,
        quiet: bool = False,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.options = options
        self.config = options.config()
        self._quiet = quiet
        self._ready = ready
        self._metrics = Metrics()
        self._client: SpecPrefillLLM | None = None
        self._announcing: asyncio.Task[None] | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Put our makers in the place of vLLM's, for a while."""
        from vllm.entrypoints.launchers.api_server import entry

        before = {name: getattr(entry, name) for name in _MAKERS}
        self.install(entry)
        try:
            yield
        finally:
            for name, maker in before.items():
                setattr(entry, name, maker)

    def install(self, entry: Any) -> None:
        """Put our makers in the place of vLLM's, for good."""
        build_app = entry.build_app

        def build_app_with_tickets(*args: Any, **kwargs: Any) -> Any:
            from starlette.middleware import Middleware

            app = build_app(*args, **kwargs)
            # The last in the list is the innermost: what vLLM's authentication has let pass.
            app.user_middleware.append(
                Middleware(
                    SpecPrefillMiddleware, max_body=self.options.max_body, health=self.health
                )
            )
            app.middleware_stack = None  # vLLM has built it already
            self._announcing = asyncio.get_running_loop().create_task(self._announce(app))
            return app

        entry.build_app = build_app_with_tickets
        entry.build_async_engine_client = self.engine_client

    async def _announce(self, app: Any) -> None:
        """Wait until vLLM's server listens."""
        while not getattr(getattr(app.state, "server", None), "started", False):
            await asyncio.sleep(_POLL_S)
        self._ready()

    @asynccontextmanager
    async def engine_client(
        self, args: Namespace, *, client_config: Any = None, **_: Any
    ) -> AsyncIterator[SpecPrefillLLM]:
        """Start target and speculator, show that both hooks run, and end them afterwards.

        Raises
        ------
        HarnessError
            The options or a model do not fit.
        """
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.usage.usage_lib import UsageContext

        from harness.serving.client import SpecPrefillLLM

        check_server_options(vars(args))
        if client_config:
            raise ConfigError("SpecPrefill serves from one API server: --api-server-count 1")
        engine_args = AsyncEngineArgs.from_cli_args(args)
        client: SpecPrefillLLM | None = None
        speculator: Speculator | None = None
        try:
            with told_in_one_line(self._quiet):
                vllm_config = engine_args.create_engine_config(UsageContext.OPENAI_API_SERVER)
                client = SpecPrefillLLM.from_vllm_config(
                    vllm_config,
                    usage_context=UsageContext.OPENAI_API_SERVER,
                    enable_log_requests=engine_args.enable_log_requests,
                    disable_log_stats=engine_args.disable_log_stats,
                )
                client.metrics, client.drain_s = self._metrics, self.options.drain_s
                await client.reset_mm_cache()
                speculator = self._speculator(client.model_config)
                await speculator.open()
                await check_hooks(client, speculator, self.config)
                client.planner = await self._planner(client, speculator)
            self._client = client
            yield client
        finally:
            if client is not None:
                client.shutdown(timeout=client.vllm_config.shutdown_timeout)
            if speculator is not None:
                speculator.close()

    def _speculator(self, target: Any) -> Speculator:
        dtype = str(target.dtype).removeprefix("torch.")
        scorer = self.options.scorer(target.max_model_len, dtype)
        return Speculator(
            lambda: AsyncVllmScorer.open(scorer), self.options.timeout_s, self._metrics
        )

    async def _planner(self, client: SpecPrefillLLM, speculator: Speculator) -> Planner:
        model, config = client.model_config, self.config
        asks = config.break_even and None in (config.scorer_rate, config.target_rate)
        context = MethodContext(
            tokenizer=await asyncio.to_thread(Tokenizer.load, model.tokenizer),
            speculator=self.options.other_tokenizer(model.model),
            max_positions=model.max_model_len,
            rates=await measure_rates(client, speculator) if asks else None,
        )
        return Planner(config, context, speculator)

    def health(self) -> dict[str, str]:
        """What runs: for ``/health`` and ``/ready``."""
        client = self._client
        if client is None or client.errored:
            return {"status": "down", "target": "down", "speculator": "unknown"}
        up = client.planner.speculator.up
        status = "draining" if client.draining else "ok" if up else "degraded"
        return {"status": status, "target": "up", "speculator": "up" if up else "restarting"}


@contextmanager
def told_in_one_line(quiet: bool) -> Iterator[None]:
    """Keep what is printed while the engines start; say of a failure its cause, in one line."""
    if not quiet:
        yield
        return
    log = ChildLog()
    try:
        with log.capture():
            yield
    except HarnessError:
        raise
    except Exception as error:
        cause = log.cause() or f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        raise ModelError(
            f"vLLM could not start: {cause} (HARNESS_DEBUG=1 shows its log)"
        ) from error
    finally:
        log.close()
