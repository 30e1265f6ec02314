"""Account for one entry of the conversation: what it contributes to a local summary.

That is the files that it reads and changes, its commands with their results, its errors, the user's
constraints, what the assistant promised, decided and gave up, and the names that it uses and defines.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from math import log
from typing import Literal, NamedTuple

from msgspec import Struct, field

from transcripts import (
    Entry,
    Exchange,
    Prompt,
    Result,
    TextBlock,
    ToolKind,
    ToolUseBlock,
    User,
    file_patches,
    own_words,
)
from transcripts.patterns import lazy_pattern

from .commitments import Commitment, commitments
from .definitions import LINE_NUMBER, MAX_SEARCHED_CHARS, definitions, enclosing_definition
from .directives import LASTING, weighed_sentences
from .identifiers import OLD_TEXT_ARGUMENTS, file_path_of, joined_text, names, strings, whole_name_counts
from .patches import is_patch, shown_file

SAID_WEIGHT = 0.5
SEEN_WEIGHT = 0.15  # of a name in a text of the model, in a result; in a tool input it is 1
EDITED_WEIGHT = 2.0  # of the definition around an edited place
MAX_CONSTRAINT_CHARS = 300
MAX_ERROR_CHARS = 160
MAX_LISTED_COMMAND_CHARS = 120
MAX_SEARCHED_COMMAND_CHARS = 2_000  # of an argument, for paths; a longer one contains a file
MAX_FAILED_COMMAND_CHARS = 60  # before what it said
MAX_COMMAND_RESULT_CHARS = 100  # of the line with a command's result
MIN_ANNOUNCEMENT_CHARS = 20  # a shorter one means nothing by itself
MAX_ANNOUNCEMENT_CHARS = 120  # of a sentence before an edit; a longer one explains rather than announces
MAX_CLOSING_CHARS = 240  # of a reply that ended a turn
PROSE_ENDINGS = (".md", ".txt", ".rst", ".html", ".json", ".jsonl", ".log")  # of files that define no names
FULLY_WEIGHED_FILES = 4  # that one command changed: with more, each weighs less, as a program makes them
_NUMBER = lazy_pattern(r"(?<![\w.,:/-])\d[\d.,:]*\d(?![\w/-])")
_ERROR_SIGN = lazy_pattern(
    r"error|fail|fatal|exception|denied|refused|cannot|can't|no such|not found|panic", re.IGNORECASE
)
_BLOCK_START = lazy_pattern(r"\n\s*(?:```|\|)")  # of code or a table in a reply
_SENTENCE_END = lazy_pattern(r"(?<!\d)[.!?](?=\s)")
_WORD = lazy_pattern(r"[A-Za-z_$][\w$]{2,}")
_VARIABLE = lazy_pattern(r"\$[\w{(][\w./{}-]*")  # with the path below it
_LEADING_CD = lazy_pattern(r"^cd \S+ ?(?:&&|;) ")
_LOOKING_COMMAND = lazy_pattern(
    r"(?:cd \S+ ?(?:&&|;) )?(?:ls|cat|head|tail|grep|rg|find|fd|wc|sed -n|pwd|echo|which|tree"
    r"|stat|file|date|ps|git (?:-C \S+ )?(?:status|log|diff|show|branch|rev-parse|remote|ls-files|blame))\b"
)
Scores = dict[str, float]
MadeOf = tuple[int, int, tuple[ToolKind, ...]]
ScoreKind = Literal["read", "changed", "gone", "paths", "names", "numbers"]


class Command(Struct, frozen=True):
    """A command as listed: its exit code or "error" ("" if there is none), and the line with its result.

    `looks` is set if it only shows something, like `ls` and `git log`.
    """

    line: str
    ended: str
    result: str
    looks: bool


class FileEdit(Struct, frozen=True):
    """A change of a file: its path, the recall id of the call, and the sentence that announces it."""

    path: str
    ident: str
    announced: str


class ListedParts(Struct):
    """The ordered lists of a local summary: of a stretch of the conversation, or of one entry.

    constraints are (sentence, recall id), and so are commitments and closings, the replies that ended a turn;
    attached are (path, recall id) of what prompts mention.
    """

    commands: list[Command] = field(default_factory=list)
    edits: list[FileEdit] = field(default_factory=list)
    constraints: list[tuple[str, str]] = field(default_factory=list)
    commitments: list[tuple[Commitment, str]] = field(default_factory=list)
    closings: list[tuple[str, str]] = field(default_factory=list)
    attached: list[tuple[str, str]] = field(default_factory=list)

    def extend(self, later: "ListedParts") -> None:
        """Add what came later."""
        for name in ListedParts.__struct_fields__:
            getattr(self, name).extend(getattr(later, name))


class CallNames(Struct):
    """The names in a call and its result, which are looked for when they are first needed.

    That takes longer than everything else in an account, and only the check of a model summary needs them.
    """

    use: ToolUseBlock
    result: Result | None
    _weights: Mapping[str, float] | None = None

    def weights(self) -> Mapping[str, float]:
        """Return the names with the weight of each."""
        if self._weights is None:
            named = dict.fromkeys(whole_name_counts("\n".join(strings(self.use.input))), 1.0)
            text = joined_text(self.result.content) if self.result is not None else ""
            for name, times in whole_name_counts(text[:MAX_SEARCHED_CHARS]).items():
                named[name] = named.get(name, 0.0) + SEEN_WEIGHT * (1 + log(times))
            self._weights = named
        return self._weights


class EntryAccount(ListedParts):
    """The part of one entry in a local summary.

    `made_of` are the number of its results, that of their blocks, and the kinds of its tools: an entry
    changes in no other way. `uses` are (kind, calls of the entry so far, name -> weight), `mentions` (path of
    the file that the text is about, calls so far, words, weight), `definitions` (path, names), `pages` the
    newest text of files, `called` (calls so far, names of a call). `outcomes` are (what was called, its error
    or "" if it succeeded). A faded account lacks names, numbers, definitions and what results say: all that
    fades with the calls after it.
    """

    made_of: MadeOf = (0, 0, ())
    calls: int = 0
    uses: list[tuple[ScoreKind, int, Mapping[str, float]]] = field(default_factory=list)
    mentions: list[tuple[str, int, frozenset[str], float]] = field(default_factory=list)
    definitions: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    pages: dict[str, str] = field(default_factory=dict)
    called: list[tuple[int, CallNames]] = field(default_factory=list)
    outcomes: list[tuple[str, str]] = field(default_factory=list)
    faded: bool = False


def composition_of(entry: Entry, kind_of: Callable[[str], ToolKind]) -> MadeOf:
    if isinstance(entry, Prompt):
        return 0, 0, ()
    blocks = sum(len(result.content) for result in entry.results.values())
    return len(entry.results), blocks, tuple(kind_of(use.name) for use in entry.uses.values())


def account_of(entry: Entry, made_of: MadeOf, pages: Mapping[str, str], faded: bool = False) -> EntryAccount:
    """Return the account of an entry; `pages` are the newest texts of files before it."""
    account = EntryAccount(made_of=made_of, faded=faded)
    if isinstance(entry, Prompt):
        account.constraints.extend(_constraints(entry.fact))
        account.attached.extend(_attached(entry.fact))
        account.uses.extend(("read", 0, {path: 1.0}) for path, _ in account.attached)
        named = frozenset(_names_of_user(entry.fact))
        account.uses.append(("paths", 0, _paths_in_prose(named, 1.0)))
        account.mentions.append(("", 0, named, 1.0))
        return account
    said = ""
    uses = entry.uses
    results = entry.results
    kinds = dict(zip(uses, made_of[2], strict=True))
    for index, block in enumerate(entry.fact.blocks):
        if isinstance(block, TextBlock):
            said = block.text
            continue
        if (use := uses.get(index)) is None:
            continue
        account.calls += 1
        result = results.get(index)
        touches = _touches(use, kinds[index], result)
        account.uses.extend((each.how, account.calls, {each.path: each.weight}) for each in touches)
        edited = (each.path for each in touches if each.edits)
        account.edits.extend(FileEdit(path, f"r{entry.seq}.{index}", _announcement(said)) for path in edited)
        _add_call(account, use, kinds[index], result)
        if not faded:
            _add_definitions(account, use, kinds[index], result, {**pages, **account.pages})
    for result in results.values():
        account.constraints.extend(_constraints_in_remarks(result))
    for index, block in enumerate(entry.fact.blocks):
        if isinstance(block, TextBlock):
            _add_text(account, block.text, f"r{entry.seq}.{index}", acts=bool(uses))
    return account


def _add_text(account: EntryAccount, text: str, ident: str, acts: bool) -> None:
    """Account for a text of the model; `acts` is set if its reply calls tools."""
    if not account.faded:
        numbers = {number for number in _NUMBER.findall(text) if len(number) >= 3}
        counts = whole_name_counts(text)
        account.uses.append(("names", account.calls, dict.fromkeys(counts, SAID_WEIGHT)))
        account.uses.append(("numbers", account.calls, dict.fromkeys(numbers, SAID_WEIGHT)))
        account.uses.append(("paths", account.calls, _paths_in_prose(counts, SAID_WEIGHT)))
        account.mentions.append(("", account.calls, frozenset(_parts(counts)), SAID_WEIGHT))
    if not (account.faded and acts):  # mostly next steps; the summary has the other promises
        account.commitments.extend((each, ident) for each in commitments(text, acts=acts))
    if not acts and text.strip():
        account.closings.append((_beginning(text), ident))


def _beginning(text: str) -> str:
    """Return the first sentences of a text on one line, in about MAX_CLOSING_CHARS characters."""
    plain, *blocks = _BLOCK_START.split(text[: 4 * MAX_CLOSING_CHARS].strip(), maxsplit=1)
    if plain.endswith(":") and blocks:  # the block says what was announced
        plain = f"{plain} {blocks[0]}"
    line = " ".join(plain.replace("\n#", "\n").split()).lstrip("# ")
    if len(line) <= MAX_CLOSING_CHARS:
        return line
    cut = line[:MAX_CLOSING_CHARS]
    end = max((found.end() for found in _SENTENCE_END.finditer(cut)), default=0)
    return cut[:end] if end > MAX_CLOSING_CHARS // 3 else f"{cut.rpartition(' ')[0] or cut}…"


def _parts(dotted: Iterable[str]) -> Iterator[str]:
    """Yield names, and the last component of those with dots: `CommitObject` of `repo.CommitObject`."""
    for name in dotted:
        yield name
        yield name.rpartition(".")[2]


def _names_of_user(fact: User) -> Iterator[str]:
    """Yield the names in the user's own words."""
    if fact.source == "user":
        for block in fact.blocks:
            if isinstance(block, TextBlock) and block.injected_text is None:
                yield from names(own_words(block.text))


