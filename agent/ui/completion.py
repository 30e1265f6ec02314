"""Complete typed text: slash commands at the start, files after an `@`, any path on Tab."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from agent.ports import CommandSummary
from tools.files import FileError, in_thread
from tools.search import list_project
from tools.text import is_plain
from transcripts.patterns import lazy_pattern
from transcripts.storage import expand_home

from .terminal_text import one_line

log = logging.getLogger(__name__)
MAX_OFFERED_FILES = 50  # after an @
LISTING_TIMEOUT_S = 5.0  # after which a file system that does not respond is given up on
_MENTION = lazy_pattern(r'(?:^|\s)@("[^"\n]*"?[^\s@"]*|[^\s@]*)$')  # more may follow a quoted directory


def rank(typed: str, names: Iterable[str]) -> list[str]:
    """Return the names that match, best first: by their start, then by the letters in order.

    Equally good names keep their order.
    """
    low = typed.lower()
    scores = {name: score for name in names if (score := _score(low, name.lower())) is not None}
    return sorted(scores, key=scores.__getitem__)


def _score(typed: str, name: str) -> tuple[int, int] | None:
    """Return (kind of match, place), lower is better; None for no match."""
    if name.startswith(typed):
        return (0, 0)
    base = name.rstrip("/").rfind("/") + 1
    if name.startswith(typed, base):
        return (1, 0)
    found = name.find(typed)
    if found >= 0:
        return (2, found)
    at = -1
    for char in typed:
        at = name.find(char, at + 1)
        if at < 0:
            return None
    return (3, at)


def word_before_cursor(text: str) -> str:
    """Return the last word of a line, including escaped spaces, without a leading `!`."""
    typed = text[-4_096:]  # PATH_MAX
    start = len(typed)
    while start and (not typed[start - 1].isspace() or _is_escaped(typed, start - 1)):
        start -= 1
    word = typed[start:]
    return word.lstrip("!") if text.lstrip().startswith("!") and word == text.lstrip() else word


def _is_escaped(text: str, at: int) -> bool:
    """Return whether an unescaped backslash precedes the character."""
    before = text[:at]
    return text[at] != "\n" and (len(before) - len(before.rstrip("\\"))) % 2 == 1


def matching_paths(word: str, folder: Path, *, shell: bool) -> list[str]:
    """Return the paths on disk that begin with a word, directories with a slash at the end.

    In a shell line (`shell`), characters that a shell would interpret are escaped. Hidden files match only a
    word that begins with a dot.
    """
    plain = re.sub(r"\\(.)", r"\1", word) if shell else word
    head, slash, base = plain.rpartition("/")
    parent = folder / expand_home(f"{head}{slash}") if slash else folder
    try:
        with os.scandir(parent) as entries:
            names = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in islice(entries, 20_000)
                if entry.name.startswith(base) and (base.startswith(".") or not entry.name.startswith("."))
                if is_plain(entry.name)
            ]
    except (OSError, ValueError):
        return []
    found = [f"{head}{slash}{name}" for name in sorted(names)[:200]]  # more would not help
    return [re.sub(r"([\s\\\"'$&|;()<>*?#`])", r"\\\1", name) for name in found] if shell else found


class FileIndex:
    """The files of a project directory, listed in the background."""

    def __init__(self, folder: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder
        self._monotonic = monotonic
        self._listed_at: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._names: Sequence[str] = ()

    async def names(self) -> Sequence[str]:
        """Return paths relative to the directory, shallow ones first, directories with a slash at the end.

        Only the first call waits for the listing; an old list is returned while a new one is made.
        """
        if self._listed_at is None or self._monotonic() - self._listed_at > 10.0:  # seconds
            if self._task is None or self._task.done():
                self._task = asyncio.ensure_future(self._list())
            if self._listed_at is None:
                await asyncio.shield(self._task)
        return self._names

    async def _list(self) -> None:
        end = self._monotonic() + 3.0  # after which it ends with the files found so far
        try:
            self._names = await in_thread(
                lambda unwanted: list_project(
                    self.folder, lambda: unwanted.is_set() or self._monotonic() > end
                ),
                LISTING_TIMEOUT_S,
            )
        except FileError as error:  # a dead mount: keep the names known so far
            log.info("no list of files: %s", error)
        self._listed_at = self._monotonic()


class CompletionSource(Completer):
    """Completions of commands, mentioned files and paths."""

    def __init__(self, commands: Callable[[], Sequence[CommandSummary]], files: FileIndex) -> None:
        self._commands = commands
        self._files = files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Complete commands and their first words only, which needs no waiting."""
        before = document.text_before_cursor
        name, space, word = before.partition(" ")
        if not before.startswith("/") or any(char in f"{name[1:]}{word}" for char in " \n/"):
            return
        if space:
            words = next((each.words for each in self._commands() if each.name == name[1:]), ())
            for each in words:
                if each.startswith(word) and each != word:
                    yield Completion(each, start_position=-len(word))
            return
        commands = {
            each.name.removeprefix("/"): each for each in self._commands() if not each.name.startswith("@")
        }
        if before == "/":  # all except aliases
            names = [name for name, command in commands.items() if not command.alias_of]
        else:
            names = rank(before[1:], commands)
        for name in names:
            command = commands[name]
            about = f"same as /{command.alias_of}" if command.alias_of else command.summary
            yield Completion(f"/{name}", start_position=-len(before), display_meta=about)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        before = document.text_before_cursor
        found = list(self.get_completions(document, complete_event))
        if mention := _MENTION.search(before):
            found += await self._mentioned(mention[1])
        elif complete_event.completion_requested:
            found += await asyncio.to_thread(self._paths, before)
        for completion in found:
            yield completion

    async def _mentioned(self, written: str) -> list[Completion]:
        typed = written.replace('"', "")
        if typed.startswith(("~/", "/", "./", "../")):  # a directory outside the list
            find = partial(matching_paths, typed, self._files.folder, shell=False)
            best: Sequence[str] = await asyncio.to_thread(find)
        else:
            names = await self._files.names()
            best = await asyncio.to_thread(rank, typed, names) if typed else names
        others = [each.name[1:] for each in self._commands() if each.name.startswith("@")]
        best = [*rank(typed, others)[:MAX_OFFERED_FILES], *best] if others and typed else best
        quoted = [(name, f'"{name}"' if " " in name else name) for name in best[:MAX_OFFERED_FILES]]
        return [
            Completion(
                text if name.endswith("/") else f"{text} ",
                start_position=-len(written),
                display=one_line(name),
            )
            for name, text in quoted
        ]

    def _paths(self, before: str) -> list[Completion]:
        """Return the paths that begin with the word, for Tab; an empty word only matches after `!`."""
        word = word_before_cursor(before)
        shell = before.lstrip().startswith("!")
        if not word and not shell:
            return []
        found = []
        for path in matching_paths(word, self._files.folder, shell=shell):
            shown = path.rstrip("/").rpartition("/")[2] + "/" * path.endswith("/")
            found.append(Completion(path, start_position=-len(word), display=one_line(shown)))
        return found
