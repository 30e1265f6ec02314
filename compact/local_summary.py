"""The ledger: an account of what happened that needs no model.

It holds files read and changed, names, commands with exit codes, errors, the user's constraints, and what the
assistant promised, decided and gave up, ranked by how recently and how often they were used. The same entries
give the same text. It is part of every record of a fold, and stands alone where there is no summary. The
weights and limits were measured on recorded sessions, by how many of the names that the next 20 tool calls
use are in the record.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from math import log
from typing import Literal

from msgspec import Struct, field

from transcripts import (
    CHANGED_KEY,
    GONE,
    Entry,
    Folded,
    Metadata,
    Prompt,
    Result,
    TextBlock,
    ToolKind,
    ToolUseBlock,
    User,
    attached_as,
    is_attached,
    is_injected,
    own_words,
)
from transcripts.patterns import lazy_pattern

from .commitments import Commitment, commitments
from .directives import LASTING, weighed_sentences
from .identifiers import file_path_of, joined_text, strings, whole_name_counts
from .tokens import TokenCounter

HALF_LIFE_CALLS = 60.0  # after which one use of a name counts half
SAID_WEIGHT = 0.5
SEEN_WEIGHT = 0.15  # of a name in a text of the model, in a result; in a tool input it is 1
MAX_SEARCHED_RESULT_CHARS = 60_000  # of a result, in which names are looked for
MAX_CONSTRAINT_CHARS = 300
MAX_ERROR_CHARS = 160
MAX_LISTED_COMMAND_CHARS = 120
MAX_ERROR_LINES = 40  # at the end of a command's output, among which its error is looked for
MAX_FAILED_COMMAND_CHARS = 60  # before what it said
MIN_NUMBER_CHARS = 3
MAX_APPENDED_NUMBERS = 15  # appended to a summary that lacks them
MANY_NAMES = 200  # from so many on it is faster to find all names of a text first than to search it for each
FULLY_WEIGHED_FILES = 4  # that one command changed: of more each weighs less, as they are made by a program
CHECKED_NAMES = 40  # of each kind, in the coverage of a summary; half as many numbers
_NUMBER = lazy_pattern(r"(?<![\w.,:/-])\d[\d.,:]*\d(?![\w/-])")
_ERROR_SIGN = lazy_pattern(
    r"error|fail|fatal|exception|denied|refused|cannot|can't|no such|not found|panic", re.IGNORECASE
)
_EDGE = "./@+-~"
_ACCOUNTS = "accounts of entries"  # by seq, in `derived`
_WORD_WITH_SIGNS = lazy_pattern(r"[\w./@+~-]+")
_COMMITMENT_TITLES = {
    "promise": "Promised by the assistant",
    "decision": "Decided",
    "rejected": "Tried and given up",
    "said": "Said by the assistant",
}

Scores = dict[str, float]
ScoreKind = Literal["read", "changed", "gone", "names", "numbers"]


class LocalSummary(Struct):
    """The content of a stretch of the conversation.

    Scores are sums over uses, halved every HALF_LIFE_CALLS.

    commands are as they are listed, with exit code or "error"; constraints are (sentence, recall id), and so
    are commitments; attached are (path, recall id) of what prompts mention.
    """

    read: Scores = field(default_factory=dict)
    changed: Scores = field(default_factory=dict)
    gone: Scores = field(default_factory=dict)
    names: Scores = field(default_factory=dict)
    numbers: Scores = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    constraints: list[tuple[str, str]] = field(default_factory=list)
    commitments: list[tuple[Commitment, str]] = field(default_factory=list)
    attached: list[tuple[str, str]] = field(default_factory=list)


class EntryAccount(Struct):
    """The part of one entry in a local summary; `uses` are (kind, calls of the entry so far, name ->
    weight).

    `made_of` are the number of its results and the kinds of its tools: an entry changes in nothing else.
    """

    made_of: tuple[int, tuple[ToolKind, ...]]
    calls: int = 0
    uses: list[tuple[ScoreKind, int, Mapping[str, float]]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    constraints: list[tuple[str, str]] = field(default_factory=list)
    commitments: list[tuple[Commitment, str]] = field(default_factory=list)
    attached: list[tuple[str, str]] = field(default_factory=list)


def build_local_summary(folded: Folded, entries: Iterable[Entry]) -> LocalSummary:
    """The ledger of a stretch of the conversation.

    What each entry says is worked out once, as it costs far more than to sum it up: further cuts, what comes
    after a preview and later compactions use it again.
    """
    local_summary = LocalSummary()
    kind_of = cache(folded.kind_of)
    calls = 0
    known: dict[int, EntryAccount] = folded.derived.setdefault(_ACCOUNTS, {})
    for entry in entries:
        made_of = _made_of(entry, kind_of)
        if (account := known.get(entry.seq)) is None or account.made_of != made_of:
            account = known[entry.seq] = _account(entry, made_of)
        for kind, offset, found in account.uses:
            _add(getattr(local_summary, kind), found, _weight(calls + offset))
            if (
                other := local_summary.changed
                if kind == "gone"
                else local_summary.gone
                if kind == "changed"
                else None
            ):
                _drop(other, found)
        calls += account.calls
        for name in ("commands", "errors", "constraints", "commitments", "attached"):
            getattr(local_summary, name).extend(getattr(account, name))
    return local_summary


def _made_of(entry: Entry, kind_of: Callable[[str], ToolKind]) -> tuple[int, tuple[ToolKind, ...]]:
    if isinstance(entry, Prompt):
        return 0, ()
    return len(entry.results), tuple(kind_of(use.name) for use in entry.uses.values())


def _account(entry: Entry, made_of: tuple[int, tuple[ToolKind, ...]]) -> EntryAccount:
    account = EntryAccount(made_of)
    if isinstance(entry, Prompt):
        account.constraints.extend(_constraints(entry.fact))
        account.attached.extend(_attached(entry.fact))
        account.uses.extend(("read", 0, {path: 1.0}) for path, _ in account.attached)
        return account
    for (index, use), kind in zip(entry.uses.items(), made_of[1], strict=True):
        account.calls += 1
        _add_call(account, use, kind, entry.results.get(index))
    for result in entry.results.values():
        sentences = (each for _, text in result.said for each in _lasting_sentences(text))
        account.constraints.extend((each, f"r{result.seq}") for each in sentences)
    for index, block in enumerate(entry.fact.blocks):
        if isinstance(block, TextBlock):
            numbers = {number for number in _NUMBER.findall(block.text) if len(number) >= MIN_NUMBER_CHARS}
            named = dict.fromkeys(whole_name_counts(block.text), SAID_WEIGHT)
            account.uses.append(("names", account.calls, named))
            account.uses.append(("numbers", account.calls, dict.fromkeys(numbers, SAID_WEIGHT)))
            made = commitments(block.text, acts=bool(entry.uses))
            account.commitments.extend((each, f"r{entry.seq}.{index}") for each in made)
    return account


def _add_call(account: EntryAccount, use: ToolUseBlock, kind: ToolKind, result: Result | None) -> None:
    path = file_path_of(use)
    at = account.calls
    failed = result is not None and result.error
    if path and kind != "searches" and not failed:
        account.uses.append(("changed" if kind == "writes" else "read", at, {path: 1.0}))
    named = dict.fromkeys(whole_name_counts("\n".join(strings(use.input))), 1.0)
    text = joined_text(result.content) if result is not None else ""
    for name, times in whole_name_counts(text[:MAX_SEARCHED_RESULT_CHARS]).items():
        named[name] = named.get(name, 0.0) + SEEN_WEIGHT * (1 + log(times))
    account.uses.append(("names", at, named))
    changed = result.about.get(CHANGED_KEY) if result is not None and kind != "writes" else None
    files = changed if isinstance(changed, dict) else {}  # what a record holds is of any shape
    for path, how in files.items():
        weight = min(1.0, FULLY_WEIGHED_FILES / len(files))
        account.uses.append(("gone" if how == GONE else "changed", at, {path: weight}))
    line = use.input.get("command") if kind == "runs" else None
    command = " ".join(line.split()) if isinstance(line, str) else ""
    if command:
        code = result.about.get("exit") if result is not None else None
        ended = f" -> {code}" if code is not None else " -> error" * failed
        account.commands.append(f"{command[:MAX_LISTED_COMMAND_CHARS]}{ended}")
    if failed and not (result is not None and result.said):  # what a person said stands among their words
        call = " ".join(filter(None, (use.name, path or command[:MAX_FAILED_COMMAND_CHARS])))
        account.errors.append(f"{call}: {_telling_line(text, kind)}"[:MAX_ERROR_CHARS])


def _telling_line(text: str, kind: ToolKind) -> str:
    """The line of a failed call that tells most of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    if kind != "runs":
        return lines[0]  # of ours, which say first what is wrong
    # A command's error ends its output, behind which only notes stand: [exit code 2], [took 40 s].
    end = [line for line in lines[-MAX_ERROR_LINES:] if line[:1] + line[-1:] != "[]"] or lines[:1]
    return next((line for line in reversed(end) if _ERROR_SIGN.search(line)), end[-1])