def _add_definitions(
    account: EntryAccount, use: ToolUseBlock, kind: ToolKind, result: Result | None, pages: Mapping[str, str]
) -> None:
    """Account for the definitions that a call shows or changes, and for the names that its input contains."""
    path = file_path_of(use)
    inputs = [text for text in strings(use.input) if text != path]
    joined = "\n".join(inputs)
    words = _WORD.findall(joined) if kind in ("writes", "searches") else _parts(whole_name_counts(joined))
    account.mentions.append((path, account.calls, frozenset(words), 1.0))
    if not path or result is None or result.error or path.endswith(PROSE_ENDINGS):
        return
    if kind == "reads":
        text = joined_text(result.content)[:MAX_SEARCHED_CHARS]
        account.pages[path] = LINE_NUMBER.sub("", text)
        found = definitions(account.pages[path])
        account.definitions.append((path, frozenset(name for _, name in found)))
    elif kind == "writes":
        page = pages.get(path, "")
        olds = [str(use.input[name]) for name in OLD_TEXT_ARGUMENTS if name in use.input]
        around = {name for old in olds if (name := enclosing_definition(page, old))}
        account.mentions.append((path, account.calls, frozenset(around), EDITED_WEIGHT))
        written = {name for text in inputs for _, name in definitions(text)}
        account.definitions.append((path, frozenset(around | written)))


