"""The clipboard of the machine that we run on, through the program that its desktop has for it.

Over SSH it is the wrong machine's: then only the terminal can be asked (see events.Copied).
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Mapping

PATIENCE = 2.0  # seconds that such a program may take
OSC52_MOST = 74_000  # bytes that terminals commonly take in one escape sequence


def program(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """The command that takes a text for the clipboard on its standard input; None where there is none."""
    if environ.get("SSH_TTY") or environ.get("SSH_CONNECTION"):
        return None
    known: list[tuple[str, ...]] = []
    if sys.platform == "darwin":
        known.append(("pbcopy",))
    if environ.get("WAYLAND_DISPLAY"):
        known.append(("wl-copy",))
    if environ.get("DISPLAY"):
        known += [("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input")]
    path = environ.get("PATH", "")
    return next((command for command in known if shutil.which(command[0], path=path)), None)


async def hand_over(text: str, environ: Mapping[str, str]) -> str | None:
    """Give a text to the clipboard program; its name, or None where no program took it."""
    command = program(environ)
    if command is None:
        return None
    quiet = asyncio.subprocess.DEVNULL  # xclip stays behind and would hold a pipe
    pipe = asyncio.subprocess.PIPE
    where = shutil.which(command[0], path=environ.get("PATH", ""))
    try:
        process = await asyncio.create_subprocess_exec(
            where or command[0], *command[1:], stdin=pipe, stdout=quiet, stderr=quiet, env=dict(environ)
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(PATIENCE):
            await process.communicate(text.encode())
    except TimeoutError:
        process.kill()
        await process.wait()
        return None
    return command[0] if process.returncode == 0 else None
