"""Keep what commands could destroy in the git repositories of a project, and record what they changed there.

Before and after a command each repository is looked at. Where it has changed, its objects are kept from being
pruned (git_state.py). Changes between a command's beginning and end are logged as the session's.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from tools.files import one_line_path
from tools.search import Checkout, GitFailed

from .change_log import ChangeLog, RefChange
from .content_store import ContentStore
from .git_state import (
    KEPT_REFS,
    STASH,
    GitRunner,
    RepositoryPrint,
    RepositoryState,
    kept_state,
    repository_print,
    tag_objects,
)
from .store_folder import RECENT_LOG_S

MAX_REPOSITORIES = 10  # of a project, those nearest to its top


class _Known(NamedTuple):
    """The state of a repository when it had this print; None if commands cannot write there."""

    print: RepositoryPrint
    state: RepositoryState | None
    seen_ns: int


class RefKeeper(Struct):
    """Keeps the repositories of the project `root` for the session of a log.

    `unkept` contains the repositories that could not be kept, with the reason.
    """

    root: Path
    log: ChangeLog
    store: ContentStore
    unkept: dict[str, str] = field(default_factory=dict)
    _known: dict[str, _Known] = field(default_factory=dict)
    _tags: dict[str, str] = field(default_factory=dict)  # id -> hash of the stored content
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def look(self, git: GitRunner, nested: Iterable[str], seq: int, is_own: bool) -> None:
        """Keep the repositories that have changed; if `is_own`, record that commands changed them."""
        async with self._looking:
            shared: set[Path] = set()  # worktrees have refs in common, and an index each
            for repository in self._repositories(nested):
                top = self.top(repository)
                found = None if top is None else await asyncio.to_thread(repository_print, top)
                if top is None or found is None:
                    continue  # commands that remove it need approval first
                folder = Checkout(top).shared_folder.resolve()
                old = self._known.get(repository)
                new = await self._look_at(git, repository, found)
                if is_own and old is not None and old.state is not None and new is not None:
                    changes = self._changes(seq, repository, old.state, new)
                    self.log.add_refs(
                        [each for each in changes if folder not in shared or each.name == "index"]
                    )
                shared.add(folder)

    def top(self, repository: str) -> Path | None:
        """Return the working tree of a repository; None if there is none."""
        if repository:
            return self.root / repository
        checkout = Checkout.around(self.root)
        return None if checkout is None else checkout.top

    def kept_ref(self) -> str:
        return f"{KEPT_REFS}keep/{self.log.sid}"

    async def state(self, git: GitRunner, repository: str) -> RepositoryState | None:
        """Return the state of a repository now, and keep it. Raises GitFailed."""
        top = self.top(repository)
        if top is None:
            raise GitFailed("the repository does not exist")
        return await kept_state(git, top, self.kept_ref(), int(time.time() - RECENT_LOG_S))

    def tag_content(self, digest: str) -> dict[str, str]:
        """Return the contents of annotated tags that are stored together."""
        data = self.store.get(digest)
        return {} if data is None else dict(json.loads(data))

    def _repositories(self, nested: Iterable[str]) -> list[str]:
        found = dict.fromkeys([*([""] if self.top("") is not None else []), *nested])
        found |= dict.fromkeys(self._known)  # one may have been removed
        return sorted(found, key=lambda name: (name.count("/"), name))[:MAX_REPOSITORIES]

    async def _look_at(
        self, git: GitRunner, repository: str, found: RepositoryPrint
    ) -> RepositoryState | None:
        """Keep a repository if it has changed; return its new state, None if it has none."""
        known = self._known.get(repository)
        is_sure = known is not None and not known.print.hides_changes(known.seen_ns)
        if known is not None and is_sure and known.print == found and repository not in self.unkept:
            return None
        seen_ns = time.time_ns()
        try:
            state = await self.state(git, repository)
            if state is not None:
                await self._store_tags(git, repository, state)
        except GitFailed as error:
            self.unkept[repository] = f"git failed: {error}"
            return None
        self.unkept.pop(repository, None)
        self._known[repository] = _Known(found, state=state, seen_ns=seen_ns)
        return state

    async def _store_tags(self, git: GitRunner, repository: str, state: RepositoryState) -> None:
        top = self.top(repository)
        new = sorted(state.tags - self._tags.keys())
        if not new or top is None:
            return
        contents = await tag_objects(git, top, new)
        digest = await asyncio.to_thread(self.store.put, json.dumps(contents).encode())
        if not digest:
            raise GitFailed("the checkpoint store is full")
        self._tags |= dict.fromkeys(new, digest)

    def _changes(
        self, seq: int, repository: str, old: RepositoryState, new: RepositoryState
    ) -> Iterator[RefChange]:
        def change(name: str, before: str, after: str, note: str = "") -> RefChange:
            return RefChange(seq, repository=repository, name=name, before=before, after=after, note=note)

        for name in sorted(old.refs.keys() | new.refs.keys()):
            before = old.refs.get(name, "")
            if before != (after := new.refs.get(name, "")):
                yield change(name, before, after, self._tags.get(before, ""))
        for entry, message in old.stash.items():
            if entry not in new.stash:
                yield change(STASH, entry, "", message)
        for entry, message in new.stash.items():
            if entry not in old.stash:
                yield change(STASH, "", entry, message)
        for tree, commit in old.detached.items():
            if commit != (after := new.detached.get(tree, "")):
                yield change("HEAD", commit, after, tree)
        if old.index != new.index:
            head = old.heads.get(str(self.top(repository)))
            yield change("index", old.index, new.index, head.commit if head is not None else "")

    def gaps(self) -> list[str]:
        """Return a line for each repository that could not be kept."""
        return [
            f"branches and stash of {one_line_path(repository or 'the repository')}: {why}"
            for repository, why in sorted(self.unkept.items())
        ]
