"""A run with a screen: the REPL, with the agent made after the prompt is painted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent.app.setup import RunSetup
from agent.ui.repl_options import ReplOptions, run

if TYPE_CHECKING:  # not before the first paint
    from agent.events import Emit
    from agent.ports import Approver, Chooser, Driver


def run_interactive(setup: RunSetup) -> int:
    """Run the REPL until the person leaves; returns the exit code."""

    def make(emit: Emit, approver: Approver, chooser: Chooser | None) -> Driver:
        from agent import commands
        from agent.app.controller import Controller

        return Controller(setup, emit, approver, commands, chooser)

    options = ReplOptions(
        folder=setup.folder,
        state_dir=setup.config.state_dir,
        prompt=setup.options.prompt,
        plain=setup.options.plain,
        color=setup.options.color,
        mask=setup.masks.text,
    )
    return asyncio.run(run(make, options))
