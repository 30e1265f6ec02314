"""Fork or fresh: an agent goes on in a copy of the conversation where reading that again costs less.

A copy begins with exactly what the session sent, tools included, so all of it is in the cache; what the
agent may not use is refused when it is called. Another writes a prefix of its own and looks up what it needs.
"""

from __future__ import annotations

from agent.extensions.agents import BUILTIN_AGENTS, FORK, REPORT_RULES
from agent.loop import prompt_tokens
from agent.session import Session
from compact import Prices
from transcripts import TextBlock

from .nested_context import NestedCall

MAX_FORK_TOKENS = 50_000  # of a conversation that an agent is given unasked: more distracts it
FORK_REQUESTS = 10  # that an agent is expected to send
REREAD_TOKENS = 8_000  # that one without the conversation is expected to look up again
OWN_CALL = "[You are the agent that this call has started: the task stands below.]"
OTHER_CALL = "[What comes of this call is not known to you: it was made together with yours.]"
FORK_HEAD = """\
You are now an agent: a copy that works beside the conversation above, for the last call of task in it. Do \
that task alone and not the rest of the conversation. Only these tools work for you, calls of others are \
refused: {tools}."""


def fork_pays(tokens: int, prefix: int, prices: Prices) -> bool:
    """Return whether a copy of a conversation of so many tokens costs less than a new one with a prefix of
    its own.

    The copy reads all of it with each request. A new one writes its prefix once and reads it then, and has
    what it looks up again, in the middle of its time on the average, for half of its requests.
    """
    requests = FORK_REQUESTS
    copy = requests * tokens * prices.read
    own = (prices.write + (requests - 1) * prices.read) * prefix
    return copy <= own + REREAD_TOKENS * (prices.write + requests / 2 * prices.read)


def works_as_fork(call: NestedCall) -> bool:
    """Return whether an agent works in a copy of the conversation: because that was asked for, or
    costs less.
    """
    parent = call.parent
    context = call.context
    definition = call.definition
    if definition is None or parent.folded.opened is None:
        return False
    if definition is FORK:  # in the background also behind what the session has done since
        return True
    if (
        not _open_calls(parent)
        or definition is not BUILTIN_AGENTS.get(definition.name)
        or context.settings.cache is None
    ):
        return False
    last = parent.folded.last_reply
    state = context.compaction
    is_warm = last is not None and context.clock.now() - last.ts < state.settings.cache_ttl_s
    tokens = prompt_tokens(parent, context)
    return is_warm and tokens <= MAX_FORK_TOKENS and fork_pays(tokens, state.overhead, state.prices)


def begin_fork(call: NestedCall, session: Session, tools: list[str]) -> None:
    """Answer the calls that are open in a copy of the conversation, and put the task behind them."""
    for place in _open_calls(session):
        session.result(*place, (TextBlock(OWN_CALL if place == call.agent.place else OTHER_CALL),))
    role = call.definition.prompt if call.definition is not None else ""
    head = FORK_HEAD.format(tools=", ".join(tools))
    texts = (head, role, REPORT_RULES, f"# Your task\n{call.request.prompt}")
    session.user((TextBlock("\n\n".join(filter(None, texts))),), "harness")


def _open_calls(session: Session) -> list[tuple[int, int]]:
    """(reply, block) of the calls of the newest reply that have no result yet."""
    newest = session.folded.conversation.last_exchange
    if newest is None:
        return []
    return [(newest.seq, block) for block in newest.uses if block not in newest.results]
