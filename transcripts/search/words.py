"""Split text into the terms of the search index: words, parts of compound names, and whole names. Pure.

`resumeSession`, `max_tokens` and `agent/loop/turn.py` are found by each of their parts. A whole name is
stored without separators, so that `maxTokens`, `max-tokens` and `maxtokens` are one term. A word ends where
its script changes (`使用Redis`); text without spaces is stored as pairs of characters. FTS5 handles stems and
accents.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
from unicodedata import normalize

from msgspec import Struct

from ..patterns import lazy_pattern

MAX_QUERY_TERMS = 32  # the longest terms of a long query
MAX_TERM_CHARS = 40  # the beginning of a long word
MAX_DATA_CHARS = 12  # the beginning of a hash or other data, enough to distinguish it
MAX_FOLDERS = 3  # the last directories of a path
USER_TERM = "zzwrittenbyuser"  # of every fact that the user wrote: rare where tools write most of the record

# Thai to Myanmar, Khmer, the scripts of Chinese, Japanese and Korean.
_UNSPACED = (
    r"\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    r"\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
)
_LATIN = r"a-zA-Z\u00c0-\u024f"
_ONE_SCRIPT = lazy_pattern(rf"[{_LATIN}0-9]+|[{_UNSPACED}]+|[^\W_{_LATIN}{_UNSPACED}]+")
_ONE_UNSPACED = lazy_pattern(f"[{_UNSPACED}]+")
_SHOWN_LINE_NUMBER = lazy_pattern(r"\n *\d{1,7}[\t→:-](?!\d)")  # ten times faster than with `^`
# Possessive: a long run would take quadratic time otherwise.
_NAME = lazy_pattern(r"[^\W_]++(?:[_./:\\-]++[^\W_]++)*+")
_NAME_OR_EMOJI = lazy_pattern(
    r"[^\W_]++(?:[_./:\\-]++[^\W_]++)*+|[\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
)
_PATH_SIGN = lazy_pattern(r"[/\\:.]")
_FOLDERS = lazy_pattern(r"[/\\:]+")
_JOINTS = lazy_pattern(r"[_.-]+")
_LINE_OF_FILE = lazy_pattern(r"(\.[a-z]{1,5})[:-]\d+(?:[:-]\d+)?$")
_HUMP = lazy_pattern(r"[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z][0-9]|[0-9][A-Za-z]")
_HUMP_PART = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_HEX_HASH = lazy_pattern(r"(?=[0-9]*[a-fA-F])[0-9a-fA-F]{8,}")
_STOP_WORDS = """
    a about after again all already also am an and any are as at be been before being but by can could did do
    does doing done for from get gets got had has have having he her here hers him his how i if in into is it
    its just let like made make me mine more most my no nor not of off on once only or other our ours out over
    own please said say says she should so some such tell than that the their theirs them then there these
    they this those through to too under until up us very was we were what when where which while who whom
    whose why will with would you your yours
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


class QueryTerm(Struct, frozen=True):
    """A term to search for, in the form of the index; with `is_prefix`, every term that begins with it.

    `is_name`: it is a whole compound name.
    """

    text: str
    is_prefix: bool = False
    is_name: bool = False

    @property
    def stem(self) -> str:
        """The beginning of the word without an ending, by which it is found in a text."""
        is_whole = self.is_prefix or len(self.text) < 5 or not self.text.isalpha()
        return self.text if is_whole else self.text[: max(3, len(self.text) - 3)]


def document_terms(text: str) -> dict[str, int]:
    """Return the terms of a text in lower case, without stop words: 2 for a term that is repeated, else 1.

    More repeats than one hardly change bm25, and take space.
    """
    shown = _SHOWN_LINE_NUMBER.sub("\n", f"\n{text}")
    found = dict[str, int]()
    for name, times in Counter((_NAME if text.isascii() else _NAME_OR_EMOJI).findall(shown)).items():
        for term in name_terms(name):
            found[term] = 2 if times > 1 or term in found else 1
    return {term: times for term, times in found.items() if term not in STOP_WORDS}


