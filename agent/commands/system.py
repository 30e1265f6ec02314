"""Commands about the environment of shell commands: /sandbox, /add-dir, /publish."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import tools.sandbox  # most of which a session without commands never loads
from agent.app import Controller, added_folders
from agent.errors import ConfigError, UsageError
from agent.events import CommandOutput, Event, Notice
from agent.loop import SessionSandbox
from agent.permissions import REACHING, parse_rules, reachable_hosts, sandbox_entries
from agent.typed_text import unquoted
from tools.processes import CommandRunner, command_runner, listeners
from tools.sandbox import SandboxLevel, SandboxProfile, short_path
from transcripts.wording import cause_of, shorten

from .running import usage_notice
from .table import usage_of

MAX_SHOWN_PLACES = 6
_NO_COMMANDS = "this session cannot run commands"
_NO_PORTS = (
    "cannot publish a port: this sandbox gives commands no network; run the command as `!command` instead"
)
# Reasons why no port can be published, for levels of the sandbox without a network namespace.
UNPUBLISHED: Mapping[SandboxLevel, str] = {
    "landlock": _NO_PORTS,
    "sandbox-exec": _NO_PORTS,
    "none": "no need to publish a port: commands are not sandboxed, so their ports are open at localhost",
}


async def show_sandbox(controller: Controller, argument: str) -> Event | None:
    """Run /sandbox."""
    sandbox = controller.in_use.context.sandbox
    if sandbox is None:
        return Notice(_NO_COMMANDS, "warning")
    await sandbox.check()
    try:
        changed = _change(sandbox, *argument.split(maxsplit=1)) if argument else ""
    except ValueError as error:
        return Notice(str(error), "warning", UsageError.code)
    try:
        await sandbox.warm()
    except ConfigError as error:
        controller.emit(Notice(str(error), "warning"))
    if changed:
        controller.emit(Notice(changed))
    return CommandOutput("\n".join(_sandbox_lines(sandbox)))


async def add_folder(controller: Controller, argument: str) -> Event | None:
    """Run /add-dir."""
    _, context = controller.in_use
    tools = context.tool_context
    if not argument:
        return CommandOutput("\n".join(map(str, (tools.folder, *tools.added))))
    argument = unquoted(argument)
    try:
        (path,) = added_folders([argument], tools.folder) or (tools.folder,)
    except UsageError:
        return Notice(f"cannot add {argument}: no such directory", "warning")
    if path == tools.folder or path in tools.added:
        return Notice(f"{path} is already a working directory")
    tools.added = (*tools.added, path)
    context.permissions.sandbox = context.permissions.sandbox.with_entries({"write": (str(path),)})
    tools.inbox.post(
        f"The user added the working directory {path}. You may read, edit and run files there too."
    )
    limits = "; /diff and /rewind do not cover changes there" if context.checkpoints else ""
    return Notice(f"added {path} until this session ends{limits}")


_NEEDED = {"reach": "a host", "write": "a path", "read": "a path", "forget": "a path"}


def _change(sandbox: SessionSandbox, verb: str, rest: str = "") -> str:
    """Make the change and return a line about it. Raises ValueError for wrong arguments."""
    store = sandbox.permissions
    if verb in ("auto", "require", "off") and not rest:
        store.sandbox = store.sandbox.with_entries(sandbox_entries(verb))
    elif verb == "project":
        store.sandbox = store.sandbox.with_entries(sandbox_entries({"project": rest}))
    elif verb == "reach" and rest:
        host = _host_of(rest)
        for rule in parse_rules(f"{REACHING}({host})"):
            store.allow_always(rule)
        changed = f"commands may always reach {host} in this project, and can send it any data"
        return changed if sandbox.has_network else f"{changed}, but the current sandbox has no network"
    elif verb in ("write", "read") and rest:
        path = _named_path(sandbox, rest)
        if not path.exists():
            raise ValueError(f"cannot allow {rest}: it does not exist")
        place = str(path.resolve())
        sandbox_entries({verb: [place]})
        store.let_through(verb, place)
        return f"commands may always {verb} {short_path(place)} in this project"
    elif verb == "forget" and rest:
        return _forget(sandbox, rest)
    elif verb in _NEEDED and not rest:
        raise ValueError(f"name {_NEEDED[verb]}: /sandbox {verb} {_NEEDED[verb].split()[-1].upper()}")
    else:
        raise ValueError(f"unknown argument {f'{verb} {rest}'.strip()!r} ({usage_of('sandbox')})")
    return ""


def _host_of(text: str) -> str:
    """Return the host that a URL or `host/path` names, with the port of localhost. Raises ValueError."""
    scheme, separator, rest = text.rpartition("://")
    if separator and scheme.lower() not in ("http", "https"):
        raise ValueError(f"only hosts of http and https URLs can be allowed, not {text}")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    name, colon, port = host.rpartition(":")
    is_port = bool(colon) and port.isdecimal() and ":" not in name
    if is_port and name.lower() != "localhost" and port not in ("80", "443"):
        raise ValueError(f"only the ports 80 and 443 of a host can be allowed, not {host}")
    return name if is_port and name.lower() != "localhost" else host


def _named_path(sandbox: SessionSandbox, text: str) -> Path:
    return sandbox.home / text[2:] if text.startswith("~/") else sandbox.tools.folder / text


def _forget(sandbox: SessionSandbox, text: str) -> str:
    store = sandbox.permissions
    place = os.path.realpath(_named_path(sandbox, text))
    with suppress(ValueError):
        text = _host_of(text) if "://" in text else text
    rules = [rule for rule in store.rules.allow if rule.tool == REACHING and rule.pattern == text.lower()]
    for rule in rules:
        store.remove(rule)
    if rules or store.close_again(place) or store.close_again(text):
        return f"{text} is no longer allowed"
    raise ValueError(f"cannot forget {text}: it is not allowed; /sandbox lists what is")


def _sandbox_lines(sandbox: SessionSandbox) -> Iterator[str]:
    chosen = sandbox.permissions.sandbox
    profile = sandbox.profile()
    folder = str(sandbox.tools.folder)
    yield f"sandbox  {sandbox.line}"
    yield f"setting  {chosen.mode}"
    if sandbox.level == "none":
        yield "         commands that are not read-only need your approval"
        return
    yield f"project  {f'writable{_protected(profile)}' if profile.project_writable else 'read-only'}"
    caches = f"; in private copies: {_named(profile.caches, folder)}" if profile.caches else ""
    yield f"write    $TMPDIR{''.join(f', {short_path(str(place))}' for place in profile.writable)}{caches}"
    own = (sandbox.home, profile.folder)
    hidden = tuple(place for place in profile.hidden if any(map(place.is_relative_to, own)))
    allowed = ", ".join(short_path(place, folder) for place in chosen.read)
    secrets = _named(hidden, folder) or "secrets"
    yield f"read     everything except {secrets}, other users' home directories, and sockets of services"
    if allowed:
        yield f"         also {allowed}"
    hosts = ", ".join(reachable_hosts(sandbox.permissions.rules)) or "none"
    yield f"hosts    {hosts if sandbox.has_network else 'none (this sandbox has no network)'}"
    if sandbox.unheld:
        yield f"rules    {sandbox.unheld}"


def _protected(profile: SandboxProfile) -> str:
    names = _named(profile.read_only, str(profile.folder))
    return f", except {names}" if names else ""


def _named(places: tuple[Path, ...], folder: str) -> str:
    shown = ", ".join(short_path(str(place), folder) for place in places[:MAX_SHOWN_PLACES])
    return f"{shown} and {more} more" if (more := len(places) - MAX_SHOWN_PLACES) > 0 else shown


async def publish_port(controller: Controller, argument: str) -> Event | None:
    """Run /publish."""
    context = controller.in_use.context
    runner = command_runner(context.tool_context)
    words = argument.split()
    if context.sandbox is None:
        return Notice(_NO_COMMANDS, "warning")
    await context.sandbox.warm()
    if context.sandbox.level != "namespaces":
        return Notice(UNPUBLISHED[context.sandbox.level], "warning")
    try:
        match words:
            case []:
                return CommandOutput("\n".join(await _port_lines(runner)))
            case ["stop", port]:
                return await _withdraw(runner, _port(port))
            case [port] | [port, "as", _]:
                return await _publish(runner, _port(port), _port(words[-1]))
    except ValueError as error:
        return Notice(str(error), "warning")
    return usage_notice("publish", f"unknown argument {argument!r}")


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text[:6]) < 1 << 16:
        return int(text)
    raise ValueError(f"{text!r} is not a port ({usage_of('publish')})")


async def _publish(runner: CommandRunner, port: int, outside: int) -> Event:
    if runner.published is None:
        runner.published = tools.sandbox.PublishedPorts(runner.supervisor)
    try:
        await runner.published.publish(port, outside)
    except OSError as error:
        reason = "it is in use" if error.errno == errno.EADDRINUSE else cause_of(error)
        hint = f"choose another with /publish {port} as OTHER"
        return Notice(f"cannot open port {outside} of this machine: {reason}; {hint}", "error")
    missing = "" if port in await listeners(runner) else ", where no background command listens yet"
    return Notice(f"http://localhost:{outside} now leads to port {port} of the sandbox{missing}")


async def _withdraw(runner: CommandRunner, port: int) -> Event:
    if runner.published is not None and await runner.published.withdraw(port):
        return Notice(f"port {port} is no longer published")
    return Notice(f"port {port} is not published; run /publish to list the ports", "warning")


async def _port_lines(runner: CommandRunner) -> list[str]:
    published = runner.published.ports if runner.published is not None else {}
    served = await listeners(runner)
    lines = list[str]()
    for port in sorted({*published, *served}):
        where = f"http://localhost:{published[port]}" if port in published else "not published"
        job = served.get(port)
        line = " ".join(job.line.split()) if job is not None else ""
        what = f"{job.id}  {shorten(line, 60)}" if job is not None else "nothing listens"
        lines.append(f"{port:>5}  {where}  {what}")
    return lines or ["no background command listens on a port of the sandbox"]
