"""Rank passages by a question: lexically (BM25) or by embeddings.

A retriever gives one score a passage; higher is more relevant. Ties are the caller's to break.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.engines.hf.model import no_progress_bar
from harness.errors import ModelError
from harness.models.folders import locate

_WORD = re.compile(r"[぀-ヿ㐀-鿿가-힯]|\w+")

_PROGRESS_FROM = 2048
"""Passages from which embedding takes long enough for a progress bar on a terminal."""


class Retriever(Protocol):
    """Scores passages against a question."""

    def scores(self, query: str, passages: Sequence[str]) -> npt.NDArray[np.float32]:
        """Relevance of each passage: float32 [len(passages)]."""


class Bm25:
    """BM25 (Robertson & Zaragoza 2009) through the ``bm25s`` package.

    Words are runs of letters and digits in lower case; Chinese, Japanese and Korean characters
    count one by one, since they come without blanks. No stop words, no stemming: the keys that
    long-context tasks ask for must match exactly.
    """

    def scores(self, query: str, passages: Sequence[str]) -> npt.NDArray[np.float32]:
        """Relevance of each passage: float32 [len(passages)], all 0 where no word is shared."""
        import bm25s

        corpus = [_words(passage) for passage in passages]
        known = {word for words in corpus for word in words}
        asked = [word for word in _words(query) if word in known]
        if not asked:
            return np.zeros(len(passages), dtype=np.float32)
        index = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
        index.index(corpus, show_progress=False)
        return np.asarray(index.get_scores(asked), dtype=np.float32)


class Dense:
    """Cosine similarity of sentence embeddings, with any ``sentence-transformers`` model.

    Parameters
    ----------
    model
        Folder or hub name; a hub name must be in the local cache already, since nothing is
        downloaded during a measurement.
    batch_size
        Passages embedded at once.

    Raises
    ------
    ModelError
        The package or the model is not on this machine.
    """

    def __init__(self, model: str, batch_size: int = 64) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise ModelError(
                "dense retrieval needs sentence-transformers: pip install "
                "'specprefill-harness[dense]'"
            ) from error
        try:
            with no_progress_bar():
                self._model: Any = SentenceTransformer(model, local_files_only=True)
        except (OSError, ValueError) as error:
            raise ModelError(
                f"no embedding model {model!r} on this machine: give a folder, or fetch it first "
                f"with `hf download {model}`"
            ) from error
        self._batch_size = batch_size

    def scores(self, query: str, passages: Sequence[str]) -> npt.NDArray[np.float32]:
        """Cosine of each passage's embedding with the question's: float32 [len(passages)]."""
        show = len(passages) >= _PROGRESS_FROM and sys.stderr.isatty()
        rows = self._embed(passages, show)
        similarity: npt.NDArray[np.float32] = rows @ self._embed([query], False)[0]
        return similarity

    def _embed(self, texts: Sequence[str], show: bool) -> npt.NDArray[np.float32]:
        rows = self._model.encode(
            list(texts),
            batch_size=self._batch_size,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=show,
        )
        return np.asarray(rows, dtype=np.float32)


def model_is_here(model: str) -> bool:
    """Whether ``model`` is a model folder or a hub name in the local cache."""
    try:
        return locate(model) is not None
    except ModelError:
        return False


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
