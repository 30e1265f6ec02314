"""The sandbox for a session's commands: its settings, its kind on this system, and the accesses it allows."""

# ruff: noqa: PTH110 - unlike os.path, a Path raises errors

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from agent.errors import ConfigError
from agent.permissions import BarredPaths, PermissionStore, barred_paths, barring_globs, reachable_hosts
from agent.session import command_text
from agent.version import __version__
from tools import sandbox
from tools.base import ToolContext
from tools.files import FileError, in_thread
from tools.guarded import MAX_MATCHING, search_of_project
from tools.processes import command_runner
from tools.sandbox import KindMemory, SandboxKind, SandboxLevel, SandboxProfile, SupervisorLost

if TYPE_CHECKING:
    from tools.sandbox import SandboxNetwork

LEVEL_NAMES: Mapping[SandboxLevel, str] = {
    "namespaces": "namespaces",
    "landlock": "Landlock and seccomp (weaker)",
    "sandbox-exec": "sandbox-exec",
    "none": "none",
}


class SessionSandbox(Struct):
    """The sandbox of a session. It belongs to one event loop once `warm` was awaited.

    level        the kind of sandbox; "none" until it is known
    why          the reason why there is none; "" if there is one or that is not known yet
    text         the part of the system prompt about commands; until the kind is known, for the last known one
    on_new_text  called when the text has changed
    unheld       which rules about files do not hold for all commands; "" if all do, or no command has run yet
    warned       the `unheld` that the user was last warned of
    """

    tools: ToolContext
    permissions: PermissionStore
    home: Path
    level: SandboxLevel = "none"
    why: str = ""
    text: str = ""
    on_new_text: Callable[[], None] = lambda: None
    _kind: SandboxKind | None = None  # as it was last remembered
    unheld: str = ""
    warned: str = ""
    _settling: asyncio.Lock = field(default_factory=asyncio.Lock)
    _base: SandboxProfile | None = None
    _barred: BarredPaths | None = None  # of the last profile
    _files: list[tuple[int, int, int]] = field(default_factory=list)
    _held: _HeldPlaces | None = None  # the writable directories
    _network: SandboxNetwork | None = None

    @property
    def line(self) -> str:
        """The state of the sandbox, in a few words."""
        if self.level != "none":
            return LEVEL_NAMES[self.level]
        return f"none: {self.why}" if self.why else "not checked yet"

    @property
    def has_network(self) -> bool:
        """Return whether the sandbox can allow single hosts. With Landlock commands have no network."""
        return self.level in ("namespaces", "sandbox-exec")

    @property
    def is_known(self) -> bool:
        """Return whether the kind of sandbox was found out in this run."""
        return self.level != "none" or self.why != ""

    @property
    def is_absent(self) -> bool:
        """Return whether commands are known to run without a sandbox."""
        return self.permissions.sandbox.mode == "off" or (self.is_known and self.level == "none")

    async def recall(self) -> bool:
        """Set the text for the kind of sandbox that the last run found here; return whether that is known.

        Nothing else depends on it: before a command is judged, `settle` finds out the kind.
        """
        self._kind = await asyncio.to_thread(self._memory.recall)
        if self._kind is not None:
            self._describe(self._kind)
        return self._kind is not None

    async def check(self) -> None:
        """Find out the kind of sandbox if that has not been done yet."""
        if not self.is_known:
            async with self._settling:
                await self._apply()

    async def warm(self) -> None:
        """Find out the kind of sandbox and the text about it for the model. Takes 0.05 s the first time.

        Raises ConfigError if the settings require a sandbox and there is none.
        """
        async with self._settling:
            await self._apply()
        if self.permissions.rules.sandbox_required and self.level == "none":
            raise ConfigError(
                f'sandbox is "require", but commands cannot be sandboxed here ({self.why});'
                " use --sandbox auto to approve each command instead"
            )

    async def settle(self) -> None:
        """Adapt the sandbox to the mode, the rules and the settings. Await it before a command is judged."""
        async with self._settling:
            if self.has_network:  # then the profile below has it: a profile takes 0.03 s in a large project
                await self._open_network()
            await self._apply()
            if self.has_network and await self._open_network():
                await self._apply()

    def profile(self) -> SandboxProfile:
        """Return the profile of commands now: the project's, with the accesses that the user allows."""
        base = self._base or self._current_profile()
        chosen = self.permissions.sandbox
        read = {self._place(text) for text in chosen.read}
        planning = self.permissions.planning
        barred = self._find_barred()
        self._barred = barred
        hidden = (*(place for place in base.hidden if place not in read), *barred.unreadable)
        proxy = self._network.proxy if self._network is not None else None
        return replace(
            base,
            writable=() if planning else base.writable,
            read_only=tuple(dict.fromkeys((*base.read_only, *barred.unwritable))),
            pinned=tuple(dict.fromkeys((*base.pinned, *barred.ways))),
            held=tuple(barred.held),
            hidden=tuple(dict.fromkeys(hidden)),
            project_writable=chosen.project == "writable" and not planning,
            proxy=proxy.path if proxy is not None else None,
            ports=self._network.port_sockets if self._network is not None else (),
        )

    async def first_profile(self) -> SandboxProfile:
        """Return the profile for commands that are run before `settle`, such as searches. See CommandRunner.

        Raises SupervisorLost.
        """
        try:
            return await self._current()
        except FileError as error:
            raise SupervisorLost(str(error)) from error

    async def _current(self) -> SandboxProfile:
        """Return the profile for the present settings and files, and hold these files. Raises FileError."""
        profile, self._held, self._files = await in_thread(lambda _: self._inspect())
        return profile

    def _unheld_rules(self) -> str:
        """Return which rules about files do not hold for all commands, and why; "" if they do."""
        rules = self.permissions.rules
        globs = barring_globs(rules)
        if not search_of_project(str(self.tools.folder)).covers(globs):
            return (
                "deny and ask rules with wildcards match too many paths, or the project has too many"
                f" directories: at most {MAX_MATCHING:,} paths are withheld from commands"
            )
        inside = any(path.startswith(f"{self.tools.folder}/") for path, _ in rules.withheld)
        if self.level == "landlock" and inside:
            return (
                "Landlock cannot withhold files of the project: commands that name a file which a rule denies"
                " are refused, but programs can still read and change it"
            )
        return ""

    def _find_barred(self) -> BarredPaths:
        return barred_paths(self.permissions.rules, self.matching_paths())

    def matching_paths(self) -> list[str]:
        """Return the paths of the project that match the globs of rules, as they were last found."""
        globs = barring_globs(self.permissions.rules)
        return search_of_project(str(self.tools.folder)).matching(globs)

    def _inspect(self) -> tuple[SandboxProfile, _HeldPlaces, list[tuple[int, int, int]]]:
        """Return the current profile, its writable directories, and its files' identities.

        Blocking.
        """
        self._base = self._current_profile()
        profile = self.profile()
        held = _HeldPlaces((profile.folder, *profile.writable))
        return profile, held, _identities(profile, held.descriptors)

    def _current_profile(self) -> SandboxProfile:
        """Return the project's profile for the files that exist now. Blocks for some milliseconds."""
        tools = self.tools
        places = map(self._place, self.permissions.sandbox.write)
        written = [place for place in places if os.path.exists(place)]
        search_of_project(str(tools.folder)).look_for(barring_globs(self.permissions.rules))
        return sandbox.sandbox_profile(tools.folder, self.home, tools.environ, tools.outputs, written)

    async def close(self) -> None:
        """End the network of commands, and close the descriptors of writable directories."""
        self._held = None
        if self._network is not None:
            await self._network.close()
            self._network = None

    async def _apply(self) -> None:
        """Use the profile for the present settings and files, and note what the sandbox can do with it."""
        store = self.permissions
        runner = command_runner(self.tools)
        self._barred = None
        read_only = False  # Landlock does not protect modes, owners and times
        try:
            before = self._files
            wanted = await self._current()
            if runner.profile is None:
                runner.profile = wanted
            elif before != self._files or runner.profile != wanted:
                await runner.use_profile(wanted)
            self.level, self.why = await runner.sandbox()
            read_only = self.level != "landlock" and not (wanted.project_writable or wanted.writable)
            hides_records = (await runner.supervisor()).how == "namespace"
            found = SandboxKind(self.level, hides_records)
            if found != self._kind:
                self._kind = found
                await asyncio.to_thread(self._memory.remember, found)
        except (SupervisorLost, FileError) as error:
            why = str(error).partition("\n")[0]
            self.level = "none"
            self.why = why
            hides_records = False
        if store.sandbox.mode == "off":
            self.level = "none"
            self.why = "switched off"
        required = store.sandbox.mode == "require"
        restricted = bool(store.rules.deny or store.rules.ask)
        # Landlock cannot hide files of the project.
        unhidden = runner.profile.hidden if runner.profile and self.level == "landlock" else ()
        store.rules = replace(
            store.rules,
            sandboxed=self.level != "none",
            sandbox_read_only=read_only,
            sandbox_required=required,
            written=tuple(str(self._place(path)) for path in store.sandbox.write),
            git_settings_held=bool(runner.profile and runner.profile.holds_git_settings),
            withheld=(self._barred or self._find_barred()).withheld if restricted else (),
            real_path=os.path.realpath,
            hides_files=self.level in ("namespaces", "sandbox-exec"),
            secrets=tuple(str(path) for path in unhidden if path.is_relative_to(self.tools.folder)),
        )
        self._describe(SandboxKind(self.level, hides_records))
        self.unheld = self._unheld_rules() if restricted else ""

    def _describe(self, kind: SandboxKind) -> None:
        """Set the text about a kind of sandbox."""
        is_on = kind.level != "none" and self.permissions.sandbox.mode != "off"
        text = command_text(is_on, kind.hides_records)
        if text != self.text:
            self.text = text
            self.on_new_text()

    @property
    def _memory(self) -> KindMemory:
        path = self.tools.journals.parent / "sandbox.json"
        return KindMemory(path, version=__version__, environ=self.tools.environ)

    async def _open_network(self) -> bool:
        """Let commands reach the allowed hosts and ports; they have no other network.

        Returns whether the profile changes.
        """
        if self._network is None:
            make_network = await asyncio.to_thread(lambda: sandbox.SandboxNetwork)  # 10 ms
            self._network = make_network(self.tools.environ)
        is_changed = await self._network.use(reachable_hosts(self.permissions.rules))
        if (proxy := self._network.proxy) is not None:
            runner = command_runner(self.tools)
            runner.refused_hosts = proxy.refused_since
            runner.unreached_hosts = proxy.unreached_since
            proxy.use_asker(runner.may_reach)
        return is_changed

    def _place(self, text: str) -> Path:
        """Return the real path of a directory in the settings."""
        return (self.home / text[2:] if text.startswith("~/") else Path(text)).resolve()


_PASSING = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC


class _HeldPlaces:
    """Open directories: while one is open, its inode number is not used again.

    They are closed with this object: nobody receives those that a thread opens for an interrupted turn.
    """

    def __init__(self, places: Iterable[Path]) -> None:
        self.descriptors: list[int] = []
        for place in places:
            with suppress(OSError):
                self.descriptors.append(os.open(place, _PASSING))

    def __del__(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


def _identities(profile: SandboxProfile, held: Iterable[int]) -> list[tuple[int, int, int]]:
    """Return the identity of each file at the sandbox's places, which changes if the file is replaced.

    A mount stays with its file, or disappears with it. Changes inside writable or hidden directories do not
    count: they happen all the time.
    """
    found = [(state.st_dev, state.st_ino, 0) for state in map(os.fstat, held)]
    fixed = frozenset(profile.read_only)
    for place in (*profile.read_only, *profile.hidden, *profile.records):
        with suppress(OSError):
            state = place.lstat()
            timed = place in fixed or not stat.S_ISDIR(state.st_mode)
            found.append((state.st_dev, state.st_ino, state.st_ctime_ns if timed else 0))
    return found
