"""Choose between a fork and a fresh session: an agent works in a copy of the conversation if that is cheaper.

A fork begins with exactly the prefix that the session sent, tools included, so all of it is cached. Tools
that the agent may not use are refused when it calls them. A fresh session writes its own prefix to the cache
and has to look up what it needs.
"""

from __future__ import annotations

from agent.extensions.agents import BUILTIN_AGENTS, FORK, REPORT_RULES
from agent.loop import prompt_tokens
from agent.session import Session
from compact import Prices
from transcripts import TextBlock

from .nested_context import NestedCall


def fork_pays(tokens: int, prefix: int, prices: Prices) -> bool:
    """Return whether a fork of a conversation of `tokens` costs less than a fresh session.

    A fork reads the whole conversation with each request. A fresh session writes its own prefix of `prefix`
    tokens once and reads it afterwards. It looks up again what it needs, half-way through on average, and so
    carries that in half of its requests.
    """
    requests = 10  # expected of an agent
    copy = requests * tokens * prices.read
    own = (prices.write + (requests - 1) * prices.read) * prefix
    return copy <= own + 8_000 * (prices.write + requests / 2 * prices.read)  # it looks up that much again


def works_as_fork(call: NestedCall) -> bool:
    """Return whether an agent works in a copy of the conversation: on request, or because it costs less.

    An agent in the background does so only on request.
    """
    parent = call.parent
    context = call.context
    definition = call.definition
    if definition is None or parent.folded.opened is None:
        return False
    if definition is FORK:  # in the background, the copy includes what the session has done since
        return True
    if (
        call.request.background  # whether its call has a result yet depends on the load of the machine
        or not _open_calls(parent)
        or definition is not BUILTIN_AGENTS.get(definition.name)
        or context.settings.cache is None
    ):
        return False
    last = parent.folded.last_reply
    state = context.compaction
    is_warm = last is not None and context.clock.now() - last.ts < state.settings.cache_ttl_s
    tokens = prompt_tokens(parent, context)
    return (
        is_warm
        and tokens <= 50_000  # a longer conversation distracts an agent
        and fork_pays(tokens, state.overhead, state.prices_in(parent.folded))
    )


OWN_CALL = "[You are the agent that this call started. Your task is below.]"
OTHER_CALL = "[This call was made together with yours. You cannot see its result.]"
FORK_HEAD = """\
You are now an agent: a copy of the conversation above, started by the last task call in it. Do that task \
only, not the rest of the conversation. Only these tools work for you; calls to others are denied: {tools}."""


def begin_fork(call: NestedCall, session: Session, tools: list[str]) -> None:
    """Answer the calls that are open in a copy of the conversation, and put the task after them."""
    for place in _open_calls(session):
        session.result(*place, (TextBlock(OWN_CALL if place == call.agent.place else OTHER_CALL),))
    role = call.definition.prompt if call.definition is not None else ""
    head = FORK_HEAD.format(tools=", ".join(tools))
    texts = (head, role, REPORT_RULES, f"# Your task\n{call.request.prompt}")
    session.user((TextBlock("\n\n".join(filter(None, texts))),), "harness")


def _open_calls(session: Session) -> list[tuple[int, int]]:
    """Return the calls of the newest reply that have no result yet, as (seq of the reply, block index)."""
    newest = session.folded.conversation.last_exchange
    if newest is None:
        return []
    return [(newest.seq, block) for block in newest.uses if block not in newest.results]
