"""Read hooks, status line, output style, variables and model in Claude Code's settings files.

The user's own file was written for another program, so its hooks need one approval. A project's files need
one for each command, which covers the command and the project's own programs in it. Variables and the model
need one for each file, again when they change. Permission rules are read elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from agent.errors import ConfigError
from agent.extensions.approvals import Approvals, ProjectItem
from agent.extensions.ignored import IgnoredPart
from agent.settings_files import MAX_SETTINGS_BYTES, claude_folder, json_object, read_settings
from tools.text import escaped, printable
from transcripts.patterns import lazy_pattern
from transcripts.secrets import secret_values
from transcripts.storage import is_foreign, read_regular
from transcripts.wording import pluralize

from .entries import HookEntry
from .file_digest import named_files
from .table import HookTable, status_command

HOOK_KINDS = ("hook", "hook file")  # of the items to approve
Source = Literal["user", "project", "local"]
# Entries that are used, here or where permission rules are loaded.
_USED = {
    "hooks", "statusLine", "outputStyle", "disableAllHooks", "env", "model", "enabledPlugins", "permissions",
    "$schema",
}  # fmt: skip
# Entries for which makeroom has something else.
_INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(("sandbox", "effortLevel", "theme"), "set it in makeroom's own settings"),
    "editorMode": "set editing in makeroom's own settings",
    "preferredNotifChannel": "set notify in makeroom's own settings",
    **dict.fromkeys(
        ("enableAllProjectMcpServers", "enabledMcpjsonServers", "disabledMcpjsonServers"),
        "enable and disable servers with /trust",
    ),
}
# Variables of Claude Code for which makeroom has a setting.
_SETTINGS_INSTEAD = {"ENABLE_TOOL_SEARCH": "set tool_search in makeroom's own settings"}
# Entries without another check of their types, with the types that have an effect.
_TYPES: Mapping[str, tuple[type, str]] = {
    "statusLine": (dict, "an object"),
    "outputStyle": (str, "a string"),
    "disableAllHooks": (bool, "true or false"),
    "env": (dict, "an object of variables"),
    "model": (str, "a string"),
    "enabledPlugins": (dict, 'an object such as {"name@marketplace": true}'),
}
# Variables that makeroom and the loader of programs read themselves, or that move its own files.
_OF_THE_PROGRAM = lazy_pattern(
    r"(?:ANTHROPIC|CLAUDE|MAKEROOM|OPENAI|XDG|LD|DYLD)_\w*|HOME|BASH_ENV|ENV"
    r"|API_TIMEOUT_MS|MAX_THINKING_TOKENS|DISABLE_(?:AUTO_)?COMPACT|DISABLE_PROMPT_CACHING"
)


class ClaudeSettings(Struct, frozen=True):
    """The content of a settings file; `problems` are for the user.

    status_line  the command that writes the status line, "" for none
    variables    those to set for commands, hooks and servers
    hooks_off    hooks are disabled: those of the file, or of all files if it is the user's own
    """

    path: Path
    source: Source
    hooks: tuple[HookEntry, ...] = ()
    status_line: str = ""
    output_style: str = ""
    variables: Mapping[str, str] = {}
    model: str = ""
    hooks_off: bool = False
    problems: tuple[str, ...] = ()
    ignored: tuple[IgnoredPart, ...] = ()

    @property
    def acts(self) -> bool:
        """Return whether it contains anything that runs."""
        return bool(self.hooks or self.status_line)


class ApprovedSettings(Struct, frozen=True):
    """The approved part of all files.

    model     the default model
    problems  of files that may act, not of the others
    ignored   entries without effect, of all files
    files     by command line: the digest of the project's files that it names, as they were approved
    """

    hooks: tuple[HookEntry, ...] = ()
    status_line: str = ""
    output_style: str = ""
    variables: Mapping[str, str] = {}
    model: str = ""
    problems: tuple[str, ...] = ()
    ignored: tuple[IgnoredPart, ...] = ()
    files: Mapping[str, str] = {}

    @classmethod
    def read(
        cls,
        approvals: Approvals,
        folder: Path,
        environ: Mapping[str, str],
        sources: Sequence[str] | None = None,
    ) -> ApprovedSettings:
        """Return the approved part of the files of these sources (None for all). Blocks on the disk."""
        hooks: list[HookEntry] = []
        problems: list[str] = []
        named: dict[str, str] = {}
        status_line = ""
        output_style = ""
        variables: dict[str, str] = {}
        model = ""
        files = [each for each in _read_files(folder, environ) if sources is None or each.source in sources]
        for found in files:
            allowed = [part for part in _parts(found, folder, environ) if approvals.allows(part.item)]
            for part in allowed:
                hooks += () if found.hooks_off else part.hooks
                status_line = part.status_line or status_line
                variables |= part.variables
                model = part.model or model
                for line in (*(entry.run for entry in part.hooks), part.status_line):
                    named |= {line: part.files} if part.files else {}
            output_style = found.output_style or output_style
            problems += found.problems if allowed or (found.source == "user" and not found.acts) else ()
        if any(each.hooks_off and each.source == "user" for each in files):
            hooks = []
        return cls(
            hooks=tuple(hooks),
            status_line=status_line,
            output_style=output_style,
            variables=variables,
            model=model,
            problems=tuple(problems),
            ignored=tuple(entry for each in files for entry in each.ignored),
            files=named,
        )


def settings_items(folder: Path, environ: Mapping[str, str]) -> list[ProjectItem]:
    """Return the items of all files that need approval; see approvals.ItemSource."""
    found = (part.item for each in _read_files(folder, environ) for part in _parts(each, folder, environ))
    return list(dict.fromkeys(found))


def _read_files(folder: Path, environ: Mapping[str, str]) -> list[ClaudeSettings]:
    """Read the existing files: the user's own, then the project's, the most specific last."""
    user = claude_folder(environ) / "settings.json"
    of_project: tuple[tuple[Path, Source], ...] = (
        (folder / ".makeroom" / "settings.toml", "project"),
        (folder / ".claude" / "settings.json", "project"),
        (folder / ".claude" / "settings.local.json", "local"),
    )
    found = [_read_json(user, "user")] if user.exists() else []
    for path, source in of_project:
        if path != user and path.exists() and not is_foreign(path, folder):
            found.append(_read_toml(path, source) if path.suffix == ".toml" else _read_json(path, source))
    return found


def _read_toml(path: Path, source: Source) -> ClaudeSettings:
    try:
        table = HookTable.read(read_settings(path).get("hooks"), str(path))
    except ConfigError:  # reported where settings are loaded
        return ClaudeSettings(path, source)
    return ClaudeSettings(path, source, hooks=table.entries, problems=_labelled(path, table.all_lines))


def _read_json(path: Path, source: Source) -> ClaudeSettings:
    try:
        raw = json_object(read_regular(path, MAX_SETTINGS_BYTES) or b"{}")
    except (OSError, ValueError) as error:
        return ClaudeSettings(path, source, problems=(f"{path}: {error} (its hooks are ignored)",))
    table = HookTable.read(raw.get("hooks"), str(path))
    style = raw.get("outputStyle")
    model = raw.get("model")
    variables = raw.get("env")
    given = variables if isinstance(variables, dict) else {}
    return ClaudeSettings(
        path,
        source,
        hooks=table.entries,
        status_line=status_command(raw.get("statusLine")),
        output_style=style if isinstance(style, str) else "",
        variables={
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in given.items()
            if isinstance(value, str | int | float) and not _OF_THE_PROGRAM.fullmatch(key)
        },
        model=model if isinstance(model, str) else "",
        hooks_off=raw.get("disableAllHooks") is True,
        problems=_labelled(path, table.problems),
        ignored=tuple(IgnoredPart(path, printable(name), why) for name, why in _ignored(raw, source, table)),
    )


def _ignored(raw: Mapping[str, Any], source: Source, table: HookTable) -> Iterator[tuple[str, str]]:
    """Yield the names of entries without effect, with the reasons."""
    others = (name for name in raw if name not in _USED)
    yield from ((name, _INSTEAD.get(name, "makeroom has no such setting")) for name in others)
    yield from _of_wrong_types(raw)
    permissions = raw.get("permissions")
    of_permissions = permissions if isinstance(permissions, dict) else {}
    for name, value in of_permissions.items():
        if name == "allow" and value:
            if source == "project":
                yield "permissions.allow", "a checkout cannot grant permissions; see /permissions allow"
            else:
                yield "permissions.allow", "takes effect after you import it; see /permissions import"
        elif name not in ("allow", "deny", "ask"):
            yield f"permissions.{name}", "set it in makeroom's own settings"
    variables = raw.get("env")
    for name in variables if isinstance(variables, dict) else ():
        if _OF_THE_PROGRAM.fullmatch(name):
            yield f"env.{name}", "set it in the environment that makeroom starts in"
        elif name in _SETTINGS_INSTEAD:
            yield f"env.{name}", _SETTINGS_INSTEAD[name]
    yield from ((f"hooks.{name}", "makeroom does not have this event") for name in table.unknown)
    yield from (("hooks", remark) for remark in table.remarks)


def _of_wrong_types(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names of entries whose values have types that have no effect."""
    for name, (type_, form) in _TYPES.items():
        if raw.get(name) is not None and not isinstance(raw[name], type_):
            yield name, f"must be {form}"
    line = raw.get("statusLine")
    if isinstance(line, dict) and not status_command(line):
        yield "statusLine", "only the type command is supported"
    for name, values, form in (
        ("env", (str, int, float), "a string"),
        ("enabledPlugins", (bool,), "true or false"),
    ):
        given = raw.get(name)
        for key, value in given.items() if isinstance(given, dict) else ():
            if not isinstance(value, values):
                yield f"{name}.{key}", f"must be {form}"