def _weight(calls: int) -> float:
    """The weight of a use after so many calls: newer ones weigh more, and only the ratios count."""
    return float(2.0 ** (calls / HALF_LIFE_CALLS % 900))  # bounded: a float ends at 2 ** 1023


def _add(scores: Scores, found: Mapping[str, float], weight: float) -> None:
    for name, factor in found.items():
        scores[name] = scores.get(name, 0.0) + factor * weight


def _drop(scores: Scores, paths: Iterable[str]) -> None:
    """Forget these files, whether they were named by their whole path or by that in the project."""
    for path in paths:
        same = [name for name in scores if f"/{name}".endswith(f"/{path}") or path.endswith(f"/{name}")]
        for name in same:
            del scores[name]


def _constraints(fact: User) -> Iterator[tuple[str, str]]:
    """(sentence, recall id) of each sentence of the user's own words that forbids or demands for good."""
    if fact.source != "user":
        return
    for index, block in enumerate(fact.blocks):
        if isinstance(block, TextBlock) and not is_injected(block):
            for each in _lasting_sentences(own_words(block.text)):
                yield each, f"r{fact.seq}.{index}"


def _lasting_sentences(text: str) -> Iterator[str]:
    for each in weighed_sentences(text):
        if each.weight >= LASTING and each.end - each.start <= MAX_CONSTRAINT_CHARS:
            yield text[each.start : each.end]


