"""Complete what is typed: slash commands at the start, files after an `@`, any path on Tab."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from .escape import one_line
from .path_completion import paths, word_before

MOST_FILES = 50_000
MOST_SHOWN = 50
STALE = 10.0  # seconds after which the list of files is made anew
PATIENCE = 5.0  # seconds that git may take
_MENTION = re.compile(r"(?:^|\s)@([^\s@]*)$")
_SKIP = {".git", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".transcripts", ".task_outputs"}


def is_command(text: str, exists: Callable[[str], bool] = os.path.lexists) -> bool:
    """Whether a line is a slash command and not words that begin with a path, as in `/usr/lib is slow`."""
    if not text.startswith("/") or "\n" in text.split(" ")[0]:
        return False
    word = text[1:].split(maxsplit=1)[0] if text[1:].strip() and not text[1].isspace() else ""
    return bool(word) and "/" not in word and not exists(f"/{word}")


def rank(typed: str, names: Iterable[str]) -> list[str]:
    """The names that fit, best first: those that begin so, then those that hold the letters in order.

    Equally good ones keep their order.
    """
    low = typed.lower()
    scored = [(score, name) for name in names if (score := _score(low, name.lower())) is not None]
    scored.sort(key=lambda entry: entry[0])
    return [name for _, name in scored]


def _score(typed: str, name: str) -> tuple[int, int] | None:
    """Lower is better: (kind of match, where)."""
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


class FileIndex:
    """The files of a folder, listed in the background: by git where it is a work tree, else by walking."""

    def __init__(self, folder: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder
        self._monotonic = monotonic
        self._listed: float | None = None
        self._task: asyncio.Task[None] | None = None
        self.names: Sequence[str] = ()

    async def fresh(self) -> Sequence[str]:
        """The names, relative to the folder, folders with a slash at the end; at most STALE seconds old."""
        if self._listed is None or self._monotonic() - self._listed > STALE:
            if self._task is None or self._task.done():
                self._task = asyncio.ensure_future(self._list())
            if self._listed is None:
                await asyncio.shield(self._task)
        return self.names

    async def _list(self) -> None:
        found = await _git_files(self.folder)
        if found is None:
            found = await asyncio.to_thread(lambda: list(_walk(self.folder)))
        folders = {f"{parent}/" for name in found for parent in _parents(name)}
        self.names = sorted([*folders, *found], key=_depth)[:MOST_FILES]
        self._listed = self._monotonic()


async def _git_files(folder: Path) -> list[str] | None:
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(PATIENCE):
            out, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return None
    if process.returncode != 0:
        return None
    return [os.fsdecode(name) for name in out.split(b"\0")[:MOST_FILES] if name]


def _walk(folder: Path) -> Iterator[str]:
    seen = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIP)
        for name in sorted(names):
            seen += 1
            if seen > MOST_FILES:
                return
            yield os.path.relpath(os.path.join(root, name), folder)  # noqa: PTH118  50,000 Paths are slow


def _parents(name: str) -> Iterator[str]:
    at = name.rfind("/")
    while at > 0:
        yield name[:at]
        at = name.rfind("/", 0, at)


class CompletionSource(Completer):
    """Completes commands and files; `commands` gives (name, summary) pairs."""

    def __init__(self, commands: Callable[[], Sequence[tuple[str, str]]], files: FileIndex) -> None:
        self._commands = commands
        self._files = files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Commands only: they need no waiting."""
        before = document.text_before_cursor
        if not before.startswith("/") or any(char in before[1:] for char in " \n/"):
            return
        about = {name.removeprefix("/"): summary for name, summary in self._commands()}
        names = [name for name in about if not _is_alias(about[name])] if before == "/" else list(about)
        ranked = names if before == "/" else rank(before[1:], names)
        for name in ranked:
            yield Completion(f"/{name}", -len(before), f"/{name}", about[name])

    async def get_completions_async(self, document: Document, complete_event: CompleteEvent):  # type: ignore[no-untyped-def]
        for completion in self.get_completions(document, complete_event):
            yield completion
        mention = _MENTION.search(document.text_before_cursor)
        if mention is None:
            if complete_event.completion_requested:
                for completion in await asyncio.to_thread(self._paths, document.text_before_cursor):
                    yield completion
            return
        typed = mention[1]
        names = await self._files.fresh()
        best = await asyncio.to_thread(rank, typed, names) if typed else list(names[:MOST_SHOWN])
        for name in best[:MOST_SHOWN]:
            ending = "" if name.endswith("/") else " "
            yield Completion(_quoted(name) + ending, -len(typed), one_line(name))

    def _paths(self, before: str) -> list[Completion]:
        """Tab on a word: the paths that begin so. Without a word only after `!`."""
        word, shell = word_before(before), before.lstrip().startswith("!")
        if not word and not shell:
            return []
        return [
            Completion(
                path, -len(word), one_line(path.rstrip("/").rpartition("/")[2] + "/" * path.endswith("/"))
            )
            for path in paths(word, self._files.folder, shell)
        ]


def _is_alias(summary: str) -> bool:
    return summary.startswith("same as /")


def _depth(name: str) -> tuple[int, str]:
    return (name.rstrip("/").count("/"), name)


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name
