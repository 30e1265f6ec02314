"""An agent works in a copy of the conversation where that costs less, or where it was asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agent.app.agent_fork import OTHER_CALL, OWN_CALL, fork_pays
from compact.prices import Prices
from tests.strict_api.reply import Reply, calls
from tests.tables import each_row
from transcripts.facts import Opened
from transcripts.facts import Reply as Answer
from transcripts.view import to_json_bytes

from .agent_session import AgentRun, parts, run_agents, task

CHEAP_TO_READ = Prices(read=0.05)


def without_marks(value: Any) -> Any:
    """Return a body without cache marks, which are not part of what is cached."""
    if isinstance(value, dict):
        return {key: without_marks(item) for key, item in value.items() if key != "cache_control"}
    return [without_marks(item) for item in value] if isinstance(value, list) else value


def prefix(body: dict[str, Any], messages: int) -> bytes:
    cached = {name: body[name] for name in ("model", "tools", "system")}
    return to_json_bytes(without_marks({**cached, "messages": body["messages"][:messages]}))


@each_row(("tokens", "pays"), [(30_000, True), (45_000, True), (60_000, False), (300_000, False)])
def test_a_copy_pays_while_reading_it_again_costs_less_than_a_new_prefix(tokens: int, pays: bool) -> None:
    assert fork_pays(tokens, 8_000, CHEAP_TO_READ) is pays
    assert not fork_pays(tokens, 8_000, Prices(read=1.0))


def test_a_copy_begins_with_the_bytes_of_the_session_and_uses_no_more_than_it_may(tmp_path: Path) -> None:
    write = Reply([calls("write", file_path="a", content="x"), task("deeper")])
    model = parts(
        go=[Reply([task("alpha", "explore"), calls("read", file_path="b"), task("beta", "explore")]), "done"],
        alpha=[write, "nothing to be found"],
        beta=["nothing more"],
    )
    run = run_agents(tmp_path, model, forks=True, permission_mode="bypassPermissions")
    first, *others = run.server.requests
    of_agents = [body for body in others if "# Your task" in str(body["messages"])]
    assert len(of_agents) == 3 and len(others) == 4
    for body in of_agents:
        assert prefix(body, 1) == prefix(first, 1)
        assert OWN_CALL in str(body["messages"][2]) and OTHER_CALL in str(body["messages"][2])
    told = str(run.nested()[0])
    assert "There is no tool named 'write'" in told and "There is no tool named 'task'" in told
    assert not (tmp_path / "a").exists()
    assert any(text.startswith("nothing to be found\n[explore #1: 2 requests") for text in run.texts())


def test_a_copy_is_linked_with_the_session_and_only_its_own_requests_are_charged(tmp_path: Path) -> None:
    model = parts(go=[Reply([task("look", "fork")]), "done"], look=["It is so."])
    run = run_agents(tmp_path, model, forks=True)
    (facts,) = run.nested()
    opened = next(fact for fact in facts if isinstance(fact, Opened))
    assert opened.parent == run.session.sid and opened.about["agent"] == "fork"
    sessions = run.services.repository.records.sessions()
    assert len([one for one in sessions if one.parent is None]) == 1
    last = next(fact for fact in reversed(facts) if isinstance(fact, Answer))
    (first,) = [fact for fact in run.session.folded.facts if isinstance(fact, Answer)][:1]
    assert last.usage.cache_read >= first.usage.prompt - 50  # what the session had sent is read
    own = [fact.usage for fact in run.session.folded.facts if isinstance(fact, Answer)]
    assert run.session.spent.output == sum(usage.output for usage in own) + last.usage.output


def test_a_long_conversation_is_copied_only_where_that_was_asked_for(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        lines = (f"{name} has a line {at} of {at * at} words" for at in range(1_500))
        (tmp_path / name).write_text("\n".join(lines))
    reads = [calls("read", file_path=name) for name in ("one", "two", "three")]
    ask = Reply([task("alpha", "explore"), task("beta", "fork")])
    model = parts(go=[Reply(reads), ask, "done"], alpha=["fresh"], beta=["copied"])
    run = run_agents(tmp_path, model, forks=True)
    sizes = [len(body["messages"]) for body in run.server.requests]
    assert sorted(sizes) == [1, 1, 3, 5, 5]
    assert {text.split("\n")[0] for text in run.texts()[-2:]} == {"fresh", "copied"}  # whichever ends first


def test_a_definition_of_one_s_own_works_with_its_own_prompt(tmp_path: Path) -> None:
    given = '{"reviewer": {"description": "d", "prompt": "You review."}}'
    run = run_agents(
        tmp_path,
        parts(go=[Reply([task("look", "reviewer")]), "done"], look=["fine"]),
        forks=True,
        agents=given,
    )
    assert run.server.requests[1]["system"][0]["text"].startswith("You review.")


def test_a_copy_in_the_background_continues_behind_what_the_session_did_since(tmp_path: Path) -> None:
    async def until_it_ended(run: AgentRun) -> None:
        assert run.context.agents is not None
        while run.context.agents.running:
            await asyncio.sleep(0.001)

    beside = Reply([task("alpha", "fork", run_in_background=True)])
    model = parts(go=[beside, "it works"], alpha=["I know all of it"])
    run = run_agents(tmp_path, model, forks=True, then=until_it_ended)
    (copied,) = [body for body in run.server.requests if "# Your task" in str(body["messages"])]
    assert "works in the background" in str(copied["messages"]) and len(copied["messages"]) >= 3
    (told,) = (news.text for news in run.context.tool_context.inbox.take())
    assert "I know all of it" in told
