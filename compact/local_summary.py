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
from math import log
from typing import Literal

from msgspec import Struct, field

from transcripts import (
    Entry,
    Folded,
    Metadata,
    Prompt,
    Result,
    TextBlock,
    ToolKind,
    ToolUseBlock,
    User,
    attachment_of,
    injected_text,
    own_words,
)
from transcripts.patterns import lazy_pattern

from .commitments import Commitment, commitments
from .directives import LASTING, weighed_sentences
from .identifiers import file_path_of, joined_text, strings, whole_name_counts

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
FULLY_WEIGHED_FILES = 4  # that one command changed: of more each weighs less, as they are made by a program
_NUMBER = lazy_pattern(r"(?<![\w.,:/-])\d[\d.,:]*\d(?![\w/-])")
_ERROR_SIGN = lazy_pattern(
    r"error|fail|fatal|exception|denied|refused|cannot|can't|no such|not found|panic", re.IGNORECASE
)
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


class EntryAccounts(Struct):
    """The accounts of the entries so far, by the seq of each; kept with the folded facts."""

    by_seq: dict[int, EntryAccount] = field(default_factory=dict)


def build_local_summary(folded: Folded, entries: Iterable[Entry]) -> LocalSummary:
    """The ledger of a stretch of the conversation.

    What each entry says is worked out once, as it costs far more than to sum it up: further cuts, what comes
    after a preview and later compactions use it again.
    """
    local_summary = LocalSummary()
    kind_of = cache(folded.kind_of)
    calls = 0
    known = folded.memo(EntryAccounts).by_seq
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
    files = result.changed_files if result is not None and kind != "writes" else {}
    for path, how in files.items():
        weight = min(1.0, FULLY_WEIGHED_FILES / len(files))
        account.uses.append(("gone" if how == "gone" else "changed", at, {path: weight}))
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
        if isinstance(block, TextBlock) and injected_text(block) is None:
            for each in _lasting_sentences(own_words(block.text)):
                yield each, f"r{fact.seq}.{index}"


def _lasting_sentences(text: str) -> Iterator[str]:
    for each in weighed_sentences(text):
        if each.weight >= LASTING and each.end - each.start <= MAX_CONSTRAINT_CHARS:
            yield text[each.start : each.end]


def _attached(fact: User) -> Iterator[tuple[str, str]]:
    """(path, recall id) of each file or folder that the prompt mentions and its text shows."""
    for index, block in enumerate(fact.blocks):
        if attachment := attachment_of(block):
            if attachment.kind == "Image":  # its name stands behind it, alone
                yield attachment.name, f"r{fact.seq}.{index - 1}"
            elif path := attachment.name.rpartition(" (")[0]:
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
