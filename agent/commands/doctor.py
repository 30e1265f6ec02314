"""/doctor: problems of the installation with their remedies; /bug: a bug report file."""

from __future__ import annotations

import asyncio
import locale
import os
import platform
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from agent.app import Controller, has_credentials
from agent.errors import ConfigError
from agent.events import CommandOutput, Event, Notice
from agent.extensions import ignored_by_place
from agent.formatting import format_bytes
from agent.model import proxy_for
from agent.shell import missing_programs
from agent.version import __version__
from tools.sandbox import short_path
from transcripts import Failed
from transcripts.export import write_private
from transcripts.secrets import mask
from transcripts.storage import make_private_folders
from transcripts.wording import cause_of, pluralize

from .extensions import active_hooks
from .settings import setting_lines

# Programs on the PATH -> the remedy if they are missing.
PROGRAMS = {
    "bash": "install bash, which every command needs",
    "git": "install git, which improves /diff, /rewind and the display of branches",
    "rg": "install ripgrep, which makes searches faster",
}


class Finding(NamedTuple):
    """A subject and its state, with a remedy if there is a problem. `optional`: makeroom works without it."""

    about: str
    found: str
    remedy: str = ""
    optional: bool = False

    @property
    def mark(self) -> str:
        if not self.remedy:
            return "ok"
        return "! " if self.optional else "!!"


async def examine(controller: Controller, argument: str) -> Event | None:
    """Run /doctor."""
    findings = await _examined(controller)
    controller.emit(CommandOutput(_listed(findings)))
    remedies = [each.optional for each in findings if each.remedy]
    problems = pluralize(remedies.count(False), "problem") if False in remedies else "no problems"
    more = f", {pluralize(remedies.count(True), 'recommendation')}" if True in remedies else ""
    return Notice(f"{problems} found{more}", "error" if False in remedies else "info")


ISSUES_URL = "https://github.com/makeroom-agent/makeroom/issues"


async def write_report(controller: Controller, argument: str) -> Event | None:
    """Run /bug."""
    setup = controller.setup
    session, context = controller.in_use
    failures = [fact for fact in session.folded.facts if isinstance(fact, Failed)][-20:]
    parts = {
        "Problem": argument or "(what you did, what you expected, and what happened instead)",
        "Environment": _listed(await _examined(controller)),
        "Settings": "\n".join(setting_lines(controller)),
        "Recent errors": "\n".join(f"{one.what}: {one.reason}" for one in failures) or "none",
        "Transcript": f"{controller.services.repository.records.path_of(session.sid)}\n"
        "contains the whole conversation. Review any part of it before you add it to a report.",
    }
    text = "\n\n".join(f"## {title}\n\n{part}" for title, part in parts.items())
    folder = setup.config.state_dir / "reports"
    path = folder / f"{datetime.fromtimestamp(context.clock.now()):%Y%m%d-%H%M%S}.md"
    make_private_folders(folder)
    write_private(path, (setup.masks.all(text), "\n"))
    return Notice(
        f"wrote {path}; nothing was sent. Review the file, then attach it to an issue at {ISSUES_URL}"
    )


async def _examined(controller: Controller) -> list[Finding]:
    sandbox = controller.in_use.context.sandbox
    if sandbox is not None:
        with suppress(ConfigError):  # reported below as a missing sandbox
            await sandbox.warm()
    return await asyncio.to_thread(lambda: list(_findings(controller)))


def _listed(findings: Sequence[Finding]) -> str:
    """Return one line for each finding, with a remedy below each problem."""
    lines = []
    for each in findings:
        lines.append(f"{each.mark}  {each.about}: {each.found}")
        lines += [f"      {each.remedy}"] if each.remedy else []
    return "\n".join(lines)