def _labelled(path: Path, problems: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{path}: hooks: {problem}" for problem in problems)


class ApprovedPart(Struct, frozen=True):
    """The subject of one decision; `files` is the digest of the project's files that its command names."""

    item: ProjectItem
    hooks: tuple[HookEntry, ...] = ()
    status_line: str = ""
    variables: Mapping[str, str] = {}
    model: str = ""
    files: str = ""


def _parts(found: ClaudeSettings, folder: Path, environ: Mapping[str, str]) -> Iterator[ApprovedPart]:
    """Yield the parts of a file that need approval."""
    yield from _values(found)
    if found.source == "user":
        if found.acts:
            yield _of_user(found)
        return
    for entry in found.hooks:
        files = named_files(entry.run, folder, environ)
        about = [entry.moment, entry.matcher, entry.run, entry.timeout, entry.blocks, files]
        name = f"{entry.moment} {entry.matcher}"
        if entry.condition:
            about += [entry.condition]
            name = f"{name} if {entry.condition}"
        item = ProjectItem(
            "hook",
            name=name,
            shows=entry.run,
            content=json.dumps(about).encode(),
        )
        yield ApprovedPart(item, hooks=(entry,), files=files)
    if line := found.status_line:
        files = named_files(line, folder, environ)
        item = ProjectItem(
            "status line", name=found.path.name, shows=line, content=json.dumps([line, files]).encode()
        )
        yield ApprovedPart(item, status_line=line, files=files)


def _values(found: ClaudeSettings) -> Iterator[ApprovedPart]:
    """Yield the variables and the model of a file."""
    name = f"{'~/' if found.source == 'user' else ''}.claude/{found.path.name}"
    if found.variables:
        secret = {key for key, value in found.variables.items() if secret_values({key: value})}
        shown = (f"{key}={'…' if key in secret else value}" for key, value in found.variables.items())
        yield ApprovedPart(
            ProjectItem(
                "environment",
                name=name,
                shows=escaped(" ".join(shown), keep=""),
                content=json.dumps(found.variables, sort_keys=True).encode(),
                everywhere=found.source == "user",
            ),
            variables=found.variables,
        )
    if found.model:
        item = ProjectItem(
            "model",
            name=name,
            shows=escaped(found.model, keep=""),
            content=found.model.encode("utf-8", "surrogatepass"),
            everywhere=found.source == "user",
        )
        yield ApprovedPart(item, model=found.model)


def _of_user(found: ClaudeSettings) -> ApprovedPart:
    """Return the one part of the user's own file, whose approval covers all its content, now and later."""
    item = ProjectItem(
        kind="hook file",
        name="~/.claude/settings.json",
        shows=f"{pluralize(len(found.hooks), 'hook')}, and later ones, in every project",
        content=b"hooks and status line",
        everywhere=True,
    )
    return ApprovedPart(item, hooks=found.hooks, status_line=found.status_line)