def _add_call(account: EntryAccount, use: ToolUseBlock, kind: ToolKind, result: Result | None) -> None:
    """Account for the names, the command and the error of a call."""
    path = file_path_of(use)
    at = account.calls
    failed = result is not None and result.error
    text = joined_text(result.content) if result is not None and not account.faded else ""
    if not account.faded:
        account.called.append((at, CallNames(use, result)))
    line = use.input.get("command") if kind == "runs" else None
    command = " ".join(line.split()) if isinstance(line, str) else ""
    telling = _telling_line(text, kind, failed)
    account.uses.append(("paths", at, dict.fromkeys(_paths_in_call(use), 1.0)))
    if command:
        code = result.about.get("exit") if result is not None else None
        ended = str(code) if code is not None else "error" * failed
        looks = _LOOKING_COMMAND.match(command) is not None
        shown = command[:MAX_LISTED_COMMAND_CHARS]
        account.commands.append(
            Command(shown, ended=ended, result=telling[:MAX_COMMAND_RESULT_CHARS], looks=looks)
        )
    if result is None:
        return
    # A later run of the same program on the same thing shows whether its error is still open.
    called = f"{use.name} {path or ' '.join(_LEADING_CD.sub('', command).split()[:2])}"
    if not failed:
        account.outcomes.append((called, ""))
    elif not result.remarks and not text.startswith("[interrupted"):  # a refusal is among the user's words
        shown = " ".join(filter(None, (use.name, path or command[:MAX_FAILED_COMMAND_CHARS])))
        account.outcomes.append((called, ": ".join(filter(None, (shown, telling)))[:MAX_ERROR_CHARS]))


