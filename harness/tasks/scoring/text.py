"""Token F1, ROUGE-L and code similarity as LongBench's official code computes them.

Source: Bai et al., "LongBench" (arXiv 2308.14508) and the behaviour of THUDM/LongBench's
``metrics.py``. Every function returns a score in [0, 1] for one prediction and one answer.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cache
from typing import Any

ARTICLES = re.compile(r"\b(a|an|the)\b")
ASCII_PUNCTUATION = frozenset(string.punctuation)
CHINESE_PUNCTUATION = frozenset(
    "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿"
    "–—‘’‛“”„‟…‧﹏."
)


def _without(text: str, characters: frozenset[str]) -> str:
    return "".join(c for c in text if c not in characters)


def english_tokens(text: str) -> list[str]:
    """Lower case, no punctuation, no articles, split at white space (SQuAD's normalisation).

    >>> english_tokens("The blue-whale, a mammal.")
    ['bluewhale', 'mammal']
    """
    return ARTICLES.sub(" ", _without(text.lower(), ASCII_PUNCTUATION)).split()


def chinese_tokens(text: str) -> list[str]:
    """Words as jieba cuts them, lower case, without punctuation and white space."""
    unwanted = ASCII_PUNCTUATION | CHINESE_PUNCTUATION
    bare = ("".join(_without(word.lower(), unwanted).split()) for word in _jieba().cut(text))
    return [word for word in bare if word]


def token_f1(prediction: Sequence[str], answer: Sequence[str]) -> float:
    """Harmonic mean of token precision and recall, tokens counted as often as they occur."""
    common = sum((Counter(prediction) & Counter(answer)).values())
    if not common:
        return 0.0
    precision, recall = common / len(prediction), common / len(answer)
    return 2 * precision * recall / (precision + recall)


def qa_f1(prediction: str, answer: str) -> float:
    """Token F1 of normalised English text."""
    return token_f1(english_tokens(prediction), english_tokens(answer))


def qa_f1_zh(prediction: str, answer: str) -> float:
    """Token F1 of Chinese words."""
    return token_f1(chinese_tokens(prediction), chinese_tokens(answer))


def rouge_l(prediction: str, answer: str) -> float:
    """ROUGE-L's F of the ``rouge`` package; 0.0 where it refuses a text (an empty one)."""
    try:
        found = _rouge().get_scores([prediction], [answer], avg=True)
    except (ValueError, RecursionError):
        return 0.0
    return float(found["rouge-l"]["f"])


def rouge_l_zh(prediction: str, answer: str) -> float:
    """ROUGE-L over jieba's words."""
    return rouge_l(*(" ".join(_jieba().cut(text)) for text in (prediction, answer)))


def code_similarity(prediction: str, answer: str) -> float:
    """Edit similarity of the first line that is neither comment nor mark-up, in whole per cent.

    The official code calls fuzzywuzzy's ratio, which is difflib's where python-Levenshtein is not
    installed, as in LongBench's requirements. Other matchers differ by up to ten points.
    """
    lines = prediction.lstrip("\n").split("\n")
    first = next((line for line in lines if not any(m in line for m in ("`", "#", "//"))), "")
    return round(100 * SequenceMatcher(None, first, answer).ratio()) / 100


@cache
def _jieba() -> Any:
    import logging

    import jieba

    jieba.setLogLevel(logging.WARNING)
    return jieba


@cache
def _rouge() -> Any:
    from rouge import Rouge

    return Rouge(metrics=["rouge-l"])
