"""The REPL: one application for the whole session, that joins the input, the live part and the agent.

The prompt is painted first; the agent is made after that. Nothing of what is finished is kept here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .tty import at_screen

if TYPE_CHECKING:
    from agent.ports import Factory


@dataclass(frozen=True, slots=True)
class ReplOptions:
    """What the REPL is told: the project's folder, where it may keep files, the first prompt, its looks."""

    folder: Path
    state_dir: Path | None = None
    prompt: str = ""
    plain: bool = False
    color: str = "auto"
    mask: Callable[[str], str] = str  # takes out of a text what no file may hold


async def run(make: Factory, options: ReplOptions) -> int:
    """Talk with the person until they leave; returns the exit code.

    `make` is called once, after the first paint. What `Driver.ready` raises is raised here, with the
    terminal restored.
    """
    if not at_screen(options.plain):
        from .plain_repl import run_plain

        return await run_plain(make, options.prompt)
    from .repl import sit

    return await sit(make, (options.folder, state_dir(options)), options.color, options.prompt, options.mask)


def state_dir(options: ReplOptions) -> Path:
    """The folder given, else ours in XDG_STATE_HOME or ~/.local/state."""
    if options.state_dir is not None:
        return options.state_dir
    home = os.environ.get("XDG_STATE_HOME") or ""
    base = Path(home) if home.startswith("/") else Path.home() / ".local" / "state"
    return base / "makeroom"
