"""Split text into sentences, and weigh how much each sentence of a user binds later work.

Sentences are recognized by grammar, because the words for possible demands are endless: by mood (a sentence
that begins with a bare verb), by modality, negation, quantity and condition, whose words are closed classes,
and by the form of a list. None of this is certain, so each sentence gets a weight. Other languages have their
own closed classes; a sentence in an unknown language counts as a wish, so that it is kept when in doubt.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from transcripts.patterns import lazy_pattern

LASTING = 5
REQUEST = 4
WISH = 3
FACT = 2
REST = 1  # weights of sentences, the heaviest first
NOTHING = 0  # of lines of programs and logs, and of other text that is not speech
MIN_PROSE_WORDS = 4  # of a line whose language can be told
MAX_SENTENCE_CHARS = 600  # a longer one is data, not speech
MAX_ABBREVIATION_CHARS = 12  # before a full stop that may belong to it
MIN_WRAP_CHARS = 40  # of a line that a line with a capital may continue
MAX_SEARCHED_CHARS = 200_000  # of one text; typed text is shorter


@cache
def _tables() -> dict[str, Any]:
    # Read and compiled on first use: at startup it would take 25 ms, and the imports 4 ms.
    import pkgutil
    import tomllib

    return tomllib.loads((pkgutil.get_data(__package__, "directives.toml") or b"").decode())


@cache
def closed_class(kind: str) -> frozenset[str]:
    """Return the words of a class."""
    return frozenset(_tables()[kind].split())


@cache
def pattern(name: str) -> re.Pattern[str]:
    """Return a pattern by its name, or one for all phrases of a class, for text in lower case."""
    tables = _tables()
    if name in tables["patterns"]:
        return re.compile(tables["patterns"][name], re.VERBOSE)
    phrases = "|".join(re.split(r" \| |\n", tables[name].strip()))
    unspaced = "|".join(tables["unspaced"].get(name, "(?!)").split())
    # The lookahead saves trying all phrases where no word begins.
    return re.compile(rf"\b(?=[\w'’])(?:{phrases})\b|{unspaced}")


def has(name: str, sentence: str) -> bool:
    """Return whether a pattern, or any phrase of a class, occurs in a sentence."""
    tables = _tables()
    other = f"{name}_elsewhere"
    # Phrases are in lower case: a case-insensitive search takes twice as long.
    text = sentence if name in tables["patterns"] else sentence.lower()
    found = pattern(name).search(text) is not None
    # Other languages have patterns of their own, because most text is English.
    return found or (other in tables and not _is_surely_english(sentence) and has(other, sentence))


@lru_cache(maxsize=64)
def _is_surely_english(sentence: str) -> bool:
    words = spoken_words(sentence)
    sure = not closed_class("sure_english").isdisjoint(words) and closed_class("foreign").isdisjoint(words)
    return sure and (sentence.isascii() or not has("other_letters", sentence))


Writing = Literal["English", "other Latin", "other letters", ""]
"""A language as far as letters and common words tell it."""

NO_WRITING: Final = ""

_SPOKEN_WORD = lazy_pattern(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_SYMBOL = lazy_pattern(r"[{}()\[\]<>=;|\\&^%~*$#@_+/]")
ITEM_START = lazy_pattern(r"\s*(?:[-*•‣+–]|\d{1,3}[.)]|[a-zA-Z][.)]|\[[ xX]\])\s+")
_CODE_ENDS = tuple(";{}:()>\\")  # characters, one of which is at the end of each line of `code_end`
_CODE_SIGNS = ("machine", "code_start", "shifted_code")
_END = lazy_pattern(r"(?<=[.!?…])[\"'”’)\]*_]*\s+|(?<=[。！？])[」』”）]*\s*")
_LINE_END = lazy_pattern(r"\n")
_CLAUSE = lazy_pattern(r"[,;]\s+|\s(?=(?:and|but|so|then|also|please|because)\s)", re.IGNORECASE)


def spoken_words(sentence: str) -> list[str]:
    return [word.lower() for word in _SPOKEN_WORD.findall(sentence)]


class Sentence(Struct, frozen=True):
    """A sentence with its weight: the characters start..end-1 of a text, without surrounding white space."""

    start: int
    end: int
    weight: int


@lru_cache(maxsize=8_192)  # a long session has thousands of prompts, each weighed several times
def weighed_sentences(text: str) -> tuple[Sentence, ...]:
    """Return the sentences of a user's text, in order, each with its weight from NOTHING to LASTING."""
    return tuple(
        Sentence(start, end=end, weight=max(_weight(each, code) for each in _readings(text, start, end)))
        for start, end, code in sentences(text)
    )


