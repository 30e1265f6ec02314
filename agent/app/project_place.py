"""Ask once what commands may change in a directory that is not a project.

In a home directory, commands could write files that every other program trusts, such as `~/.zshenv`. Until
the user decides otherwise, the sandbox keeps such a directory read-only, and each edit needs approval.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from agent.errors import ChoiceCancelled
from agent.events import Emit, Notice
from agent.extensions import Approvals, ProjectItem
from agent.menus import question_menu
from agent.ports import Chooser
from tools.sandbox import short_path

from .project_approval import record_decision
from .setup import RunSetup


async def ask_for_folder_access(setup: RunSetup, chooser: Chooser | None, emit: Emit) -> RunSetup:
    """Ask what commands may change in a directory that is not a project; return the setup with the answer.

    If no user can choose, the directory stays read-only, with a warning. Raises ChoiceCancelled.
    """
    why = setup.why_no_project
    if not why:
        return setup
    where = short_path(str(setup.folder))
    if setup.mode == "bypassPermissions":
        emit(Notice(f"{where} is {why}, not a project; commands can change everything in it", "warning"))
        return setup
    item = ProjectItem("directory", name=why, shows="writable", content=b"writable")
    approvals = await asyncio.to_thread(Approvals, setup.config.approvals_path, setup.folder)
    if approvals.allows(item):
        return replace(setup, why_no_project="")
    warning = f"{where} is {why}, not a project; it is read-only for commands, and edits need approval"
    if chooser is None:
        remedy = "Start makeroom in a project directory, or run it here in a terminal to decide."
        emit(Notice(f"{warning}. {remedy}", "warning"))
        return setup
    emit(Notice(warning, "warning"))
    menu = question_menu(
        f"What may commands change in {where}?",
        nothing="Nothing: they can only read",
        all="Everything, as in a project (remembered)",
        quit="Quit",
    )
    answer = await chooser.choose(menu)
    if answer is None or answer.value == "nothing":
        return setup
    if answer.value == "quit":
        raise ChoiceCancelled(f"start makeroom in a project directory, since {where} is {why}")
    record_decision(approvals, [item], True, emit)
    return replace(setup, why_no_project="")