def _attached(fact: User) -> Iterator[tuple[str, str]]:
    """(path, recall id) of each file or folder that the prompt mentions and its text shows."""
    for index, block in enumerate(fact.blocks):
        if is_attached(block):
            kind, what = attached_as(block)
            if kind == "Image":  # its name stands behind it, alone
                yield what, f"r{fact.seq}.{index - 1}"
            elif path := what.rpartition(" (")[0]:
                yield path, f"r{fact.seq}.{index}"


def pins_of(notes: Iterable[Metadata]) -> dict[int, str]:
    """The texts that the user has pinned, by number."""
    pins: dict[int, str] = {}
    for note in notes:
        if note.topic == "pin":
            pins[int(note.about["id"])] = str(note.about["text"])
        elif note.topic == "unpin":
            pins.pop(int(note.about["id"]), None)
    return pins


def local_summary_text(local_summary: LocalSummary, counter: TokenCounter, limit: int, skip: str = "") -> str:
    """The ledger in at most `limit` tokens of our count, without the names that are in `skip`.

    `skip` is what the model is shown beside the ledger. Files, errors and commands get just under half of
    the limit, because a line of names is worth more to the work that follows than one more command.
    """
    sections: list[str] = []
    left = limit
    gone = {f"{path} ({GONE})": score for path, score in local_summary.gone.items()}
    for title, rows, share in (
        ("Files changed", _ranked({**local_summary.changed, **gone}), 0.12),
        ("Files read", _files_read(local_summary), 0.12),
        ("Last errors", dict.fromkeys(reversed(local_summary.errors)), 0.06),
        ("Last commands", dict.fromkeys(reversed(local_summary.commands)), 0.08),
    ):
        kept, used = _fitting(title, rows, counter, min(left, int(limit * share)))
        if kept:
            sections.append("\n  ".join([f"{title}:", *kept]))
            left -= used
    found = _without_parts(_names_not_in("\n".join([skip, *sections]), local_summary))
    named, _ = _fitting("Names", found, counter, left)
    return "\n".join([*sections, *([f"Names:  {', '.join(named)}"] if named else [])])


def _files_read(local_summary: LocalSummary) -> Iterator[str]:
    """Paths, with the id of the newest text where a prompt mentioned them."""
    ids = dict(local_summary.attached)
    paths = (path for path in _ranked(local_summary.read) if path not in local_summary.changed)
    return (f"{path} ({ids[path]})" if path in ids else path for path in paths)