def _readings(text: str, start: int, end: int) -> list[str]:
    """Return a sentence, and its lines if they may be sentences themselves, since not all are full."""
    sentence = text[start:end]
    if "\n" not in sentence:
        return [sentence]
    lines = [line.rstrip() for line in text[text.rfind("\n", 0, start) + 1 : end].splitlines()]
    width = max(map(len, lines))
    pairs = pairwise(lines)
    wrapped = width >= MIN_WRAP_CHARS and all(_had_no_room(line, after, width) for line, after in pairs)
    # No phrase that is searched for contains a line break.
    return [" ".join(sentence.split()), *([] if wrapped else sentence.splitlines())]


def _weight(sentence: str, code: bool) -> int:
    """Weigh how firmly a sentence of a user binds later work."""
    if code or len(sentence) > MAX_SENTENCE_CHARS or not _SPOKEN_WORD.search(sentence):
        return NOTHING
    if has("takes_back", sentence) and not sentence.endswith("?"):
        return LASTING  # otherwise the model would only see a rule that was withdrawn
    imperative = _is_imperative(sentence)
    if has("lasting", sentence) and (imperative or has("binding", sentence)):
        return LASTING
    if is_foreign(sentence):
        signs = any(word in closed_class("foreign_directives") for word in spoken_words(sentence))
        signs = signs or has("unspaced_directive", sentence) or sentence.endswith(("!", "！"))
        return REQUEST if signs or has("short_item", sentence) else WISH
    if imperative or has("asks", sentence):
        return REQUEST
    shaped = sentence.endswith("?") or has("short_item", sentence) or pattern("short_rule").match(sentence)
    if shaped or has("lasting", sentence) or has("standing", sentence) or _is_general(sentence):
        return WISH
    return FACT if any(has(sign, sentence) for sign in ("concrete", "negated", "deixis")) else REST


@lru_cache(maxsize=8_192)
def is_errand(sentence: str) -> bool:
    """Return whether a sentence asks for one thing, and is irrelevant once that is done or answered."""
    rule = any(has(kind, sentence) for kind in ("lasting", "standing", "quantity", "short_item"))
    return not rule and pattern("errand").match(_without_starter(sentence)) is not None


def _is_general(sentence: str) -> bool:
    """Return whether a sentence describes how things are in general, as rules do.

    Its subject has no article ("Amounts go out in francs") or is a quantity ("Nobody but me merges"), and it
    is not in the past; or it is about the reader and the writer.
    """
    if has("past", sentence):
        return False
    clauses = [_without_starter(sentence)]
    if (fronted := pattern("fronted").match(clauses[0])) is not None:
        clauses.append(_without_starter(clauses[0][fronted.end() :]))
    of_both = has("deixis", sentence) and has("present", sentence)
    return of_both or any(_has_general_subject(clause) for clause in clauses)


def _has_general_subject(clause: str) -> bool:
    first, *more = spoken_words(clause)[:2] or [""]
    general = first in closed_class("general_subject") or first not in closed_class("no_first_verb")
    return bool(more) and general


def _without_starter(sentence: str) -> str:
    """Return the sentence without marks of lists and quotes, and without words such as "also", "please"."""
    return sentence[(found.end() if (found := pattern("starter").match(sentence)) else 0) :]


def _is_imperative(sentence: str) -> bool:
    """Return whether an English sentence, or its main clause after an introduction, begins with a verb."""
    body = _without_starter(sentence)
    if _begins_with_verb(body):
        return True
    fronted = pattern("fronted").match(body)
    if fronted is not None:
        return _begins_with_verb(_without_starter(body[fronted.end() :]))
    # "X, so run the tests": the last clause may be the request.
    clauses = re.split(r"[;:—–]\s+|,\s+(?:so|then|and|but)\s+", body)[1:]
    return any(_begins_with_verb(clause, sure=True) for clause in clauses)


def _begins_with_verb(clause: str, sure: bool = False) -> bool:
    """Return whether a clause begins with a bare verb; with `sure`, only common ones count."""
    words = [word.lower() for word in clause.split(None, 4)[:4]]
    while words and re.fullmatch(r"[a-z]{3,}ly,?", words[0]) and words[0] not in closed_class("base_verbs"):
        words.pop(0)
    if not words:
        return False
    first = words[0].rstrip(",.!:;")
    second = words[1].rstrip(",.!?:;") if len(words) > 1 else ""
    only = first == "only" and second in closed_class("base_verbs")
    if only or first in ("don't", "don’t", "dont", "never", "always", "let's", "let’s", "not"):
        return True
    if first in ("do", "have", "be", "let"):
        return second not in ("you", "i", "we", "they", "he", "she", "it") or first == "let"
    if first.startswith(("re-", "double-", "pre-", "un-", "de-", "cross-")):
        first = first.rpartition("-")[2]
    if first in closed_class("base_verbs"):
        return second not in closed_class("finite")
    if sure or not first.isascii() or not first.isalpha() or first in closed_class("no_first_verb"):
        return False
    return second in closed_class("object_start") and len(first) > 2 and not has("no_bare_verb", first)


