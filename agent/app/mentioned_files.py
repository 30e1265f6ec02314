"""Add the files that a prompt mentions before it, and the text of a command that it calls after it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agent.events import Emit, Notice, TurnFinished
from agent.loop import ActiveSession, PromptAdditions, TurnContext, post_memory_below
from agent.permissions import PermissionRules, judge_call
from tools.base import Access, ToolError
from tools.files import is_inside
from tools.mentions import AttachLimits, attach_mentioned
from transcripts import ChannelBlock, DataTag, TextBlock, quoted

from .pasted_images import IMAGES_FOLDER

if TYPE_CHECKING:
    from agent.extensions.mcp import McpServers

SECRET = "it may contain secrets; ask the model to read it"


async def additions_to(
    in_use: ActiveSession, text: str, *, words: str, headless: bool, emit: Emit
) -> PromptAdditions:
    """Return the additions to a prompt, given its whole text and the `words` that were typed.

    Emits the end of the turn if the turn does not begin. Memory files that apply to the mentioned files are
    put into the inbox.
    """
    session, context = in_use
    found = await mentioned_files(context, words, headless, emit)
    await post_memory_below(session, context, found.files, emit)
    if (servers := context.tool_context.servers) is not None:
        found = await _with_servers(found, servers, context, words, emit)
    if not words.startswith("/") or found.after or found.ended is not None:
        return found
    skills = context.tool_context.skills() if context.tool_context.skills is not None else None
    if skills is None:
        return found
    called: PromptAdditions = await skills.typed(text)
    if called.ended is not None:
        emit(called.ended)
    return replace(called, blocks=(*found.blocks, *called.blocks), files=(*found.files, *called.files))


CALLED_PROMPT = (
    "The user called a prompt of an MCP server. Its text is between <mcp-server> tags: "
    "follow it for this request."
)


async def _with_servers(
    found: PromptAdditions, servers: McpServers, context: TurnContext, words: str, emit: Emit
) -> PromptAdditions:
    """Add the MCP resources that a prompt mentions, and the MCP prompt that it calls."""
    for made in await servers.mentioned(words, context.tool_context):
        emit(Notice(made.message, "warning" if made.trouble else "info"))
        found = replace(found, blocks=(*found.blocks, *made.blocks))
    if (called := await servers.called(words)) is None:
        return found
    try:
        text = await called.text()
    except ToolError as error:
        ended = TurnFinished("failed", turns=0, error=f"{words.split()[0]}: {error}", code=1)
        emit(ended)
        return replace(found, ended=ended)
    return replace(found, after=(ChannelBlock(CALLED_PROMPT), TextBlock(quoted(text, DataTag.MCP_SERVER))))


async def mentioned_files(context: TurnContext, text: str, headless: bool, emit: Emit) -> PromptAdditions:
    """Read the files that a text mentions; emits a notice for each."""
    state = context.compaction
    clipboard = context.tool_context.journals.parent / IMAGES_FOLDER
    refusal = partial(_refusal, context.permissions.rules, headless, str(clipboard))
    limits = AttachLimits(refusal, count=state.counter.text, tokens=state.window.size // 2)
    made = await attach_mentioned(text, context.tool_context, limits)
    for one in made:
        emit(Notice(one.message, "warning" if one.trouble else "info"))
    return PromptAdditions(
        tuple(block for one in made for block in one.blocks), tuple(one.about for one in made if one.about)
    )


def _refusal(rules: PermissionRules, headless: bool, clipboard: str, access: Access) -> str:
    """Return the reason why a file may not be attached, "" if it may.

    A file that the user names needs no approval unless it may be secret. Images of the clipboard are kept in
    a directory among our own files.
    """
    if not headless and is_inside(access.target, clipboard):
        return ""
    verdict = judge_call("read", (access,), rules)
    if verdict.answer == "allow" and (verdict.rule is not None or not access.protected):
        return ""
    if verdict.rule is not None:
        return verdict.why
    if access.protected:
        return SECRET
    return f"{verdict.why} (pass --allowedTools 'read({access.target})' to allow it)" if headless else ""
