"""Import what the processes of a run import, so that Python keeps the byte code."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    # The command, its tables and reports.
    "harness.cli.main",
    "harness.cli.run",
    "harness.run.runner",
    "harness.analysis.summary",
    "harness.report",
    "harness.run.lm_eval_model",
    "lm_eval.api.task",
    "lm_eval.tasks",
    "matplotlib.pyplot",
    # A plan on Ray: the driver and the workers.
    "harness.run.executors.on_ray.executor",
    "harness.run.executors.on_ray.worker",
    "ray",
    # vLLM's engine, its core process and its workers.
    "harness.engines.vllm.engine",
    "vllm.entrypoints.llm",
    "vllm.v1.engine.llm_engine",
    "vllm.v1.engine.core",
    "vllm.v1.executor.multiproc_executor",
    "vllm.model_executor.models.registry",
    "vllm.model_executor.models.llama",
    "vllm.model_executor.models.qwen2",
    "vllm.model_executor.model_loader.default_loader",
    "vllm.v1.structured_output",
    # The transformers engine.
    "harness.engines.hf.engine",
    "transformers.models.llama.modeling_llama",
    # Last: the worker's module decides which shared memory the process uses.
    "vllm.v1.worker.cpu_worker",
)


def main() -> None:
    """Import each; one that does not import is named, and is no fault of a set-up."""
    for name in MODULES:
        try:
            import_module(name)
        except Exception as error:
            print(f"not compiled: {name} ({type(error).__name__}: {error})")


if __name__ == "__main__":
    main()
