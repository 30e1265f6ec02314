"""Split text into the terms of the search index: words, and the parts of compound names. Pure.

`resumeSession` and `max_tokens` are found by their parts, `i18n` as a whole. Text that is written without
spaces is held as pairs of characters. FTS5 handles stems and accents. In a query, `retr*` stands for all
terms that begin so.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import pairwise
from unicodedata import normalize

from ..patterns import lazy_bytes_pattern, lazy_pattern

MAX_QUERY_TERMS = 32  # the longest terms of a long query
TERMS_PER_REPEAT = 120  # of a text: in a longer one a term must occur more often to count as repeated
MAX_TERM_CHARS = 40  # of the beginning of a long word
MAX_DATA_CHARS = 12  # of the beginning of a hash or other data, enough to identify it
USER_TERM = "zzwrittenbyuser"  # of every fact that the user wrote: rare, since most facts are from tools

_UNSPACED = (
    r"\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # Thai to Korean
)
_RUN = lazy_pattern(f"([{_UNSPACED}]+)|([^\\W_{_UNSPACED}]+)")
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


def document_terms(text: str) -> list[str]:
    """Return the terms of a text in lower case, without stop words; a term that is repeated stands twice.

    More repeats than one hardly change bm25, and take space; in a long text more count as one.
    """
    shown = _LINE_NUMBER.sub(b"\n", b"\n" + text.encode("utf-8", "replace"))
    counts = dict[str, int]()
    for word, times in Counter(shown.translate(_SPACED).split()).items():
        for term in _word_terms(word):
            counts[term] = counts.get(term, 0) + times
    most_once = 1 + len(counts) // TERMS_PER_REPEAT
    repeated = [term for term, times in counts.items() if times > most_once]
    return [term for term in (*counts, *repeated) if term not in STOP_WORDS]


def query_terms(query: str) -> tuple[str, ...]:
    """Return the terms of a query, longest first, without stop words."""
    found = dict[str, None]()
    for word, star in _WORD.findall(normalize("NFC", query).encode("utf-8", "replace")):
        terms = _word_terms(word)
        for term in terms:
            begins_pair = len(term) == 1 and not term.isascii()
            is_prefix = begins_pair or bool(star and term == terms[-1])
            if term not in STOP_WORDS:
                found[f"{term}*" if is_prefix else term] = None
    return tuple(sorted(found, key=len, reverse=True)[:MAX_QUERY_TERMS])


@lru_cache(maxsize=1 << 16)
def _word_terms(word: bytes) -> tuple[str, ...]:
    """Return the terms of a run of characters without ASCII separators."""
    if word.isascii():
        return _part_terms(word.decode())
    terms = list[str]()
    for unspaced, spaced in _RUN.findall(word.decode()):
        pairs = [first + second for first, second in pairwise(unspaced)]
        terms += pairs or _part_terms(unspaced or spaced)
    return tuple(dict.fromkeys(terms))


def _part_terms(word: str) -> tuple[str, ...]:
    """Return the terms of a word of one script: its parts, which begin at capitals and digits.

    A word without a part of two letters is a term as a whole: `i18n`.
    """
    whole = word.casefold()
    shape = word
    if not word.isascii():
        shape = "".join("A" if char.isupper() else "0" if char.isdecimal() else "a" for char in word)
    parts = [word[part.start() : part.end()].casefold() for part in _PART.finditer(shape)]
    if len(parts) > 1:
        if _HASH.fullmatch(word) or 16 <= len(word) < 3 * len(parts):
            return (whole[:MAX_DATA_CHARS],)
        counted = [part[:MAX_TERM_CHARS] for part in parts if len(part) > 1 or not part.isalpha()]
        if any(map(str.isalpha, counted)):
            return tuple(dict.fromkeys(counted))
    is_letter = len(word) == 1 and word.isascii() and word.isalpha()
    return () if is_letter else (whole[:MAX_TERM_CHARS],)
