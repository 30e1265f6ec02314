"""Words as the search index holds them: parts of compound names, and the names themselves. Pure.

`resumeSession`, `max_tokens` and `agent/loop/turn.py` are found by each of their parts, and by the whole in
any spelling that has the same parts. Endings of words are the index's own business (Porter's stemming).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

MAX_TERM_CHARS = 40  # of one part; what is longer is a hash or encoded
MAX_COMPOUND_CHARS = 100  # of a compound name
CACHED_WORDS = 1 << 16
MAX_QUERY_TERMS = 32  # of a long query, the most telling ones
NAME_WEIGHT = 1.5  # of a whole compound name, beside its parts

_SHOWN_LINE_NUMBER = re.compile(r"^ *\d{1,7}(?:\t|→)", re.MULTILINE)  # before the lines that `read` shows
_ALPHANUMERIC = re.compile(r"[^\W_]+")
# Possessive, and from the beginning of a word only: a long run would take quadratic time otherwise.
_NAME = re.compile(r"(?<![^\W_])[^\W_]++(?:[_./:\\-]++[^\W_]++)+")
_HUMP = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z][0-9]|[0-9][A-Za-z]")
_CAMEL = re.compile(r"[a-z][A-Z]")  # such a word is a compound name
_HUMP_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_FOLDERS = re.compile(r"[/\\:]+")
_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")  # written without spaces
_QUERY_PIECE = re.compile(r'"([^"]*)"|(\S+)')
_STOP_WORDS = """
    a about after again all already also am an and any are as at be been before being but by can could did do
    does doing done for from get gets got had has have having he her here hers him his how i if in into is it
    its just let like made make me mine more most my no nor not of off on once only or other our ours out over
    own please said say says she should so some such tell than that the their theirs them then there these
    they this those through to too under until up us very was we were what when where which while who whom
    whose why will with would you your yours
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A word to look for as the index holds it; with `is_prefix`, every word that begins so."""

    text: str
    weight: float = 1.0
    is_prefix: bool = False

    @property
    def stem(self) -> str:
        """Its beginning, without an ending: by this it is found in a text."""
        is_whole = self.is_prefix or len(self.text) < 5 or not self.text.isalpha()
        return self.text if is_whole else self.text[: max(4, len(self.text) - 3)]


def document_terms(text: str) -> list[str]:
    """Every term of a text once, in lower case: the words, the parts of names, and the names."""
    text = _SHOWN_LINE_NUMBER.sub(" ", text)
    terms = {term for word in set(_ALPHANUMERIC.findall(text)) for term in _word_terms(word)}
    terms.update(name for match in set(_NAME.findall(text)) for name in _whole_names(match))
    return list(terms)


def query_terms(query: str) -> tuple[QueryTerm, ...]:
    """What to look for: the terms of a query without stop words, unless it has no others.

    `word*` stands for every word that begins so.
    """
    found: dict[str, QueryTerm] = {}
    for quoted, bare in _QUERY_PIECE.findall(query):
        piece = quoted or bare
        is_prefix = not quoted and piece.endswith("*")
        names = {name for match in _NAME.findall(piece) for name in _whole_names(match)}
        for name in names:
            found.setdefault(name, QueryTerm(name, NAME_WEIGHT))
        words = _ALPHANUMERIC.findall(piece)
        for at, word in enumerate(words, 1):
            for term in _word_terms(word):
                weight = NAME_WEIGHT if "_" in term else 1.0
                found.setdefault(term, QueryTerm(term, weight, is_prefix=is_prefix and at == len(words)))
    telling = [term for term in found.values() if term.text not in STOP_WORDS] or list(found.values())
    telling.sort(key=lambda term: -term.weight * len(term.text))
    return tuple(telling[:MAX_QUERY_TERMS])


def is_ideograph(text: str) -> bool:
    """Whether this is one ideograph: texts are indexed by pairs of them."""
    return len(text) == 1 and _IDEOGRAPHS.fullmatch(text * 2) is not None


@lru_cache(maxsize=CACHED_WORDS)
def _word_terms(word: str) -> tuple[str, ...]:
    """A word without separators, and the parts at its humps and digits."""
    if (run := _IDEOGRAPHS.search(word)) is not None:
        return tuple({first + second for first, second in pairwise(run[0])})
    if len(word) > MAX_TERM_CHARS:
        return ()
    if not _HUMP.search(word):
        return (word.lower(),)
    whole = _joined(word) if _CAMEL.search(word) else word.lower()
    return (whole, *map(str.lower, _HUMP_PART.findall(word)))


@lru_cache(maxsize=CACHED_WORDS)
def _whole_names(name: str) -> tuple[str, ...]:
    """A name that is joined of words, as one term: with its folders, and without them."""
    if len(name) > MAX_COMPOUND_CHARS:
        return ()
    whole, last = _joined(name), _joined(_FOLDERS.split(name)[-1])
    return (whole, last) if "_" in last and last != whole else (whole,)


def _joined(name: str) -> str:
    """A name in one spelling, whatever its parts were joined with: `maxTokens` and `max-tokens` are one."""
    parts = (
        _HUMP_PART.findall(word) if _CAMEL.search(word) else (word,) for word in _ALPHANUMERIC.findall(name)
    )
    return "_".join(chain.from_iterable(parts)).lower()
