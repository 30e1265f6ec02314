"""/doctor: what is missing or wrong here, each with its remedy; /bug: what a report of a fault needs."""

from __future__ import annotations

import asyncio
import locale
import os
import platform
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from agent.app import Controller, has_credentials
from agent.errors import ConfigError
from agent.events import CommandOutput, Event, Notice
from agent.version import __version__
from tools.sandbox import short_path
from transcripts import Failed
from transcripts.export import write_private
from transcripts.secrets import mask
from transcripts.storage import make_private_folders

from .settings import setting_lines

# What is looked for on the PATH -> what it is good for, and how to come by it.
PROGRAMS = {
    "bash": "commands need it: install bash",
    "git": "branches, /diff and /rewind know more with it: install git",
    "rg": "searches are quicker with it: install ripgrep",
}
ISSUES_URL = "https://github.com/makeroom-agent/makeroom/issues"
Finding = tuple[str, str, str]  # "" where all is well, else the remedy; what it is about; what was found


async def examine(controller: Controller, argument: str) -> Event | None:
    """/doctor."""
    return CommandOutput(await _examined(controller))


async def write_report(controller: Controller, argument: str) -> Event | None:
    """/bug."""
    setup = controller.setup
    session, context = controller.in_use
    failures = [fact for fact in session.folded.facts if isinstance(fact, Failed)][-20:]
    parts = {
        "What went wrong": argument or "(what you did, what you expected, and what came instead)",
        "Here": await _examined(controller),
        "Settings": "\n".join(setting_lines(controller)),
        "Newest failures": "\n".join(f"{one.what}: {one.reason}" for one in failures) or "none",
        "Record": f"{controller.services.repository.records.path_of(session.sid)}\n"
        "holds the whole conversation: add parts of it only after you looked through them",
    }
    text = "\n\n".join(f"## {title}\n\n{part}" for title, part in parts.items())
    folder = setup.config.state_dir / "reports"
    path = folder / f"{datetime.fromtimestamp(context.clock.now()):%Y%m%d-%H%M%S}.md"
    make_private_folders(folder)
    write_private(path, f"{setup.masks.all(text)}\n")
    return Notice(f"written to {path}, and sent nowhere: look through it, then add it to {ISSUES_URL}")


async def _examined(controller: Controller) -> str:
    """List the findings about this installation, a line each, with the remedy for each problem."""
    sandbox = controller.in_use[1].sandbox
    if sandbox is not None:
        with suppress(ConfigError):  # told below: there is none
            await sandbox.warm()
    findings = await asyncio.to_thread(lambda: list(_findings(controller)))
    lines = []
    for remedy, about, found in findings:
        lines.append(f"{'!!' if remedy else 'ok'}  {about}: {found}")
        lines += [f"      {remedy}"] if remedy else []
    wrong = sum(bool(remedy) for remedy, _, _ in findings)
    return "\n".join([*lines, "", f"{wrong} to look at" if wrong else "all is well"])


def _findings(controller: Controller) -> Iterator[Finding]:
    setup = controller.setup
    _, context = controller.in_use
    system = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    yield "", "makeroom", f"{__version__} in {short_path(str(setup.folder))}; {system}"
    yield from _terminal(setup.environ)
    if (sandbox := context.sandbox) is not None:
        remedy = "every command is asked about; /sandbox and the README say what would wall them in"
        yield remedy if sandbox.level == "none" else "", "commands are walled in by", sandbox.line
    for name, use in PROGRAMS.items():
        found = shutil.which(name, path=setup.environ.get("PATH", ""))
        yield "" if found else use, name, found or "not on PATH"
    path = setup.config.user_dir / "settings.toml"
    told = "; ".join(setup.config.warnings)
    yield f"mend it in {path}" if told else "", "settings", told or "as they should be"
    if not setup.options.offline:
        signed = has_credentials(setup.config, setup.environ, Path.home())
        yield (
            "" if signed else "set ANTHROPIC_API_KEY, or see the README",
            "key",
            "set" if signed else "missing",
        )
        yield probe_server(controller.services.selection.model.server, setup.environ)
    yield from map(_disk, dict.fromkeys((setup.folder, setup.config.state_dir)))
    for gap in context.checkpoints.uncovered() if context.checkpoints else ["there is no record"]:
        yield "what is not covered has to be taken back by hand", "/rewind does not cover all", gap


def _terminal(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Return a description of the terminal's abilities."""
    name = environ.get("TERM", "")
    colours = "16 colours"
    if environ.get("COLORTERM") in ("truecolor", "24bit"):
        colours = "any colour"
    elif "256" in name:
        colours = "256 colours"
    size = shutil.get_terminal_size()
    bare = "set TERM to what the terminal is, such as xterm-256color" if name in ("", "dumb") else ""
    yield bare, "terminal", f"{name or 'unknown'}, {size.columns}x{size.lines}, {colours}"
    charset = locale.nl_langinfo(locale.CODESET)
    is_utf8 = charset.replace("-", "").lower() == "utf8"
    yield "" if is_utf8 else "set LANG=C.UTF-8, or another locale of UTF-8", "locale", charset or "none"


def probe_server(address: str, environ: Mapping[str, str]) -> Finding:
    """Return whether somebody takes connections where requests go to."""
    parts = urlsplit(address)
    shown = mask(address)
    name = f"{parts.scheme}_proxy"
    if proxy := environ.get(name) or environ.get(name.upper()):
        return "", "server", f"{shown}; a proxy is set, {mask(proxy)}: not tried"
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), 3.0).close()
    except OSError as error:
        why = error.strerror or str(error)
        return (
            "look at the network, and at base_url in /config",
            "server",
            f"{shown} cannot be reached ({why})",
        )
    return "", "server", shown


def _disk(folder: Path) -> Finding:
    """Return whether there is room, and a way to write."""
    place = next((path for path in (folder, *folder.parents) if path.is_dir()), Path("/"))
    free = shutil.disk_usage(place).free
    about = f"disk at {short_path(str(folder))}"
    if not os.access(place, os.W_OK):
        return f"make {place} writable: nothing is kept there", about, "cannot be written"
    return (
        "make room: a record needs some" if free < 200 * 10**6 else "",  # what a long session may fill
        about,
        f"{free / 1e9:.1f} GB free",
    )