def commitments_text(local_summary: LocalSummary, counter: TokenCounter, limit: int, skip: str = "") -> str:
    """Return the assistant's promises, decisions and rejections verbatim, with ids, in at most `limit`
    tokens.

    The heaviest are taken first and of the same weight the newest; they stand in their order. What `skip`
    holds is left out.
    """
    ids = {each.text: ident for each, ident in local_summary.commitments}
    newest_first = reversed(local_summary.commitments)  # what is said again stands where it was said last
    unique = list({each.text: each for each, _ in newest_first if each.text not in skip}.values())[::-1]
    ranked = sorted(enumerate(unique), key=lambda item: (-item[1].weight, -item[0]))
    kept: dict[int, Commitment] = {}
    left = limit - 8 * len({each.kind for each in unique})
    for at, each in ranked:
        left -= counter.text(each.text) + 8  # the frame of a line, with its id
        if left < 0:
            break
        kept[at] = each
    sections = []
    for kind, title in _COMMITMENT_TITLES.items():
        lines = [f"- {kept[at].text} ({ids[kept[at].text]})" for at in sorted(kept) if kept[at].kind == kind]
        sections.extend(["\n".join([f"{title}:", *lines])] if lines else [])
    return "\n".join(sections)


def missing_names(local_summary: LocalSummary, counter: TokenCounter, limit: int, text: str) -> str:
    """The most used and latest numbers and names that `text` lacks, in at most `limit` tokens."""
    numbers = [number for number in _used_numbers(local_summary) if number not in text]
    # Lazy: names are searched for only as long as there is room for one more.
    rows = chain(numbers[:MAX_APPENDED_NUMBERS], _names_not_in(text, local_summary))
    return ", ".join(_fitting("Names", rows, counter, limit)[0])


def _fitting(title: str, rows: Iterable[str], counter: TokenCounter, room: int) -> tuple[list[str], int]:
    """As many rows as fit with their title into `room` tokens, and the tokens that they take."""
    kept: list[str] = []
    used = counter.text(title) + 3
    for row in rows:
        tokens = counter.text(row) + 2
        if used + tokens > room:
            break
        used += tokens
        kept.append(row)
    return kept, used


def coverage(local_summary: LocalSummary, summary: str, kept: str) -> dict[str, list[int]]:
    """Return the coverage of a summary by kind of name: [named by the summary, by all that is kept, of so
    many].
    """
    return {
        kind: [sum(name in summary for name in found), sum(name in kept for name in found), len(found)]
        for kind, found in _most_used(local_summary).items()
    }


def _most_used(local_summary: LocalSummary) -> dict[str, list[str]]:
    """The paths, identifiers and numbers in most and latest use, which a summary should name."""
    paths = {**local_summary.names, **local_summary.read, **local_summary.changed}
    others = local_summary.names.items()
    return {
        "paths": _ranked({name: score for name, score in paths.items() if _is_path(name)})[:CHECKED_NAMES],
        "identifiers": _ranked({name: score for name, score in others if not _is_path(name)})[:CHECKED_NAMES],
        "numbers": _used_numbers(local_summary),
    }


def _used_numbers(local_summary: LocalSummary) -> list[str]:
    return _ranked(local_summary.numbers)[: CHECKED_NAMES // 2]


def _is_path(name: str) -> bool:
    return "/" in name or "." in name


def _ranked(scores: Scores) -> list[str]:
    return sorted(sorted(scores), key=scores.__getitem__, reverse=True)  # of the same score by the alphabet


def _without_parts(names: Iterable[str]) -> Iterator[str]:
    """The names, without those that stand within one before them: `AgentType` after `state.AgentType`."""
    before = ""
    for name in names:
        if name not in before:
            before += f"\n{name}"
            yield name


def _names_not_in(text: str, local_summary: LocalSummary) -> Iterator[str]:
    """The names, best first, that do not stand in a text: as a word, a part of one, or the end of a path."""
    ranked = _ranked({**local_summary.read, **local_summary.changed, **local_summary.names})
    if len(ranked) <= MANY_NAMES:
        return (name for name in ranked if name not in text)
    mentioned = {word.strip(_EDGE) for word in set(_WORD_WITH_SIGNS.findall(text))}
    mentioned.update([name for word in mentioned if _is_path(word) for name in _parts(word)])
    return (name for name in ranked if name not in mentioned and name.strip(_EDGE) not in mentioned)


def _parts(word: str) -> Iterator[str]:
    """Return the components of a compound word, and the ends of a path."""
    yield from word.split(".")
    ends = word.split("/")
    for at in range(1, len(ends)):
        yield "/".join(ends[at:])
        yield ends[at - 1]
