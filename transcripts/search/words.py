"""Split text into the terms of the search index: words, and the parts of compound names. Pure.

`resumeSession` and `max_tokens` are found by their parts, `i18n` as a whole. Wholes of all names would
make the index a fifth larger and searches no better. A word ends where its script changes
(`使用Redis`); text without spaces is stored as pairs of characters. FTS5 handles stems and accents.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from unicodedata import normalize

from msgspec import Struct

from ..patterns import lazy_bytes_pattern, lazy_pattern

MAX_QUERY_TERMS = 32  # the longest terms of a long query
TERMS_PER_REPEAT = 120  # of a text: in a longer one a term must occur more often to count as repeated
MIN_PART_CHARS = 3  # of a name, if it is to be recognized by its parts
MAX_TERM_CHARS = 40  # of the beginning of a long word
MAX_DATA_CHARS = 12  # of the beginning of a hash or other data, enough to identify it
USER_TERM = "zzwrittenbyuser"  # of every fact that the user wrote: rare, since most facts are from tools

# Thai to Myanmar, Khmer, the scripts of Chinese, Japanese and Korean.
_UNSPACED = (
    r"\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    r"\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
)
_LATIN = r"a-zA-Z\u00c0-\u024f"
_ONE_SCRIPT = lazy_pattern(rf"[{_LATIN}0-9]+|[{_UNSPACED}]+|[^\W_{_LATIN}{_UNSPACED}]+")
_ONE_UNSPACED = lazy_pattern(f"[{_UNSPACED}]+")
_LINE_NUMBER = lazy_bytes_pattern("\n *\\d{1,7}(?:[\t:-]|→)(?!\\d)".encode())  # faster than with `^`
# Every other ASCII character that is not a letter or digit separates names.
_SPACED = bytes(
    byte if byte > 127 or chr(byte).isalnum() or chr(byte) in "_-" else ord(" ") for byte in range(256)
)
# Possessive: a long run would take quadratic time otherwise.
_NAME_OR_EMOJI = lazy_pattern(
    r"[^\W_]++(?:[_-]++[^\W_]++)*+|[\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
)
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

    `corrects` is the misspelt word of the query that it stands for, if it does.
    """

    text: str
    is_prefix: bool = False
    corrects: str = ""

    @property
    def stem(self) -> str:
        """The beginning of the word without an ending, by which it is found in a text."""
        is_whole = self.is_prefix or len(self.text) < 5 or not self.text.isalpha()
        return self.text if is_whole else self.text[: max(3, len(self.text) - 3)]


def document_terms(text: str) -> dict[str, int]:
    """Return the terms of a text in lower case, without stop words: 2 for a term that is repeated, else 1.

    More repeats than one hardly change bm25, and take space.
    """
    shown = _LINE_NUMBER.sub(b"\n", b"\n" + text.encode("utf-8", "replace"))
    tokens = shown.translate(_SPACED).split()
    counts = Counter(chain.from_iterable(map(_token_terms, tokens)))
    most_once = 1 + len(counts) // TERMS_PER_REPEAT
    return {term: 1 + (times > most_once) for term, times in counts.items() if term not in STOP_WORDS}


def query_terms(query: str) -> tuple[QueryTerm, ...]:
    """Return the terms of a query, longest first, without stop words.

    `word*` matches every word with this prefix.
    """
    text = normalize("NFC", query)
    found = dict[str, QueryTerm]()
    for match in _NAME_OR_EMOJI.finditer(text):
        terms = _name_terms(match[0])
        asked_prefix = terms[-1] if terms and text.startswith("*", match.end()) else ""
        for term in terms:
            begins_pair = len(term) == 1 and is_unspaced(term)
            if not begins_pair or not any(other.endswith(term) for other in terms if other != term):
                found.setdefault(term, QueryTerm(term, is_prefix=begins_pair or term == asked_prefix))
    telling = [term for term in found.values() if term.text not in STOP_WORDS]
    return tuple(sorted(telling, key=lambda term: -len(term.text))[:MAX_QUERY_TERMS])


def is_unspaced(text: str) -> bool:
    """Return whether a text is in a script that is written without spaces."""
    return not text.isascii() and _ONE_UNSPACED.fullmatch(text) is not None


@lru_cache(maxsize=1 << 16)
def _token_terms(token: bytes) -> tuple[str, ...]:
    """Return the terms of a run of characters without ASCII separators."""
    text = token.decode()
    if text.isascii():
        return _name_terms(text)
    return tuple(term for match in _NAME_OR_EMOJI.finditer(text) for term in _name_terms(match[0]))


def _name_terms(name: str) -> tuple[str, ...]:
    """Return the terms of a name or emoji: those of its parts."""
    if not name.isascii():
        return _foreign_terms(name)
    words = name.replace("-", "_").split("_")
    return tuple(dict.fromkeys(chain.from_iterable(map(_word_terms, filter(None, words)))))


def _foreign_terms(name: str) -> tuple[str, ...]:
    terms = list[str]()
    for word in _ONE_SCRIPT.findall(name) or [name]:
        if is_unspaced(word):
            # The last character is a term of its own, so that a prefix search finds it.
            terms += (first + second for first, second in pairwise(word))
            terms.append(word[-1])
        else:
            terms += _word_terms(word)
    return tuple(dict.fromkeys(terms))


@lru_cache(maxsize=1 << 16)
def _word_terms(word: str) -> tuple[str, ...]:
    """Return the terms of a word of one script: its parts, which begin at capitals and digits.

    A word without a part of two letters is a term as a whole: `i18n`.
    """
    whole = word.casefold()
    if len(word) == 1:
        return () if word.isascii() and word.isalpha() else (whole,)
    shape = word
    if not word.isascii():
        shape = "".join("A" if char.isupper() else "0" if char.isdecimal() else "a" for char in word)
    parts = _HUMP_PART.findall(shape)
    if len(parts) < 2:
        return (whole[:MAX_TERM_CHARS],)
    if _HEX_HASH.fullmatch(word) or (len(word) >= 16 and len(word) < 3 * len(parts)):
        return (whole[:MAX_DATA_CHARS],)
    ends = accumulate(map(len, parts), initial=0)
    spelt = [word[start:end].casefold() for start, end in pairwise(ends)]
    told = [
        part[:MAX_TERM_CHARS] for part in spelt if len(part) > 1 or not part.isascii() or part.isdecimal()
    ]
    return tuple(dict.fromkeys(told)) if any(map(str.isalpha, told)) else (whole[:MAX_TERM_CHARS],)