def _findings(controller: Controller) -> Iterator[Finding]:
    setup = controller.setup
    _, context = controller.in_use
    system = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    yield Finding("makeroom", f"{__version__} in {short_path(str(setup.folder))}; {system}")
    yield from _terminal(setup.environ)
    if (sandbox := context.sandbox) is not None:
        remedy = "commands need your approval; /sandbox shows how to enable the sandbox"
        yield Finding("sandbox", sandbox.line, remedy if sandbox.level == "none" else "", optional=True)
    for name, use in PROGRAMS.items():
        found = shutil.which(name, path=setup.environ.get("PATH", ""))
        yield Finding(name, found or "not on PATH", "" if found else use, optional=name != "bash")
    warnings = [one for one in setup.config.warnings if one not in setup.options.remarks]
    warnings += controller.services.problems
    for warning in warnings:
        yield Finding("settings", warning, "fix it in the file named above")
    if not warnings:
        yield Finding("settings", "valid")
    yield from _ignored_parts(controller)
    yield from _broken_hooks(controller)
    yield from _failed_servers(controller)
    if not setup.options.offline:
        found_key = has_credentials(setup.config, setup.environ, Path.home())
        remedy = "" if found_key else "set ANTHROPIC_API_KEY, or see the README for other providers"
        server = controller.services.selection.model.server
        key = "set, or not needed for a local server" if found_key else "missing"
        yield Finding("API key", key, remedy)
        yield probe_server(server)
    yield from map(_disk, dict.fromkeys((setup.folder, setup.config.state_dir)))
    for gap in context.checkpoints.uncovered() if context.checkpoints else ["no transcript is kept"]:
        remedy = "undo these changes by hand if you need to"
        yield Finding("incomplete /rewind", gap, remedy, optional=True)


def _ignored_parts(controller: Controller) -> Iterator[Finding]:
    """Yield the parts of extensions without effect, with the reasons."""
    for place, parts in ignored_by_place(controller.services.ignored_parts):
        named: dict[str, list[str]] = {}
        for part in parts:
            named.setdefault(part.why, []).append(part.name)
        names = "; ".join(f"{', '.join(dict.fromkeys(names))} ({why})" for why, names in named.items())
        yield Finding(place, f"without effect: {names}")


def _broken_hooks(controller: Controller) -> Iterator[Finding]:
    """Yield the hooks whose programs do not exist. An interpreter without its script may deny every call."""
    setup = controller.setup
    for entry in active_hooks(controller):
        line = entry.line
        for variable in ("${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR"):
            line = line.replace(variable, str(setup.folder))
        for name in missing_programs(line, str(setup.folder), setup.environ):
            remedy = f"correct the hook in {short_path(entry.origin)}, or install the program"
            yield Finding(f"hook {entry.moment}", f"{short_path(name)} does not exist", remedy)


def _failed_servers(controller: Controller) -> Iterator[Finding]:
    """Yield the MCP servers that failed, with the reasons."""
    source = controller.services.mcp
    for server in source.servers if source is not None else ():
        if server.state == "failed":
            restart = "a changed entry or environment takes effect when makeroom is restarted"
            retry = f"/mcp reconnect {server.entry.name} tries again; "
            remedy = restart if server.entry.problem else f"{retry}{restart}"
            yield Finding(f"MCP server {server.entry.name}", server.failure, remedy)


def _terminal(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings about the terminal and the locale."""
    name = environ.get("TERM", "")
    colours = "16 colours"
    if environ.get("COLORTERM") in ("truecolor", "24bit"):
        colours = "true colour"
    elif "256" in name:
        colours = "256 colours"
    size = shutil.get_terminal_size()
    bare = "set TERM to the type of your terminal, such as xterm-256color" if name in ("", "dumb") else ""
    found = f"{name or 'unknown'}, {size.columns}x{size.lines}, {colours}"
    yield Finding("terminal", found, bare, optional=True)
    charset = locale.nl_langinfo(locale.CODESET)
    is_utf8 = charset.replace("-", "").lower() == "utf8"
    remedy = "" if is_utf8 else "set LANG to a UTF-8 locale, such as C.UTF-8"
    yield Finding("locale", charset or "none", remedy, optional=True)


def probe_server(address: str) -> Finding:
    """Try to connect to the address that requests go to."""
    parts = urlsplit(address)
    shown = mask(address)
    if proxy := proxy_for(address):
        return Finding("server", f"{shown}, not checked because of the proxy {proxy}")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), 3.0).close()
    except OSError as error:
        why = cause_of(error)
        remedy = "check the network, and base_url in /config"
        return Finding("server", f"cannot connect to {shown}: {why}", remedy)
    return Finding("server", shown)


def _disk(folder: Path) -> Finding:
    """Check that a directory is writable and its disk has free space."""
    place = next((path for path in (folder, *folder.parents) if path.is_dir()), Path("/"))
    free = shutil.disk_usage(place).free
    about = f"disk at {short_path(str(folder))}"
    if not os.access(place, os.W_OK):
        return Finding(about, "not writable", f"make {place} writable, or nothing can be stored there")
    is_full = free < 200 * 10**6  # a long session may take this
    remedy = "free some disk space for transcripts" if is_full else ""
    return Finding(about, f"{format_bytes(free)} free", remedy)
