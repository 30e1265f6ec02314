"""Ask the user a question for a tool, through the same port as permission questions."""

from __future__ import annotations

from agent.ports import Deny, PermissionQuestion
from tools.user_questions import UserAnswer

from .call_permission import follow_update, preview_of
from .leaving import Leaving


async def ask_user(waiting: Leaving) -> UserAnswer:
    """Return the user's answer to the call `waiting`, whose preview contains the question.

    Changes to the permissions that come with a yes are in force when this returns. The time that the answer
    takes, and whether it ends the turn, are recorded in `waiting`.
    """
    context = waiting.context
    call = waiting.call
    shown = preview_of(context, call)
    question = PermissionQuestion(
        call.tool.name,
        title=call.title,
        access=(),
        why="",
        prefix=None,
        preview=shown,
        call=call.use.id,
        input=call.use.input,
    )
    began = context.clock.monotonic()
    answer = await context.approver.ask(question)
    waiting.waited += context.clock.monotonic() - began
    if isinstance(answer, Deny):
        waiting.stop = answer.stop
        return UserAnswer("nobody" if answer.unattended else "no", reason=answer.reason)
    waiting.note_remark(answer)
    for update in answer.updates:
        follow_update(context.permissions, update)
    return UserAnswer("yes", answer.updated_input or {})
