"""Commands about what commands run in: /sandbox, /add-dir, /publish."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

from agent.app import Controller, added_folders
from agent.errors import ConfigError, UsageError
from agent.events import CommandOutput, Event, Notice
from agent.formatting import shorten, unquoted
from agent.loop import SessionSandbox
from agent.permissions import REACHING, parse_rules, sandbox_entries
from tools.processes import CommandRunner, command_runner, listeners
from tools.sandbox import SandboxLevel, SandboxProfile, short_path

MAX_SHOWN_PLACES = 6
PUBLISH_USAGE = "/publish takes a port such as 8000, 8000 as 8080, or stop 8000"
_NO_PORTS = (
    "the wall here leaves commands no network, so that none can listen on a port; `!command` runs open"
)
UNPUBLISHED: Mapping[SandboxLevel, str] = {  # why not, where walled commands have no network of their own
    "landlock": _NO_PORTS,
    "sandbox-exec": _NO_PORTS,
    "none": "commands are not walled in: what they serve on a port is reached at localhost as it is",
}
USAGE = (
    "/sandbox takes auto, require or off; project read-only or project writable; write PATH, read PATH or"
    " reach HOST, which lets that through in this project; forget PATH or forget HOST"
)


async def show_sandbox(controller: Controller, argument: str) -> Event | None:
    """/sandbox."""
    sandbox = controller.in_use[1].sandbox
    if sandbox is None:
        return Notice("this session has no commands", "warning")
    try:
        told = _change(sandbox, *argument.split(maxsplit=1)) if argument else ""
    except ValueError as error:
        return Notice(str(error), "warning")
    try:
        await sandbox.warm()
    except ConfigError as error:
        controller.emit(Notice(str(error), "warning"))
    if told:
        controller.emit(Notice(told))
    return CommandOutput("\n".join(_sandbox_lines(sandbox)))


async def add_folder(controller: Controller, argument: str) -> Event | None:
    """/add-dir."""
    _, context = controller.in_use
    tools = context.tool_context
    if not argument:
        return CommandOutput("\n".join(map(str, (tools.folder, *tools.added))))
    argument = unquoted(argument)
    try:
        (path,) = added_folders([argument], tools.folder) or (tools.folder,)
    except UsageError:
        return Notice(f"{argument}: there is no such folder", "warning")
    if path == tools.folder or path in tools.added:
        return Notice(f"{path} is worked in already")
    tools.added = (*tools.added, path)
    context.permissions.sandbox = context.permissions.sandbox.with_entries({"write": (str(path),)})
    tools.inbox.post(f"The user added the folder {path}: you may read, edit and run things there too.")
    alone = "; /diff and /rewind know nothing of what is changed there" if context.checkpoints else ""
    return Notice(f"{path} is worked in too, until this session ends{alone}")


def _change(sandbox: SessionSandbox, verb: str, rest: str = "") -> str:
    """Carry out the change and return the line about it. Raises ValueError with the possible changes."""
    store = sandbox.permissions
    if verb in ("auto", "require", "off") and not rest:
        store.sandbox = store.sandbox.with_entries(sandbox_entries(verb))
    elif verb == "project":
        store.sandbox = store.sandbox.with_entries(sandbox_entries({"project": rest}))
    elif verb == "reach" and rest:
        for rule in parse_rules(f"{REACHING}({rest})"):
            store.allow_always(rule)
        told = f"Commands may reach {rest} in this project from now on. It can be sent anything"
        return told if sandbox.has_network else f"{told}, where the wall has a network: here it has none"
    elif verb in ("write", "read") and rest:
        place = _place(sandbox, rest)
        sandbox_entries({verb: [place]})
        store.let_through(verb, place)
        return f"Commands may {verb} {short_path(place)} in this project from now on"
    elif verb == "forget" and rest:
        return _forget(sandbox, rest)
    else:
        raise ValueError(USAGE)
    return ""


def _place(sandbox: SessionSandbox, text: str) -> str:
    path = sandbox.home / text[2:] if text.startswith("~/") else sandbox.tools.folder / text
    if not path.exists():
        raise ValueError(f"{text} does not exist")
    return str(path.resolve())


def _forget(sandbox: SessionSandbox, text: str) -> str:
    store = sandbox.permissions
    place = str((sandbox.home / text[2:] if text.startswith("~/") else sandbox.tools.folder / text).resolve())
    rules = [rule for rule in store.rules.allow if rule.tool == REACHING and rule.pattern == text.lower()]
    for rule in rules:
        store.remove(rule)
    if rules or store.close_again(place) or store.close_again(text):
        return f"{text} is not let through any more"
    raise ValueError(f"{text} was not let through; /sandbox lists what is")


def _sandbox_lines(sandbox: SessionSandbox) -> Iterator[str]:
    chosen = sandbox.permissions.sandbox
    profile = sandbox.profile()
    folder = str(sandbox.tools.folder)
    yield f"wall     {sandbox.line}"
    yield f"setting  {chosen.mode}"
    if sandbox.level == "none":
        yield "         each command that is not sure to only read is asked about"
        return
    yield f"project  {'writable' if profile.project_writable else 'read-only'}, {_protected(profile)}"
    caches = f"; in layers of their own: {_named(profile.caches, folder)}" if profile.caches else ""
    yield f"write    $TMPDIR{''.join(f', {short_path(str(place))}' for place in profile.writable)}{caches}"
    own = (sandbox.home, profile.folder)
    hidden = tuple(place for place in profile.hidden if any(map(place.is_relative_to, own)))
    also = ", ".join(short_path(place, folder) for place in chosen.read)
    secrets = _named(hidden, folder) or "secrets"
    yield f"read     all but {secrets}{f'; also {also}' if also else ''}"
    hosts = ", ".join(sandbox.hosts()) or "none"
    yield f"hosts    {hosts if sandbox.has_network else 'none: this wall leaves commands no network'}"


def _protected(profile: SandboxProfile) -> str:
    names = _named(profile.read_only, str(profile.folder))
    return f"but for {names}" if names else "all of it"


def _named(places: tuple[Path, ...], folder: str) -> str:
    shown = ", ".join(short_path(str(place), folder) for place in places[:MAX_SHOWN_PLACES])
    return f"{shown} and {more} more" if (more := len(places) - MAX_SHOWN_PLACES) > 0 else shown


async def publish_port(controller: Controller, argument: str) -> Event | None:
    """/publish."""
    context = controller.in_use[1]
    runner = command_runner(context.tool_context)
    words = argument.split()
    if context.sandbox is None:
        return Notice("this session has no commands", "warning")
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
    return Notice(PUBLISH_USAGE, "warning")


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text[:6]) < 1 << 16:
        return int(text)
    raise ValueError(f"{text} is no port: {PUBLISH_USAGE}")


async def _publish(runner: CommandRunner, port: int, outside: int) -> Event:
    if runner.published is None:
        module = await asyncio.to_thread(import_module, "tools.sandbox.published_ports")
        runner.published = module.PublishedPorts(runner.supervisor)
    try:
        await runner.published.publish(port, outside)
    except OSError as error:
        why = "it is in use" if error.errno == errno.EADDRINUSE else error.strerror or error
        hint = f"/publish {port} as OTHER takes another one"
        return Notice(f"port {outside} of this machine cannot be taken ({why}): {hint}", "error")
    missing = "" if port in await listeners(runner) else "; no background command listens there yet"
    return Notice(f"http://localhost:{outside} leads to port {port} of walled commands now{missing}")


async def _withdraw(runner: CommandRunner, port: int) -> Event:
    if runner.published is not None and await runner.published.withdraw(port):
        return Notice(f"port {port} is not published any more")
    return Notice(f"port {port} is not published; /publish lists those that are", "warning")


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
    return lines or ["no background command listens on a port within the wall"]
