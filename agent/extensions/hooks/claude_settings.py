"""What of Claude Code's settings files counts here: hooks, the status line, the output style.

The person's own file was written for another program, so it needs one yes; what a project's files run needs a
yes for each command, which its content and the project's own programs in it are part of.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.errors import ConfigError
from agent.extensions.approvals import Approvals, ProjectItem
from agent.settings_files import claude_folder, read_settings
from agent.shell import ProjectEnvironment, read_line
from tools.files.text_encoding import pluralize
from transcripts.disk import is_foreign, read_regular

from .table import HookEntry, read_hooks, status_command

MAX_CLAUDE_SETTINGS_BYTES = 1024 * 1024
HOOK_KINDS = ("hook", "hook file")  # of the items that are asked about
_SHORT_HOME = "~/.claude/settings.json"
_FOLDER_VARIABLES = ("${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR")


@dataclass(frozen=True, slots=True)
class ClaudeSettings:
    """What a settings file has. `source` is "user", "project" or "local"; `problems` are for the person.

    status_line  the command that writes the status line, "" for none
    hooks_off    hooks are switched off: those of the file, where it is the person's own all of such files
    """

    path: Path
    source: str
    hooks: tuple[HookEntry, ...] = ()
    status_line: str = ""
    output_style: str = ""
    hooks_off: bool = False
    problems: tuple[str, ...] = ()

    @property
    def acts(self) -> bool:
        """Whether it has anything that runs."""
        return bool(self.hooks or self.status_line)


@dataclass(frozen=True, slots=True)
class ApprovedSettings:
    """What may act of all the files.

    problems  of files that may act, and not of the others
    files     by command line: the digest of the project's files that it names, as they were approved
    """

    hooks: tuple[HookEntry, ...] = ()
    status_line: str = ""
    output_style: str = ""
    problems: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


def settings_items(folder: Path, environ: Mapping[str, str]) -> list[ProjectItem]:
    """What has to be approved; see approvals.ItemSource."""
    found = (part.item for each in read_files(folder, environ) for part in _parts(each, folder, environ))
    return list(dict.fromkeys(found))


def approved_settings(
    approvals: Approvals, folder: Path, environ: Mapping[str, str], sources: Sequence[str] | None = None
) -> ApprovedSettings:
    """What may act of the files of these sources (None: of all). Blocks on the disk."""
    hooks, problems, named = list[HookEntry](), list[str](), dict[str, str]()
    status_line = output_style = ""
    files = [each for each in read_files(folder, environ) if sources is None or each.source in sources]
    for found in files:
        allowed = [part for part in _parts(found, folder, environ) if approvals.allows(part.item)]
        for part in allowed:
            hooks += () if found.hooks_off else part.hooks
            status_line = part.status_line or status_line
            for line in (*(entry.run for entry in part.hooks), part.status_line):
                named |= {line: part.files} if part.files else {}
        output_style = found.output_style or output_style
        problems += found.problems if allowed or (found.source == "user" and not found.acts) else ()
    if any(each.hooks_off and each.source == "user" for each in files):
        hooks = []
    return ApprovedSettings(tuple(hooks), status_line, output_style, tuple(problems), named)


def read_files(folder: Path, environ: Mapping[str, str]) -> list[ClaudeSettings]:
    """The files that there are, the person's own first, then the project's, the most particular last."""
    user = claude_folder(environ) / "settings.json"
    places = [
        (user, "user"),
        (folder / ".makeroom" / "settings.toml", "project"),
        (folder / ".claude" / "settings.json", "project"),
        (folder / ".claude" / "settings.local.json", "local"),
    ]
    made = [
        _read(path, source)
        for path, source in places
        if (source == "user" or path != user) and not _is_left_out(path, source, folder)
    ]
    return [each for each in made if each.acts or each.problems or each.output_style or each.hooks_off]


def _is_left_out(path: Path, source: str, folder: Path) -> bool:
    """Whether there is no such file, or it is somebody else's."""
    return not path.exists() or (source != "user" and is_foreign(path, folder))


