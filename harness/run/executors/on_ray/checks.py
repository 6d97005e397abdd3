"""Whether a node has what a run needs: the same code and the same models, told by digest."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.engines.vllm import flavour
from harness.errors import ConfigError, HarnessError
from harness.models.folders import digest_of, locate
from harness.models.presets import ResolvedModels, resolve
from harness.run import provenance
from harness.run.executors.on_ray.cluster import node_name
from harness.run.plan import Plan


@dataclass(frozen=True)
class Needs:
    """What every node must have, as the driver has it.

    Attributes
    ----------
    code
        Digest of the harness and its tasks.
    preset, target, speculator
        The pair as the node is to look it up: folders may lie elsewhere there.
    digests
        Of the pair, by role.
    own_models
        Digests of the models that single methods use, by name.
    """

    version: str
    code: str
    preset: str | None
    target: str | None
    speculator: str | None
    digests: Mapping[str, str]
    own_models: Mapping[str, str]

    @classmethod
    def of(cls, plan: Plan) -> Needs:
        """What a plan needs of a node."""
        config, models = plan.config, plan.models
        own: dict[str, str] = {}
        for cell in plan.cells:
            for name, digest in cell.record.identity.get("models", {}).items():
                if digest is not None:
                    own[name] = digest
        by_name = config.target is None
        return cls(
            version=provenance.version(),
            code=provenance.code_digest(),
            preset=models.preset,
            target=None if by_name else _portable(str(config.target), models.target),
            speculator=None if by_name else _portable(str(config.speculator), models.speculator),
            digests=dict(models.digests),
            own_models=own,
        )


@dataclass(frozen=True)
class Facts:
    """What a node is and has.

    Attributes
    ----------
    node, node_id
        Host name with the start of Ray's id (one host may carry several nodes), and that id.
    device
        What computes: the GPUs that this process sees, or the processor.
    machine
        Class of the machine: times of unlike classes are never pooled.
    lacks
        What is absent or other than on the driver, a phrase each.
    """

    node: str
    node_id: str
    device: str
    machine: str
    vllm: str | None
    ray: str
    lacks: tuple[str, ...]


def examine(needs: Needs) -> tuple[Facts, ResolvedModels | None]:
    """Look at this node; None in place of the models where they are not all there."""
    lacks = []
    if provenance.code_digest() != needs.code:
        lacks.append(
            f"has other code of the harness ({provenance.version()}, "
            f"{provenance.code_digest()[:12]}) than this machine ({needs.version}, "
            f"{needs.code[:12]}): install the same"
        )
    models = None
    try:
        models = resolve(needs.preset if needs.target is None else None, *_pair(needs))
    except HarnessError as error:
        lacks.append(f"lacks a model: {error}")
    else:
        lacks += [
            f"has another {role} ({models.digests[role][:12]}) than this machine ({digest[:12]}): "
            f"copy the model there again"
            for role, digest in needs.digests.items()
            if models.digests[role] != digest
        ]
    lacks += [line for name, digest in needs.own_models.items() if (line := _lack(name, digest))]
    return _facts(lacks), None if lacks else models


def facts_here() -> Facts:
    """What this machine is, lacking nothing."""
    return _facts(())


def machine_class(machine: Mapping[str, Any]) -> str:
    """Say what must be equal for times of two machines to stand side by side."""
    return f"{machine['class']}, {machine['cpu']}"


def require_equal_vllm(found: Mapping[str, Facts]) -> None:
    """Refuse nodes with different releases of vLLM: their numbers would be mixed.

    Parameters
    ----------
    found
        Facts by node name.

    Raises
    ------
    ConfigError
        Two nodes differ, with their names.
    """
    versions: dict[str | None, str] = {}
    for name, facts in found.items():
        versions.setdefault(facts.vllm, name)
    if len(versions) > 1:
        listed = ", ".join(f"{node} has {vllm or 'none'}" for vllm, node in versions.items())
        raise ConfigError(f"the nodes have different releases of vLLM: {listed}; install one")


def require_complete(found: Mapping[str, Facts]) -> None:
    """Refuse nodes that lack something.

    Raises
    ------
    ConfigError
        The first of them with what it lacks, and how many others do.
    """
    short = {name: facts.lacks for name, facts in found.items() if facts.lacks}
    if not short:
        return
    name, lacks = next(iter(short.items()))
    others = f" ({len(short) - 1} more nodes are short too)" if len(short) > 1 else ""
    raise ConfigError(f"node {name} {'; it also '.join(lacks)}{others}")


def _pair(needs: Needs) -> Sequence[str | None]:
    return needs.target, needs.speculator


def _portable(given: str, folder: object) -> str:
    """A hub name as it stands, a folder by its whole path: a node's working directory differs."""
    is_hub_name = given.count("/") == 1 and not given.startswith((".", "/", "~"))
    return given if is_hub_name and str(folder) != given else str(folder)


def _lack(name: str, digest: str) -> str | None:
    try:
        folder = locate(name)
    except HarnessError as error:
        return f"lacks a model: {error}"
    if folder is None:
        return f"lacks the model {name}: copy it there"
    if digest_of(folder) != digest:
        return f"has another {name} than this machine: copy the model there again"
    return None


def _facts(lacks: Sequence[str]) -> Facts:
    machine = provenance.machine()
    gpus = [str(name) for name in machine["gpus"]]
    found = flavour.installed()
    node_id = _node_id()
    return Facts(
        node=node_name(socket.gethostname(), node_id),
        node_id=node_id,
        device=_device(gpus) if gpus else str(machine["cpu"]),
        machine=machine_class(machine),
        vllm=None if found is None else f"{found.distribution} {found.version}",
        ray=f"{importlib.metadata.version('ray')} on Python {platform.python_version()}",
        lacks=tuple(lacks),
    )


def _node_id() -> str:
    """Ray's id of this node; empty outside Ray."""
    import ray

    return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""


def _device(gpus: Sequence[str]) -> str:
    """Name the GPUs that this process may use, with their numbers on the node."""
    visible = [int(i) for i in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if i.isdigit()]
    if not visible or max(visible) >= len(gpus):
        return f"{len(gpus)}x {gpus[0]}"
    return f"{gpus[visible[0]]} #{','.join(map(str, visible))}"
