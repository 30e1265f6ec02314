"""Commands about what people bring in files: /trust."""

from __future__ import annotations

from agent.app.controller import Controller
from agent.app.project_items import choose_items, item_lines, project_items, record_decision
from agent.events import CommandOutput, Event, Notice


async def show_trust(controller: Controller, argument: str) -> Event | None:
    """Show or change what this project may bring: commands that its files run, rights that they take. \
`all` allows all of it, `none` nothing."""
    approvals, emit = controller.services.approvals, controller.emit
    items = await project_items(controller.setup)
    if not items:
        return Notice("this project brings nothing that needs your approval")
    if argument in ("all", "none"):
        record_decision(approvals, items, argument == "all", emit)
    elif argument:
        return Notice(
            "/trust shows and changes what this project may bring; /trust all, /trust none", "warning"
        )
    elif controller.chooser is not None:
        before = [approvals.decided(item) for item in items]
        await choose_items(approvals, items, controller.chooser, emit)
        if before == [approvals.decided(item) for item in items]:
            return None
    await controller.services.read_approved()
    emit(CommandOutput("\n".join(item_lines(items, approvals))))
    return None