def _paths_in_call(use: ToolUseBlock) -> Iterator[str]:
    """Yield the paths, branches and imported packages in a command, an edit or other arguments of a call."""
    path = file_path_of(use)  # is listed among the files
    for text in strings(use.input):
        if text != path:
            yield from _paths_among(names(_VARIABLE.sub(" ", text[:MAX_SEARCHED_COMMAND_CHARS])))


def _paths_among(found: Iterable[str]) -> Iterator[str]:
    for name in found:
        if "/" in name and not name.startswith(("/dev/", "//")):
            yield name


def _paths_in_prose(found: Iterable[str], weight: float) -> Scores:
    """Return the paths among the names in prose, but no pairs of words such as `read/write`."""
    return {name: weight for name in _paths_among(found) if "." in name or name.startswith("/")}


class _Touch(NamedTuple):
    """A file that a call reads, changes or deletes; `edits` if the call itself is an edit of it."""

    path: str
    how: ScoreKind
    weight: float = 1.0
    edits: bool = False


def _touches(use: ToolUseBlock, kind: ToolKind, result: Result | None) -> list[_Touch]:
    """Return the files that a call touches.

    Agents that have no tools for it read by commands and edit by patches.
    """
    found = list[_Touch]()
    files = result.changed_files if result is not None and kind != "writes" else {}
    edits = kind == "writes"
    if kind != "searches" and not (result is not None and result.error):
        if path := file_path_of(use):
            found.append(_Touch(path, "changed" if edits else "read", edits=edits))
        elif is_patch(use):
            edits = True
            changes = () if files else (each for text in strings(use.input) for each in file_patches(text))
            for change in changes:
                gone = change.action == "delete"
                found.append(_Touch(change.path, "gone" if gone else "changed", edits=not gone))
        elif kind == "runs" and (shown := shown_file(use)) is not None:
            found.append(_Touch(shown.path, "read"))
    weight = min(1.0, FULLY_WEIGHED_FILES / max(1, len(files)))
    for path, how in files.items():
        gone = how == "gone"
        found.append(_Touch(path, "gone" if gone else "changed", weight, edits=edits and not gone))
    return found


def _announcement(text: str) -> str:
    """Return the last sentence of a text before a call, in which models say what they are about to do."""
    line = text.strip().rpartition("\n")[2].strip()
    last = _SENTENCE_END.split(line.rstrip(".:!"))[-1].strip()
    return last if MIN_ANNOUNCEMENT_CHARS <= len(last) <= MAX_ANNOUNCEMENT_CHARS else ""