def _read(path: Path, source: str) -> ClaudeSettings:
    if path.suffix == ".toml":
        try:
            table = read_hooks(read_settings(path).get("hooks"), str(path))
        except ConfigError:  # which the loading of settings tells
            return ClaudeSettings(path, source)
        return ClaudeSettings(path, source, table.entries, problems=_labelled(path, table.all_lines))
    try:
        raw = json.loads(read_regular(path, MAX_CLAUDE_SETTINGS_BYTES).removeprefix(b"\xef\xbb\xbf") or b"{}")
    except (OSError, ValueError, RecursionError) as error:
        return ClaudeSettings(path, source, problems=(f"{path}: {error}: none of its hooks runs",))
    if not isinstance(raw, dict):
        return ClaudeSettings(path, source, problems=(f"{path}: no JSON object: none of its hooks runs",))
    table = read_hooks(raw.get("hooks"), str(path))
    style = raw.get("outputStyle")
    return ClaudeSettings(
        path,
        source,
        table.entries,
        status_command(raw.get("statusLine")),
        style if isinstance(style, str) else "",
        raw.get("disableAllHooks") is True,
        _labelled(path, table.all_lines),
    )


def _labelled(path: Path, problems: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{path}: hooks: {problem}" for problem in problems)


@dataclass(frozen=True, slots=True)
class ApprovedPart:
    """What one decision is about; `files` is the digest of the project's files that its command names."""

    item: ProjectItem
    hooks: tuple[HookEntry, ...] = ()
    status_line: str = ""
    files: str = ""


def _parts(found: ClaudeSettings, folder: Path, environ: Mapping[str, str]) -> list[ApprovedPart]:
    """What is to be approved of a file."""
    if found.source == "user":
        shows = f"{pluralize(len(found.hooks), 'hook')}, and what it has later, in every project"
        item = ProjectItem(HOOK_KINDS[1], _SHORT_HOME, shows, b"hooks and status line", everywhere=True)
        return [ApprovedPart(item, found.hooks, found.status_line)] if found.acts else []
    made = []
    for entry in found.hooks:
        about = [entry.short_name or entry.event, entry.matcher, entry.run, entry.timeout, entry.blocks]
        files = named_files(entry.run, folder, environ)
        content = json.dumps([*about, files]).encode()
        item = ProjectItem(HOOK_KINDS[0], f"{about[0]} {entry.matcher}", entry.run, content)
        made.append(ApprovedPart(item, (entry,), files=files))
    if line := found.status_line:
        files = named_files(line, folder, environ)
        item = ProjectItem("status line", found.path.name, line, json.dumps([line, files]).encode())
        made.append(ApprovedPart(item, (), line, files))
    return made


def named_files(line: str, folder: Path, environ: Mapping[str, str]) -> str:
    """A digest of the project's files that a command line names; "" for none.

    Of those that it only writes it is part where they lie: another link there must not lead it elsewhere.
    """
    for variable in _FOLDER_VARIABLES:
        line = line.replace(variable, str(folder))
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    written = _only_written(line)
    words = [word for word in words if word not in written]
    programs = ProjectEnvironment(str(folder), environ).own_programs(words, str(folder))
    places = [os.path.realpath(folder / name) for name in sorted(written)]
    return hashlib.sha256(json.dumps([programs, *places]).encode()).hexdigest() if written else programs


def _only_written(line: str) -> set[str]:
    """Files that a command line writes, such as its log, and does not name otherwise: no such file is run.

    None where it cannot be told all that the line runs.
    """
    reading = read_line(line)
    written, named = set[str](), set[str]()
    for command in () if reading.opaque else reading.invocations:
        for operator, target in command.redirects:
            (named if "<" in operator else written).add(target)
        (written if command.program == "tee" else named).update(command.words[1:])
        named.update(command.words[:1])
    return {name for name in written - named if "\0" not in name}