def query_terms(query: str) -> tuple[QueryTerm, ...]:
    """Return the terms of a query, longest first, without stop words unless there is nothing else.

    `word*` matches every word with this prefix.
    """
    text = normalize("NFC", query)
    found = dict[str, QueryTerm]()
    for match in names_in(text):
        terms = name_terms(match[0])
        asked_prefix = terms[0] if terms and text.startswith("*", match.end()) else ""
        for term in terms:
            begins_pair = len(term) == 1 and is_unspaced(term)
            if not begins_pair or not any(other.endswith(term) for other in terms if other != term):
                is_name = len(terms) > 1 and term == terms[0]
                found.setdefault(
                    term, QueryTerm(term, is_prefix=begins_pair or term == asked_prefix, is_name=is_name)
                )
    telling = [term for term in found.values() if term.text not in STOP_WORDS] or list(found.values())
    return tuple(sorted(telling, key=lambda term: -len(term.text))[:MAX_QUERY_TERMS])


def is_unspaced(text: str) -> bool:
    """Return whether a text is in a script that is written without spaces."""
    return not text.isascii() and _ONE_UNSPACED.fullmatch(text) is not None


def names_in(text: str) -> Iterator[re.Match[str]]:
    """Yield the words, names, paths and emoji of a text."""
    return (_NAME if text.isascii() else _NAME_OR_EMOJI).finditer(text)


@lru_cache(maxsize=1 << 16)
def name_terms(name: str) -> tuple[str, ...]:
    """Return the terms of a word, name, path or emoji: whole names first, then their parts."""
    if name.isascii():
        if name.isalnum():
            return _word_terms(name)
        if not _PATH_SIGN.search(name):
            joined = _JOINTS.sub("", name).casefold()[:MAX_TERM_CHARS]
            words = _JOINTS.split(name)
            return tuple(dict.fromkeys((joined, *(term for word in words for term in _word_terms(word)))))
    wholes = list[str]()
    parts = list[str]()
    if name[-1].isdigit():
        name = _LINE_OF_FILE.sub(r"\1", name)
    components = _FOLDERS.split(name)
    for component in reversed(components[-MAX_FOLDERS - 1 :]):
        segments = component.split(".")
        if len(segments) == 2 and len(components) > 1:
            segments.append(component)  # the name of a file
        for segment in segments:
            joined = _JOINTS.sub("", segment)
            if joined != segment and joined.isascii():
                wholes.append(joined.casefold()[:MAX_TERM_CHARS])
        for word in _ONE_SCRIPT.findall(component) or [component]:
            parts += _word_terms(word)
    return tuple(dict.fromkeys(wholes + parts))


@lru_cache(maxsize=1 << 16)
def _word_terms(word: str) -> tuple[str, ...]:
    """Return the terms of a word of one script: itself and its parts, split at capitals and digits."""
    if is_unspaced(word):
        # The last character is a term of its own, so that a prefix search finds it.
        return (*(first + second for first, second in pairwise(word)), word[-1])
    if word.islower() and word.isalpha() and word.isascii() and len(word) > 1:
        is_data = len(word) >= 8 and _HEX_HASH.fullmatch(word) is not None
        return (word[: MAX_DATA_CHARS if is_data else MAX_TERM_CHARS],)
    shape = word
    if not word.isascii():
        shape = "".join("A" if char.isupper() else "0" if char.isdecimal() else "a" for char in word)
    parts = _HUMP_PART.findall(shape) if _HUMP.search(shape) else []
    is_data = _HEX_HASH.fullmatch(word) is not None or (len(word) >= 16 and len(word) < 3 * len(parts))
    if is_data:
        parts = []
    ends = accumulate(map(len, parts), initial=0)
    spelt = [word[: MAX_DATA_CHARS if is_data else MAX_TERM_CHARS], *(word[s:e] for s, e in pairwise(ends))]
    terms = (part.casefold()[:MAX_TERM_CHARS] for part in spelt)
    return tuple(
        dict.fromkeys(term for term in terms if len(term) > 1 or not term.isascii() or word.isdigit())
    )
