"""Words as the search index holds them: parts of compound names, and the names themselves; where a query's
words stand in a text. Pure.

`resumeSession`, `max_tokens` and `agent/loop/turn.py` are found by each of their parts, and by the whole in
any spelling that has the same parts. A word ends where its script changes (`使用Redis缓存`), and text that is
written without spaces is held as pairs of characters. Of a long word only the beginning is held, and looked
for. Endings of words are the index's own business (Porter's stemming).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, chain, groupby, islice, pairwise
from operator import itemgetter
from unicodedata import combining, normalize

MAX_TERM_CHARS = 40  # of one part; of what is longer, the beginning
MAX_HASH_CHARS = 12  # of a hash: by so many digits it is known
MAX_COMPOUND_CHARS = 100  # of a compound name
MIN_ENCODED_CHARS = 16  # of data that is encoded
MIN_PART_CHARS = 3  # of the parts of a name, on average: those of encoded data have fewer
CACHED_WORDS = 1 << 16
MAX_QUERY_TERMS = 32  # of a long query, the most telling ones
WINDOW_CHARS = 300  # what counts as one place
MAX_MATCHES = 1_000  # of words in one text
MIN_PLACED_CHARS = 3  # of a term by which a place in a text is found: shorter ones stand everywhere
MIN_PREFIX_CHARS = 4  # of a word that nothing has, so that words which begin like it count
NAME_WEIGHT = 1.5  # of a whole compound name, beside its parts

_SHOWN_LINE_NUMBER = re.compile(r"^ *\d{1,7}(?:\t|→)", re.MULTILINE)  # before the lines that `read` shows
_ALPHANUMERIC = re.compile(r"[^\W_]+")
# Possessive, and from the beginning of a word only: a long run would take quadratic time otherwise.
_NAME = re.compile(r"(?<![^\W_])[^\W_]++(?:[_./:\\-]++[^\W_]++)+")
_HUMP = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z][0-9]|[0-9][A-Za-z]")
_CAMEL = re.compile(r"[a-z][A-Z]")  # such a word is a compound name
_HUMP_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_FOLDERS = re.compile(r"[/\\:]+")
_HEX_HASH = re.compile(r"(?=[0-9]*[a-fA-F])[0-9a-fA-F]{8,}")
# Thai to Myanmar, Khmer, the scripts of Chinese, Japanese and Korean.
_UNSPACED_CHARS = (
    r"\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    r"\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
)
_PICTOGRAPH = "[\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
_UNSPACED = f"[{_UNSPACED_CHARS}]+"  # compiled on first use, like the longer one below: 14 ms less at a start
# Greek, Cyrillic, Hebrew and Arabic, those of India: digits belong to the word before them.
_SCRIPTS = (r"\u0370-\u03ff\u1f00-\u1fff", r"\u0400-\u052f", r"\u0590-\u08ff", r"\u0900-\u0dff")
_SCRIPT_CHANGE = "|".join(
    rf"(?<=[{chars}])(?=[^\W_{chars}{digits}])|(?<=[^\W_{chars}{digits}])(?=[{chars}])"
    for chars, digits in ((_UNSPACED_CHARS, ""), *((script, "0-9") for script in _SCRIPTS))
)
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
    words = {word for each in set(_ALPHANUMERIC.findall(text)) for word in _of_one_script(each)}
    terms = {term for word in words for term in _word_terms(word)}
    terms.update(name for match in set(_NAME.findall(text)) for name in _whole_names(match))
    terms.update(_symbols(text))
    return list(terms)


def query_terms(query: str) -> tuple[QueryTerm, ...]:
    """What to look for: the terms of a query without stop words, unless it has no others.

    `word*` stands for every word that begins so.
    """
    found: dict[str, QueryTerm] = {}
    for quoted, bare in _QUERY_PIECE.findall(normalize("NFC", query)):
        piece = quoted or bare
        is_prefix = not quoted and piece.endswith("*")
        names = {name for match in _NAME.findall(piece) for name in _whole_names(match)}
        for symbol in _symbols(piece):
            found.setdefault(symbol, QueryTerm(symbol))
        for name in names:
            found.setdefault(name, QueryTerm(name, NAME_WEIGHT))
        words = [word for each in _ALPHANUMERIC.findall(piece) for word in _of_one_script(each)]
        for at, word in enumerate(words, 1):
            terms = _word_terms(word)
            for term in terms[:-1] if is_unspaced(word) and len(word) > 1 else terms:
                weight = NAME_WEIGHT if "_" in term else 1.0
                begins_more = (is_unspaced(word) and len(word) == 1) or (is_prefix and at == len(words))
                found.setdefault(term, QueryTerm(term, weight, begins_more))
    telling = [term for term in found.values() if term.text not in STOP_WORDS] or list(found.values())
    telling.sort(key=lambda term: -term.weight * len(term.text))
    return tuple(telling[:MAX_QUERY_TERMS])


def _symbols(text: str) -> list[str]:
    """The emoji of a text and what is like them, one character each: what only shapes them is left out."""
    return [] if text.isascii() else _compiled(_PICTOGRAPH).findall(text)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def without_accents(text: str) -> str:
    """A text as the index spells it."""
    return text if text.isascii() else "".join(char for char in normalize("NFD", text) if not combining(char))


def is_unspaced(text: str) -> bool:
    """Whether this is of a script that is written without spaces."""
    return not text.isascii() and _compiled(_UNSPACED).fullmatch(text) is not None


def _of_one_script(text: str) -> list[str]:
    """A word or name, split where its script changes."""
    return [text] if text.isascii() else _compiled(_SCRIPT_CHANGE).split(text)


@lru_cache(maxsize=CACHED_WORDS)
def _word_terms(word: str) -> tuple[str, ...]:
    """A word of one script without separators, and the parts at its humps and digits.

    Of a script without spaces: each pair of characters once, and the last character, as which a pair begins
    that ends there.
    """
    if is_unspaced(word):
        return (*{first + second for first, second in pairwise(word)}, word[-1])
    word = _without_end_of_hash(word)
    parts, whole = _parts(word), _joined(word)
    most = MAX_COMPOUND_CHARS if "_" in whole else MAX_TERM_CHARS
    return (whole[:most], *(part.casefold()[:MAX_TERM_CHARS] for part in parts if part != word))


@lru_cache(maxsize=CACHED_WORDS)
def _whole_names(name: str) -> tuple[str, ...]:
    """A name that is joined of words, as one term: with its folders, and without them."""
    if len(name) > MAX_COMPOUND_CHARS:
        return ()
    wholes = [each for piece in _of_one_script(name) for each in (piece, _FOLDERS.split(piece)[-1])]
    return tuple({whole for whole in map(_joined, wholes) if "_" in whole})


def _joined(name: str) -> str:
    """A name in one spelling, whatever its parts were joined with: `maxTokens` and `max-tokens` are one."""
    words = map(_without_end_of_hash, _ALPHANUMERIC.findall(name))
    parts = (_parts(word) if _is_camel(word) else (word,) for word in words)
    return "_".join(chain.from_iterable(parts)).casefold()


def _without_end_of_hash(word: str) -> str:
    return word[:MAX_HASH_CHARS] if _HEX_HASH.fullmatch(word) else word


def _parts(word: str) -> tuple[str, ...]:
    """The parts of a word at its humps and digits; the word itself where it has none, or is encoded data."""
    shape = _shape(word)
    parts = _HUMP_PART.findall(shape) if _HUMP.search(shape) else ()
    is_long = len(word) >= MIN_ENCODED_CHARS or _HEX_HASH.fullmatch(word)
    if not parts or (is_long and len(word) < MIN_PART_CHARS * len(parts)):
        return (word,)
    ends = accumulate(map(len, parts), initial=0)
    return tuple(word[start:end] for start, end in pairwise(ends))


def _is_camel(word: str) -> bool:
    return _CAMEL.search(_shape(word)) is not None


def _shape(word: str) -> str:
    """A word with plain letters and digits in the place of others."""
    if word.isascii():
        return word
    return "".join("A" if char.isupper() else "0" if char.isdecimal() else "a" for char in word)


Weights = Mapping[QueryTerm, float]


@dataclass(frozen=True, slots=True)
class Matcher:
    """Finds the terms of a query in a text by their stems, and how telling each is."""

    pattern: re.Pattern[str]
    weights: Mapping[str, float]  # of each stem, its parts joined

    @classmethod
    def of(cls, weights: Weights) -> Matcher:
        placed = [term for term in weights if len(term.text) >= MIN_PLACED_CHARS or _stands_out(term.text)]
        terms = placed or list(weights)
        stems = {term.stem.replace("_", ""): weights[term] for term in terms}
        literals = (r"[\W_]{0,3}".join(map(re.escape, term.stem.split("_"))) for term in terms)
        # By their first characters, of which each is tried only where it stands; the longest first.
        ordered = groupby(sorted(literals, key=lambda each: (each[0], -len(each))), itemgetter(0))
        found = (f"{start}(?:{'|'.join(each[1:] for each in same)})" for start, same in ordered)
        return cls(re.compile("|".join(found)), stems)

    def matches(self, text: str) -> Iterator[tuple[int, str]]:
        """(offset, stem) of each match, in order; of a short stem only where it is a whole word."""
        folded = text.casefold()
        ends = list(accumulate(len(char.casefold()) for char in text)) if len(folded) > len(text) else None
        known: dict[str, tuple[str, bool]] = {}  # of a match: its stem, and whether it has to be a whole word
        for match in islice(self.pattern.finditer(folded), MAX_MATCHES):
            found, start = match[0], match.start()
            if found not in known:
                stem = "".join(filter(str.isalnum, found)) or found
                known[found] = stem, len(stem) < MIN_PREFIX_CHARS and not _stands_out(stem)
            stem, is_whole = known[found]
            if is_whole:
                end = match.end()
                around = folded[max(0, start - 1) : start] + folded[end : end + 1]
                if any(char.isalnum() and not is_unspaced(char) for char in around):
                    continue
            yield bisect_right(ends, start) if ends else start, stem

    def closest(self, text: str) -> tuple[float, int]:
        """The largest share of the query within WINDOW_CHARS, and where its most telling term stands.

        Of places with the same share it is the narrowest, and of those the first.
        """
        weights, inside = self.weights, dict.fromkeys(self.weights, 0)
        best, narrowest, total, span, first = 0.0, 0, 0.0, (0, 0), 0
        placed = list(self.matches(text))
        for number, (at, stem) in enumerate(placed, 1):
            if not inside[stem]:
                total += weights[stem]
            inside[stem] += 1
            begins, old = placed[first]
            while begins < at - WINDOW_CHARS or inside[old] > 1:  # too far off, or there again later
                inside[old] -= 1
                total -= 0.0 if inside[old] else weights[old]
                first += 1
                begins, old = placed[first]
            gain = total - best
            if gain > 1e-9 or (gain > -1e-9 and at - begins < narrowest):
                best, narrowest, span = total, at - begins, (first, number)
        start = max(placed[slice(*span)], key=lambda each: weights[each[1]], default=(0, ""))[0]
        return best / (sum(weights.values()) or 1.0), start


def _stands_out(text: str) -> bool:
    """Whether it is found in a text however short it is: of a script without spaces, or a symbol."""
    return not text.isascii() and (is_unspaced(text) or not text.isalnum())
