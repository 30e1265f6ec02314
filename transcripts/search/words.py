"""Split text into the terms of the search index: words, and the parts of compound names. Pure.

`resumeSession` and `max_tokens` are found by their parts, `i18n` as a whole. A word ends where its script
changes (`使用Redis`); text without spaces is stored as pairs of characters. FTS5 handles stems and accents.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple
from unicodedata import normalize

from ..patterns import lazy_bytes_pattern, lazy_pattern

MAX_QUERY_TERMS = 32  # the longest terms of a long query
TERMS_PER_REPEAT = 120  # of a text: in a longer one a term must occur more often to count as repeated
MAX_TERM_CHARS = 40  # of the beginning of a long word
MAX_DATA_CHARS = 12  # of the beginning of a hash or other data, enough to identify it
USER_TERM = "zzwrittenbyuser"  # of every fact that the user wrote: rare, since most facts are from tools

# Thai to Myanmar, Khmer, the scripts of Chinese, Japanese and Korean.
_UNSPACED = (
    r"\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    r"\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
)
_LATIN = r"a-zA-Z\u00c0-\u024f"
_EMOJI = r"\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
_ONE_SCRIPT = lazy_pattern(rf"[{_LATIN}0-9]+|[{_UNSPACED}]+|[{_EMOJI}]|[^\W_{_LATIN}{_UNSPACED}]+")
_ONE_UNSPACED = lazy_pattern(f"[{_UNSPACED}]+")
_LINE_NUMBER = lazy_bytes_pattern("\n *\\d{1,7}(?:[\t:-]|→)(?!\\d)".encode())  # faster than with `^`
_WORD = lazy_bytes_pattern(rb"([0-9A-Za-z\x80-\xff]+)(\*?)")
_SPACED = bytes(byte if byte > 127 or chr(byte).isalnum() else ord(" ") for byte in range(256))
_PART = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_HASH = lazy_pattern(r"(?=[0-9]*[a-fA-F])[0-9a-fA-F]{8,}")
_STOP_WORDS = """
    a about after again all already also am an and any are as at be been before being but by can could did do
    does doing done for from get gets got had has have having he her here hers him his how i if in into is it
    its just let like made make me mine more most my no nor not of off on once only or other our ours out over
    own please said say says she should so some such tell than that the their theirs them then there these
    they this those through to too under until up us very was we were what when where which while who whom
    whose why will with would you your yours
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


class QueryTerm(NamedTuple):
    """A term to search for, in the form of the index; with `is_prefix`, every term that begins with it."""

    text: str
    is_prefix: bool = False


def document_terms(text: str) -> dict[str, int]:
    """Return the terms of a text in lower case, without stop words: 2 for a term that is repeated, else 1.

    More repeats than one hardly change bm25, and take space; in a long text more count as one.
    """
    shown = _LINE_NUMBER.sub(b"\n", b"\n" + text.encode("utf-8", "replace"))
    counts = dict[str, int]()
    for word, times in Counter(shown.translate(_SPACED).split()).items():
        for term in _word_terms(word):
            counts[term] = counts.get(term, 0) + times
    most_once = 1 + len(counts) // TERMS_PER_REPEAT
    return {term: 1 + (times > most_once) for term, times in counts.items() if term not in STOP_WORDS}


def query_terms(query: str) -> tuple[QueryTerm, ...]:
    """Return the terms of a query, longest first. `word*` matches every word with this prefix."""
    found = dict[str, QueryTerm]()
    for word, star in _WORD.findall(normalize("NFC", query).encode("utf-8", "replace")):
        terms = _word_terms(word)
        for term in terms:
            begins_pair = len(term) == 1 and is_unspaced(term)
            ends_pair = begins_pair and any(other.endswith(term) for other in terms if other != term)
            if not ends_pair and term not in STOP_WORDS:
                is_prefix = begins_pair or bool(star and term == terms[-1])
                found.setdefault(term, QueryTerm(term, is_prefix=is_prefix))
    return tuple(sorted(found.values(), key=lambda term: -len(term.text))[:MAX_QUERY_TERMS])


def is_unspaced(text: str) -> bool:
    """Return whether a text is in a script that is written without spaces."""
    return not text.isascii() and _ONE_UNSPACED.fullmatch(text) is not None


@lru_cache(maxsize=1 << 16)
def _word_terms(word: bytes) -> tuple[str, ...]:
    """Return the terms of a run of characters without ASCII separators."""
    if word.isascii():
        return _part_terms(word.decode())
    terms = list[str]()
    for piece in _ONE_SCRIPT.findall(word.decode()):
        if is_unspaced(piece):
            # The last character is a term of its own, so that a prefix search finds it.
            terms += (first + second for first, second in pairwise(piece))
            terms.append(piece[-1])
        else:
            terms += _part_terms(piece)
    return tuple(dict.fromkeys(terms))


def _part_terms(word: str) -> tuple[str, ...]:
    """Return the terms of a word of one script: its parts, which begin at capitals and digits.

    A word without a part of two letters is a term as a whole: `i18n`.
    """
    whole = word.casefold()
    if len(word) == 1:
        return () if word.isascii() and word.isalpha() else (whole,)
    shape = word
    if not word.isascii():
        shape = "".join("A" if char.isupper() else "0" if char.isdecimal() else "a" for char in word)
    parts = _PART.findall(shape)
    if len(parts) > 1:
        if _HASH.fullmatch(word) or (len(word) >= 16 and len(word) < 3 * len(parts)):
            return (whole[:MAX_DATA_CHARS],)
        spelt = (
            word[start:end].casefold() for start, end in pairwise(accumulate(map(len, parts), initial=0))
        )
        counted = [part for part in spelt if len(part) > 1 or not part.isascii() or part.isdecimal()]
        if any(map(str.isalpha, counted)):
            return tuple(part[:MAX_TERM_CHARS] for part in dict.fromkeys(counted))
    return (whole[:MAX_TERM_CHARS],)