def is_foreign(sentence: str) -> bool:
    """Return whether a sentence is not in English, judging by letters and common words."""
    words = spoken_words(sentence)
    if sum(1 for char in sentence if char > "\u024f" and char.isalpha()) > len(sentence) // 8:
        return True
    accented = any("\u00c0" <= char <= "\u024f" and char.isalpha() for char in sentence)  # not a × or ÷
    # "a" is a word of many languages.
    english = sum(word in closed_class("english") and not (accented and word == "a") for word in words)
    foreign = sum(word in closed_class("foreign") for word in words) + accented
    return foreign > english and (foreign >= 2 or (len(words) >= 3 and not english))


def writing_of(text: str) -> Writing:
    """Return what most lines of prose in a text are written in, NO_WRITING without such a majority."""
    found: list[Writing] = [each for each in map(_writing_of_line, text.split("\n")) if each]
    most: Writing = max(found, key=found.count, default=NO_WRITING)
    return most if 2 * found.count(most) > len(found) else NO_WRITING


def _writing_of_line(line: str) -> Writing:
    if sum(char > "\u024f" and char.isalpha() for char in line) > max(4, len(line) // 8):
        return "other letters"
    if len(spoken_words(line)) < MIN_PROSE_WORDS:
        return NO_WRITING
    return "other Latin" if is_foreign(line) else "English"


def sentences(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, end, whether it looks like code or a log) of each sentence, in order."""
    for start, end, code in _stretches(text[:MAX_SEARCHED_CHARS]):
        if code:
            yield start, end, True
            continue
        begun = start
        for found in _END.finditer(text, start, end):
            if has("no_end", text[max(begun, found.start() - MAX_ABBREVIATION_CHARS) : found.start()]):
                continue
            yield from _stripped(text, begun, found.end())
            begun = found.end()
        yield from _stripped(text, begun, end)


def _stripped(text: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    piece = text[start:end]
    if body := piece.strip():
        first = start + len(piece) - len(piece.lstrip())
        if len(body) <= MAX_SENTENCE_CHARS:
            yield first, first + len(body), False
            return
        # Without full stops, as in dictated text, the lines or the clauses count as sentences.
        begun = first
        for found in (_LINE_END if "\n" in body else _CLAUSE).finditer(text, first, first + len(body)):
            yield from _stripped(text, begun, found.start())
            begun = found.end()
        if begun > first:
            yield from _stripped(text, begun, first + len(body))
        else:
            yield first, first + len(body), False


def _stretches(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, end, whether it is code) of the paragraphs, list items and lines of code of a text.

    Lines of wrapped text are one stretch.
    """
    lines = text.splitlines(keepends=True)
    begun = -1
    at = 0
    around = ["", "", *(line.rstrip() for line in lines), ""]
    for number, (line, code) in enumerate(zip(lines, _code_lines(lines), strict=True)):
        first = at
        at = at + len(line)
        if begun >= 0 and (code or not _wraps(*around[number : number + 4])):
            yield begun, first, False
            begun = -1
        if code and line.strip():
            yield first, first + len(line.rstrip()), True
        elif line.strip() and begun < 0:
            begun = first
    if begun >= 0:
        yield begun, at, False


def _code_lines(lines: Sequence[str]) -> list[bool]:
    """Mark the lines that are code: fenced, of a diff, shaped like code, or comments next to such lines."""
    fenced = _fenced_lines(lines)
    diff = False
    code = list[bool]()
    for at, line in enumerate(lines):
        diff = line.startswith(("@@ ", "diff --git ")) or (diff and line[:1] in ("+", "-", " ", "\\"))
        code.append(at in fenced or diff or (_is_code(line) and not _is_spoken(line)))
    # A comment is prose and reads like the user's words; next to a line of code it belongs to the code.
    for order in (range(1, len(lines)), range(len(lines) - 2, -1, -1)):
        for at in order:
            code[at] = code[at] or _is_comment_of(lines[at], lines[at - order.step], code[at - order.step])
    return code


def _fenced_lines(lines: Sequence[str]) -> set[int]:
    """Return the indices of the lines within fences, fences included.

    A fence that names a language opens a block, so an open one before it was the end of a block that is cut
    off. One that is never closed encloses nothing.
    """
    fenced = set[int]()
    begun = -1
    marker = ""
    for at, line in enumerate(lines):
        if (found := pattern("fence").match(line)) is None:
            continue
        fenced.add(at)
        if begun < 0 or line[found.end() :].strip("`~ \n"):
            begun = at
            marker = found[1]
        elif found[1] == marker:
            fenced.update(range(begun, at))
            begun = -1
    return fenced


def _is_comment_of(line: str, neighbour: str, code: bool) -> bool:
    """Return whether a line is a comment that belongs to the line next to it, which may be code."""
    if not pattern("comment").match(line) or has("fence", neighbour):
        return False
    if line.lstrip().startswith("*"):  # otherwise it is a list item
        return bool(
            pattern("block_comment").match(neighbour) or (code and pattern("comment").match(neighbour))
        )
    return code or (line[0].isspace() and neighbour[0].isspace() and bool(neighbour.strip()))


def _wraps(first: str, before: str, line: str, after: str) -> bool:
    """Return whether the third of four lines continues the sentence of the second."""
    start = line.lstrip()
    if not before or not start or ITEM_START.match(line):
        return False
    if before[-1] in ".!?:;。！？…" and not has("no_end", before[-MAX_ABBREVIATION_CHARS:]):
        return False
    if bool(pattern("comment").match(before)) != bool(pattern("comment").match(line)):
        return False
    if start[0].islower() or before[-1] == ",":
        return True
    # A line of wrapped text may begin with a noun, a name or a figure; then each line is as full as possible.
    width = max(MIN_WRAP_CHARS, *map(len, (first, before, line, after)))
    full = _had_no_room(before, start, width) and not {before.lstrip()[0], start[0]} & set("#|><=")
    return full and (first[-1:] in ("", ":", ",") or _had_no_room(first, before, width))


def _had_no_room(before: str, line: str, width: int) -> bool:
    """Return whether the first word of a line did not fit on the line before it."""
    return len(before) + 1 + len(line.lstrip().partition(" ")[0]) > width


def _is_code(line: str) -> bool:
    """Return whether a line looks like a program, a log or a table rather than like speech."""
    text = line.strip()
    ends = text[-1:] in _CODE_ENDS and has("code_end", text)
    if not text or (ITEM_START.match(line) and not ends):
        return False
    if ends or any(pattern(sign).match(line) for sign in _CODE_SIGNS):
        return True
    return 5 * len(_SYMBOL.findall(text.strip("*_"))) > len(text)


def unmarked(line: str) -> str:
    """Return the line without marks before its first word."""
    return line[found.end() if (found := pattern("mark").match(line)) else 0 :]


def _is_spoken(line: str) -> bool:
    """Return whether a line with signs of code reads as a sentence: `never call os.system()`.

    It must consist mostly of words, some of which do not occur in programs.
    """
    if pattern("machine").match(line):
        return False
    body = unmarked(line)
    labelled = any(label_pattern(kind).match(line.strip()) for kind in COMMITMENT_KINDS)
    if labelled or pattern("sure_start").match(body) or has("unspaced_directive", body):
        return True
    body = pattern("quoted").sub(" x ", body).rstrip('\n\r\t ;:{}[]()<>=|\\#*"')
    if (operator := pattern("operator").search(body)) is not None:
        body = body[: operator.start()]
    words = body.split()
    plain = [word.lower().rstrip(",.:;!?)") for word in words if pattern("plain_word").fullmatch(word)]
    if len(words) < (4 if operator else 3) or 5 * len(plain) < 3 * len(words):
        return False
    if any(has(kind, body) for kind in ("binding", "asks", "lasting")) or has("deixis", body):
        return True
    if operator is not None or any(word in closed_class("foreign_directives") for word in plain):
        return operator is None
    asks = body[0].isupper() and _begins_with_verb(body, sure=True)
    asks = asks or sum(word in closed_class("spoken") for word in plain) >= 1 + body[0].islower()
    return asks or pattern("short_rule").match(body) is not None


CommitmentKind = Literal["promise", "decision", "rejected"]
COMMITMENT_KINDS: tuple[CommitmentKind, ...] = get_args(CommitmentKind)


@cache
def label_pattern(kind: CommitmentKind) -> re.Pattern[str]:
    end = r"(?:\s*\([^()]*\))?[*_\s]*?(?:[:：|—–]|\s-\s|\n|$)[\s*_|]*"
    return re.compile(rf"(?i)(?:[\W_]|\d+[.)])*({pattern(f'{kind}_label').pattern}){end}(.*)", re.DOTALL)
