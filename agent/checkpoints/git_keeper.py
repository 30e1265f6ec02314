"""Keep what commands could destroy in the git repositories of a project, and record what they changed there.

Each repository is examined before and after a command. If it has changed, its objects are kept from being
pruned (git_state.py). Changes between a command's beginning and end are logged as the session's.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from tools.search import Checkout, GitFailed

from .change_log import ChangeLog, RefChange
from .content_store import ContentStore
from .git_fingerprint import CheckedState, Fingerprint, checked_state, fingerprint
from .git_operation import Operation, git_places, operation_files
from .git_state import (
    KEPT_REFS,
    NO_HEAD,
    STASH,
    GitRunner,
    RepositoryState,
    has_unreachable,
    is_damaged,
    kept_state,
    tag_objects,
)
from .reflogs import lost_lines, reflogs, restored_log
from .snapshot import shown_paths
from .store_folder import RECENT_LOG_S

RETRY_S = 2.0  # for git in a repository where it once took very long and failed
HANGING_S = 10.0  # a failure after this long counts as that
_HANGS = "git takes too long there"
MAX_REPOSITORIES = 10  # of a project, those nearest to its top
_TOO_MANY = f"only the {MAX_REPOSITORIES} git repositories nearest the root are covered"


class Repository(NamedTuple):
    """A repository of the project.

    name    its working tree relative to the project; "" is the one that the project belongs to
    top     its working tree
    shared  the git directory that its worktrees have in common
    """

    name: str
    top: Path
    shared: Path


class _Known(NamedTuple):
    """The state of a repository when it had this fingerprint; None if commands cannot write there.

    has_ref  the ref of this session was a file of its own, which the fingerprint does not contain
    """

    fingerprint: Fingerprint
    state: RepositoryState | None
    seen_ns: int
    has_ref: bool


class RefKeeper(Struct):
    """Keeps the repositories of the project `root` for the session of a log.

    `unkept` contains the repositories that could not be kept, with the reason, `damaged` those that lack
    objects, `hanging` those where git hangs, so that commands do not wait for it as long again. One ref keeps
    all working trees of a repository; `_kept` contains its last commit, by the git directory that they have
    in common.
    """

    root: Path
    log: ChangeLog
    store: ContentStore
    places: tuple[str, ...] = ()  # of git directories, as they were before the first command
    unkept: dict[str, str] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    hanging: set[str] = field(default_factory=set)
    unsure: bool = False  # since the last command ended, others have run in the background
    _known: dict[str, _Known] = field(default_factory=dict)
    _checked: dict[str, CheckedState] = field(default_factory=dict)  # when git last looked for objects
    _kept: dict[Path, str] = field(default_factory=dict)
    _tags: dict[str, str] = field(default_factory=dict)  # id -> hash of the stored content
    _operations: set[str] = field(default_factory=set)  # hashes of those that this run has stored
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.places = self.places or git_places(self.root)

    async def look(self, git: GitRunner, nested: Iterable[str], seq: int, is_own: bool) -> None:
        """Keep the repositories that have changed; if `is_own`, record that commands changed them.

        If `unsure`, the changes are recorded as ones that others may have made.
        """
        async with self._looking:
            shared: set[Path] = set()  # worktrees have refs in common, and an index each
            repositories = await asyncio.to_thread(self._repositories, nested)
            self.unkept = {name: why for name, why in self.unkept.items() if why != _TOO_MANY}
            self.unkept |= {each.name: _TOO_MANY for each in repositories[MAX_REPOSITORIES:]}
            for repository in repositories[:MAX_REPOSITORIES]:
                found = await asyncio.to_thread(fingerprint, repository.top)
                if found is None:
                    continue  # commands that remove it need approval first
                if found.special:
                    self.unkept[repository.name] = f"{found.special} is a pipe, a device or a socket"
                    continue
                old = self._known.get(repository.name)
                new = await self._look_at(git, repository, found)
                is_recorded = is_own or self.unsure
                if is_recorded and old is not None and old.state is not None and new is not None:
                    changes = self._changes(seq, repository, old.state, new)
                    self.log.add_refs(
                        [
                            each if is_own else each.as_unsure()
                            for each in changes
                            if repository.shared not in shared
                            or each.name in ("branch", "index", "operation")
                        ]
                    )
                shared.add(repository.shared)

    async def repository(self, name: str) -> Repository:
        """Return a repository by its name. Raises GitFailed if it does not exist."""
        found = await asyncio.to_thread(self._find, name)
        if found is None:
            raise GitFailed("the repository does not exist")
        return found

    async def with_unreachable(self, git: GitRunner, names: Iterable[str]) -> list[str]:
        """Return those of the repositories with objects that nothing names, or where git cannot tell."""
        found = []
        for name in names:
            try:
                if await has_unreachable(git, (await self.repository(name)).top):
                    found.append(name)
            except GitFailed:
                found.append(name)
        return found

    async def check(self, git: GitRunner) -> None:
        """Note which of the known repositories lack objects.

        git takes up to 2 s for a large one, so it is asked again only after a change.
        """
        before = self._checked
        damaged = self.damaged
        self._checked = {}
        self.damaged = set()
        for name in self._known:
            with suppress(GitFailed):
                top = (await self.repository(name)).top
                now = await asyncio.to_thread(checked_state, top)
                is_same = now is not None and before.get(name) == now
                if name in damaged if is_same else await is_damaged(git, top):
                    self.damaged.add(name)
                if now is not None:
                    self._checked[name] = now

    def kept_ref(self) -> str:
        return f"{KEPT_REFS}keep/{self.log.sid}"

    async def state(self, git: GitRunner, repository: Repository) -> RepositoryState | None:
        """Return the state of a repository now, and keep it. Raises GitFailed."""
        oldest = int(time.time() - RECENT_LOG_S)
        last = self._kept.get(repository.shared, "")
        ref = self.kept_ref()
        state = await kept_state(git, repository.top, ref=ref, dropped_before=oldest, last=last)
        if state is not None:
            self._kept[repository.shared] = state.kept
            state.logs = await asyncio.to_thread(reflogs, repository.top, self.places)
            state.files = await asyncio.to_thread(operation_files, repository.top, self.places)
        return state

    def restored_log(self, name: str, digest: str, now: RepositoryState) -> str:
        """Return the lines of a stored reflog and those added since; "" if it has lost none."""
        before = os.fsdecode(self.store.get(digest) or b"")
        return restored_log(name, before, now.logs.get(name, ""))

    def operation(self, digest: str) -> Operation | None:
        """Return a stored operation; None if there is none."""
        return Operation.decode(self.store.get(digest)) if digest else None

    def own_operation(self, digest: str) -> Operation | None:
        """Return a stored operation, unless git would run commands of it that another run has stored.

        The store may be part of the checkout.
        """
        operation = self.operation(digest)
        is_foreign = operation is not None and operation.executes and digest not in self._operations
        return None if is_foreign else operation

    def tag_content(self, digest: str) -> dict[str, str]:
        """Return the contents of annotated tags that are stored together."""
        data = self.store.get(digest)
        return {} if data is None else dict(json.loads(data))

    def _repositories(self, nested: Iterable[str]) -> list[Repository]:
        """Return the repositories that exist, those nearest to the top first. Blocks on the disk."""
        names = {"", *nested, *self._known}  # an incomplete scan may have missed a known one
        ordered = sorted(names, key=lambda name: (name.count("/"), name))
        return [found for name in ordered if (found := self._find(name)) is not None]

    def _find(self, name: str) -> Repository | None:
        checkout = Checkout(self.root / name) if name else Checkout.around(self.root)
        if checkout is None or not checkout.exists:
            return None
        return Repository(name, top=checkout.top, shared=Path(os.path.realpath(checkout.shared_folder)))

    async def _look_at(
        self, git: GitRunner, repository: Repository, found: Fingerprint
    ) -> RepositoryState | None:
        """Keep a repository if it has changed; return its new state, None if it has none."""
        name = repository.name
        previous = self._known.get(name)
        if previous is not None and previous.fingerprint == found and name not in self.unkept:
            has_ref = self._has_ref(repository) or not previous.has_ref
            if has_ref and not previous.fingerprint.hides_changes(previous.seen_ns):
                return None
        seen_ns = time.time_ns()
        began = time.monotonic()
        try:
            async with asyncio.timeout(RETRY_S if name in self.hanging else None):
                state = await self.state(git, repository)
                if state is not None:
                    await self._store_tags(git, repository, state)
        except TimeoutError:
            self.unkept[name] = _HANGS
            return None
        except GitFailed as error:
            self.unkept[name] = str(error)
            if time.monotonic() - began > HANGING_S:
                self.hanging.add(name)
            return None
        self.unkept.pop(name, None)
        self.hanging.discard(name)
        has_ref = self._has_ref(repository)
        self._known[name] = _Known(found, state=state, seen_ns=seen_ns, has_ref=has_ref)
        return state

    def _has_ref(self, repository: Repository) -> bool:
        """Return whether the ref of this session is a file of its own. Commands may delete all refs."""
        return os.path.lexists(repository.shared / self.kept_ref())

    async def _store_tags(self, git: GitRunner, repository: Repository, state: RepositoryState) -> None:
        new = sorted(state.tags - self._tags.keys())
        if not new:
            return
        contents = await tag_objects(git, repository.top, new)
        digest = await asyncio.to_thread(self.store.put, json.dumps(contents).encode())
        if not digest:
            raise GitFailed("the checkpoint store is full")
        self._tags |= dict.fromkeys(new, digest)

    def _changes(
        self, seq: int, repository: Repository, old: RepositoryState, new: RepositoryState
    ) -> Iterator[RefChange]:
        def change(name: str, before: str, after: str, note: str = "") -> RefChange:
            return RefChange(
                seq, repository=repository.name, name=name, before=before, after=after, note=note
            )

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
        for tree, commit, after in _replaced(old.detached, new.detached):
            yield change("HEAD", commit, after, tree)
        head = old.heads.get(str(repository.top), NO_HEAD)
        left = new.heads.get(str(repository.top), NO_HEAD)
        if head.branch != left.branch:
            yield change("branch", head.commit, left.commit, f"{head.branch} {left.branch}")
        for name, before, after in self._lost_contents(repository.top, old, new):
            yield change(name, before, after)
        if old.index != new.index:
            yield change("index", old.index, new.index, head.commit)

    def _lost_contents(
        self, top: Path, old: RepositoryState, new: RepositoryState
    ) -> Iterator[tuple[str, str, str]]:
        """Yield (name, hash of the stored contents before, after or "") of what is stored as a file.

        Reflogs that have lost lines, and an open operation that has changed.
        """
        for name, text, after in _replaced(old.logs, new.logs):
            if lost_lines(text, after) and (digest := self.store.put(os.fsencode(text))):
                yield name, digest, ""
        operations = [each.operation(top).encode() for each in (old, new)]
        if operations[0] != operations[1]:
            before, later = (self.store.put(each) if each else "" for each in operations)
            if operations[0] and not before:
                self.log.note_gap("the state of an open merge or rebase could not be stored")
            self._operations |= {before, later}
            yield "operation", before, later

    def gaps(self) -> list[str]:
        """Return a line for each reason why repositories could not be kept."""
        by_reason: dict[str, list[str]] = {}
        for name, why in sorted(self.unkept.items()):
            by_reason.setdefault(why, []).append(name or "the repository")
        lines = [f"branches and stash of {shown_paths(names, 5)}: {why}" for why, names in by_reason.items()]
        if self.damaged:
            names = [name or "the repository" for name in sorted(self.damaged)]
            lines.append(f"objects of {shown_paths(names, 5)}: git reports that some are missing or damaged")
        return lines


def _replaced(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield (key, value before, value after) of each entry that has changed or was removed ("")."""
    for key, before in old.items():
        if before != (after := new.get(key, "")):
            yield key, before, after
