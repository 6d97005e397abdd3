"""The paper's YAML files, with the paper's meaning."""

from __future__ import annotations

import pytest

from harness.errors import ConfigError
from harness.methods.specprefill.config import Ends
from harness.methods.specprefill.paper_config import read_paper_config

FULL = """
keep_strategy: percentage
keep_kwargs: {chunk: true, chunk_size: 32, percentage: 0.3}
look_ahead_cnt: 4
pool_kernel_size: 13
"""


def write(folder, text):
    """A file with ``text``."""
    path = folder / "config.yaml"
    path.write_text(text)
    return path


def test_full_configuration(tmp_path):
    """Every key lands, and nothing is always kept."""
    config = read_paper_config(write(tmp_path, FULL))
    assert (config.keep, config.chunk, config.look_ahead, config.pool_kernel) == (0.3, 32, 4, 13)
    assert config.always_keep == Ends(first=0, last=0)


def test_plain_configuration_selects_single_unpooled_tokens(tmp_path):
    """Without chunk and pool_kernel_size the paper's code does neither."""
    text = "keep_strategy: percentage\nkeep_kwargs: {percentage: 0.1}\nlook_ahead_cnt: 1\n"
    config = read_paper_config(write(tmp_path, text))
    assert (config.chunk, config.pool_kernel, config.look_ahead) == (1, 0, 1)


def test_default_is_the_papers_main_configuration():
    """p1_full_lah8."""
    config = read_paper_config(None)
    assert (config.keep, config.chunk, config.look_ahead, config.pool_kernel) == (0.1, 32, 8, 13)


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("chunk_size", "chunk_sise", "unknown key keep_kwargs.chunk_sise"),
        ("look_ahead_cnt", "look_ahead", "unknown key look_ahead"),
        ("percentage: 0.3", "percentage: 1.3", "keep_kwargs.percentage"),
        ("strategy: percentage", "strategy: random", "keep_strategy"),
        ("keep_strategy: percentage", "", "the key keep_strategy is missing"),
        ("pool_kernel_size: 13", "pool_kernel_size: 12", "odd"),
        ("keep_kwargs: {", "keep_kwargs: [", "not valid YAML"),
    ],
)
def test_faults_name_file_and_key(tmp_path, old, new, names):
    """A misspelt key or a value out of range raises; nothing is dropped in silence."""
    path = write(tmp_path, FULL.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        read_paper_config(path)
    assert names in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file(tmp_path):
    """The path is in the error."""
    with pytest.raises(ConfigError, match="absent"):
        read_paper_config(tmp_path / "absent.yaml")
