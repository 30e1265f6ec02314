"""`/copy`: put an answer on the clipboard."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from agent.app import Controller
from agent.events import ClipboardCopy, Event, Notice
from tools.processes import filter_environment
from tools.text import printable
from transcripts import Folded, Prompt, answers_of
from transcripts.wording import shorten

from .running import usage_notice

OSC52_HINT = (
    "If nothing was copied, your terminal does not support OSC 52; tmux needs `set -g set-clipboard on`"
)


def _answers(folded: Folded) -> list[str]:
    """Return the answers that were not followed by calls, the newest first."""
    shown = (entry.fact for entry in folded.entries if isinstance(entry, Prompt) or not entry.uses)
    return [answer.text.strip() for answer in reversed(answers_of(shown))]


async def copy_answer(controller: Controller, argument: str) -> Event | None:
    """Run /copy."""
    answers = _answers(controller.in_use.session.folded)
    if not answers:
        return Notice("no answer to copy yet")
    number = 1
    if argument:
        number = int(argument) if argument.isdecimal() else 0
    if not 1 <= number <= len(answers):
        return usage_notice("copy", f"cannot copy answer {argument!r}: N must be from 1 to {len(answers)}")
    text = printable(answers[number - 1])  # what is pasted into a shell must not end the paste
    what = f"{len(text):,} characters ('{shorten(' '.join(text.split()), 30)}')"
    if program := await _copy_with_program(text, controller.setup.helper_environ):
        return Notice(f"copied {what} with {program}")
    if len(text.encode()) <= 74_000:  # the usual limit of terminals for one escape sequence
        return ClipboardCopy(text, f"sent {what} to the clipboard of the terminal (OSC 52). {OSC52_HINT}")
    reason = f"{what} exceed the limit of the terminal's clipboard"
    return Notice(f"cannot copy: {reason}; use /export to write the session to a file", "warning")


def clipboard_command(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the command that copies its standard input to the desktop's clipboard, None if there is none.

    Over SSH that would be the clipboard of the wrong machine, so only the terminal can do it.
    """
    if environ.get("SSH_TTY") or environ.get("SSH_CONNECTION"):
        return None
    programs = (
        (sys.platform == "darwin", "pbcopy"),
        (environ.get("WAYLAND_DISPLAY"), "wl-copy"),
        (environ.get("DISPLAY"), "xclip", "-selection", "clipboard"),
        (environ.get("DISPLAY"), "xsel", "--clipboard", "--input"),
    )
    for usable, name, *options in programs:
        path = shutil.which(name, path=environ.get("PATH", "")) if usable else None
        if path is not None and path.startswith("/"):  # not a program in the current directory
            return (path, *options)
    return None


async def _copy_with_program(text: str, environ: Mapping[str, str]) -> str | None:
    """Copy the text with a clipboard program; returns its name, None if that failed."""
    if (command := clipboard_command(environ)) is None:
        return None
    quiet = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)  # xclip keeps running
    harmless = filter_environment(environ)
    give = partial(subprocess.run, command, env=harmless, timeout=2.0, check=True, **quiet)
    try:
        await asyncio.to_thread(give, input=text.encode())
    except (OSError, subprocess.SubprocessError):
        return None
    return Path(command[0]).name