def _telling_line(text: str, kind: ToolKind, failed: bool) -> str:
    """Return the line of a call's result that says most about its outcome."""
    lines = text.strip().splitlines() or [""]
    first = lines[0].strip()
    if kind != "runs":
        return first  # makeroom's own tools say first what is wrong
    # The error is near the end of a command's output; only notes follow it: [exit code 2], [took 40 s].
    last = list(islice((line.strip() for line in reversed(lines) if line.strip()), 40))[::-1]
    end = [line for line in last if line[:1] + line[-1:] != "[]"] or [first]
    if not failed:
        return end[-1]
    return next((line for line in reversed(end) if _ERROR_SIGN.search(line)), end[-1])


def _constraints(fact: User) -> Iterator[tuple[str, str]]:
    """Yield (sentence, recall id) of each sentence of the user that forbids or requires something."""
    if fact.source != "user":
        return
    for index, block in enumerate(fact.blocks):
        if isinstance(block, TextBlock) and block.injected_text is None:
            for each in _lasting_sentences(own_words(block.text)):
                yield each, f"r{fact.seq}.{index}"


def _constraints_in_remarks(result: Result) -> Iterator[tuple[str, str]]:
    """Yield the same of what the user said to a call."""
    for _, text in result.remarks:
        for each in _lasting_sentences(text):
            yield each, f"r{result.seq}"


def _lasting_sentences(text: str) -> Iterator[str]:
    for each in weighed_sentences(text):
        if each.weight >= LASTING and each.end - each.start <= MAX_CONSTRAINT_CHARS:
            yield text[each.start : each.end]


def _attached(fact: User) -> Iterator[tuple[str, str]]:
    """Yield (path, recall id) of each file or directory that the prompt mentions and its text shows."""
    for index, block in enumerate(fact.blocks):
        if attachment := block.attachment:
            if attachment.kind == "Image":  # its name is in the next block
                yield attachment.name, f"r{fact.seq}.{index - 1}"
            elif path := attachment.name.rpartition(" (")[0]:
                yield path, f"r{fact.seq}.{index}"


class DistantAccount(ListedParts):
    """The account of the oldest `entries` of a session, from which a local summary needs little.

    It lacks commands, errors and what the assistant said: newer ones take their place in a local summary.
    `read`, `changed` and `gone` have the number of the newest call with each file, of `calls`.
    """

    entries: int = 0
    calls: int = 0
    read: Scores = field(default_factory=dict)
    changed: Scores = field(default_factory=dict)
    gone: Scores = field(default_factory=dict)

    def add(self, entry: Entry, kind_of: Callable[[str], ToolKind]) -> None:
        """Add the next entry, in a fifth of the time that `account_of` takes."""
        self.entries += 1
        if isinstance(entry, Prompt):
            attached = list(_attached(entry.fact))
            self.constraints.extend(_constraints(entry.fact))
            self.attached.extend(attached)
            self.read.update((path, self.calls) for path, _ in attached)
            return
        results = entry.results
        for index, use in entry.uses.items():
            self.calls += 1
            self._add_call(entry, index, use, kind_of(use.name), results.get(index))
        for result in entry.answers:
            self.constraints.extend(_constraints_in_remarks(result))

    def _add_call(
        self, entry: Exchange, index: int, use: ToolUseBlock, kind: ToolKind, result: Result | None
    ) -> None:
        for each in _touches(use, kind, result):
            if each.how == "read":
                self.read[each.path] = self.calls
            elif each.how == "gone":
                self.gone[each.path] = self.calls
                drop_path(self.changed, each.path)
            else:
                self.changed[each.path] = self.calls
                drop_path(self.gone, each.path)
            if each.edits:
                before = reversed(entry.fact.blocks[:index])
                said = next((block.text for block in before if isinstance(block, TextBlock)), "")
                self.edits.append(FileEdit(each.path, f"r{entry.seq}.{index}", _announcement(said)))


def drop_path(scores: Scores, path: str) -> None:
    """Remove a file, whether it was named by its full path or relative to the project."""
    same = [name for name in scores if f"/{name}".endswith(f"/{path}") or path.endswith(f"/{name}")]
    for name in same:
        del scores[name]
