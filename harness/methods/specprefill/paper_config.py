"""The YAML files of the paper's repository, read with the paper's own meaning.

Keys: ``keep_strategy``, ``keep_kwargs.{percentage, chunk, chunk_size}``, ``look_ahead_cnt``,
``pool_kernel_size``, ``ignore_eos`` (Liu, Chen, Zhang, arXiv:2502.02789, public implementation).
``min_tokens`` is ours: the paper's code prunes any prompt, to a single token where 33 are given.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import ConfigError
from harness.methods.specprefill.config import Ends, SpecPrefillConfig
from harness.schema.yaml_files import read_yaml

MIN_TOKENS = 512
"""Prompts below it are prefilled whole where a file does not say: 10 % of it is two chunks."""


class _KeepKwargs(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    percentage: float = Field(gt=0, le=1, allow_inf_nan=False)
    chunk: bool = False
    chunk_size: int = Field(default=32, ge=1)


class _PaperConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    keep_strategy: Literal["percentage"]
    keep_kwargs: _KeepKwargs
    look_ahead_cnt: int = Field(default=8, ge=1)
    pool_kernel_size: int | None = Field(default=None, ge=1)
    ignore_eos: bool = False
    min_tokens: int = Field(default=MIN_TOKENS, ge=0)

    def specprefill(self) -> SpecPrefillConfig:
        keep = self.keep_kwargs
        return SpecPrefillConfig(
            keep=keep.percentage,
            # Without chunks the paper's implementation selects single tokens.
            chunk=keep.chunk_size if keep.chunk else 1,
            look_ahead=self.look_ahead_cnt,
            pool_kernel=self.pool_kernel_size or 0,
            ignore_eos=self.ignore_eos,
            min_tokens=self.min_tokens,
            always_keep=Ends(first=0, last=0),
        )


# The paper's main configuration, p1_full_lah8: used where no file is given.
_DEFAULT: dict[str, Any] = {
    "keep_strategy": "percentage",
    "keep_kwargs": {"percentage": 0.1, "chunk": True, "chunk_size": 32},
    "look_ahead_cnt": 8,
    "pool_kernel_size": 13,
}


def read_paper_config(path: str | Path | None) -> SpecPrefillConfig:
    """Return the configuration that a paper YAML file asks for.

    Parameters
    ----------
    path
        The file; None for the paper's main configuration (10 %, chunks of 32, look-ahead 8).

    Raises
    ------
    ConfigError
        The file is missing, is not YAML, has a key twice, an unknown key or a value out of range.
    """
    if path is None:
        return _PaperConfig.model_validate(_DEFAULT).specprefill()
    raw = read_yaml(Path(path))
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: expected keys such as keep_strategy and keep_kwargs")
    try:
        return _PaperConfig.model_validate(raw).specprefill()
    except ValidationError as error:
        raise ConfigError(f"{path}: {_first_fault(error)}") from error


def _first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    where = ".".join(str(part) for part in fault["loc"]) or "the file"
    if fault["type"] == "extra_forbidden":
        return f"unknown key {where}"
    if fault["type"] == "missing":
        return f"the key {where} is missing"
    return f"{where}: {fault['msg']}"
