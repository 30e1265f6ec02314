"""A call that a hook or the user changes, allows or stops; and what has a turn continue after its end."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.app.follow_ups import hook_refuses, run_with_follow_ups
from agent.app.structured_output import MAX_REMINDERS, StructuredOutput, structured_output
from agent.errors import UsageError
from agent.events import ToolCallFinished, TurnFinished
from agent.loop.call_permission import parse_call, remark_note
from agent.permissions import PermissionRules, PermissionStore, parse_rules
from agent.ports import Allow, Deny, HookAnswer, HookEvent, PermissionUpdate
from tests.agent.loop.test_turn import HookWords
from tests.agent.loop.world import World, world
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls
from tests.tables import each_row
from tools import write
from tools.base import Access
from tools.files import SeenFile
from transcripts.data_tags import injected
from transcripts.facts import Result
from transcripts.messages import ChannelBlock, TextBlock, ToolUseBlock

ACT = Answer((calls("act", words="make"),))
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_a_hook_changes_the_input_that_is_judged_and_run(tmp_path: Path) -> None:
    with world([ACT, "done"], tmp_path, Allow()) as w:
        w.context.hooks = HookWords(pre_tool=HookAnswer(updated_input={"words": "make safe"}))
        w.run()
        assert w.ran["act"] == ["make safe"] and w.approver.questions[0].input == {"words": "make safe"}
        assert '[a hook changed the input of this call to {"words": "make safe"}]' in w.texts()
        w.check()


def test_hooks_get_our_names_of_parameters(tmp_path: Path) -> None:
    with world([], tmp_path) as w:
        given = {"path": "a.txt", "file_text": "x"}
        parsed = parse_call(w.context, ToolUseBlock("t1", "write", given), write.TOOL)
        assert parsed.use.input == {"file_path": "a.txt", "content": "x"}
        assert parsed.access[0].target.endswith("/a.txt")


def test_what_the_user_changes_is_judged_again(tmp_path: Path) -> None:
    for changed, ran in (("make safe", ["make safe"]), ("rm x", [])):
        with world([ACT, "done"], tmp_path, Allow(updated_input={"words": changed})) as w:
            w.context.hooks = HookWords(pre_tool=HookAnswer(words="mind the files"))
            for rule in parse_rules("bash(rm)"):
                w.context.permissions.deny(type(rule)("act", rule.pattern))
            w.run()
            assert w.ran["act"] == ran
            told = str(w.texts())
            assert "[a hook before this call says: mind the files]" in told
            assert f'[the user changed the input of this call to {{"words": "{changed}"}}]' in told
            w.check()


def test_words_that_the_user_approves_a_call_with_go_to_the_model_as_theirs(tmp_path: Path) -> None:
    with world([ACT, "done"], tmp_path, Allow(remark="only this once")) as w:
        w.run()
        (result,) = (each for each in w.record.facts if isinstance(each, Result))
        assert w.ran["act"] == ["make"] and result.remarks == (("", "only this once"),)
        assert remark_note("only this once") in w.texts()
        w.check()


@pytest.mark.parametrize(
    ("decision", "asked", "ran"), [("allow", 0, ["make"]), ("ask", 1, ["make"]), (None, 1, ["make"])]
)
def test_a_hook_saves_the_question_or_has_it_asked(
    tmp_path: Path, decision: Any, asked: int, ran: list[str]
) -> None:
    with world([ACT, "done"], tmp_path, Allow()) as w:
        w.context.hooks = HookWords(pre_tool=HookAnswer(decision=decision))
        w.run()
        assert (len(w.approver.questions), w.ran["act"]) == (asked, ran)


def test_a_write_that_changes_nothing_is_not_asked_about_unless_a_rule_or_a_hook_asks(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    (tmp_path / "a.txt").write_text("same\n")
    (tmp_path / ".envrc").write_text("same\n")
    given = {"a.txt": "same\n", "new.txt": "", ".envrc": "same\n"}
    steps = [Answer((calls("write", file_path=name, content=text),)) for name, text in given.items()]
    asking, rule = HookWords(pre_tool=HookAnswer(decision="ask")), parse_rules("edit(a.txt)")
    asked = []
    for hooks, ask in ((None, ()), (asking, ()), (None, rule)):
        with world([*steps, "done"], tmp_path, *[Deny()] * 3) as w:
            w.context.tools = {"write": write.TOOL}
            w.context.hooks = hooks
            w.context.permissions = PermissionStore(PermissionRules(folder=str(tmp_path), ask=ask))
            for name in given:
                w.context.tool_context.seen[f"{tmp_path}/{name}"] = SeenFile(sha256(b"same\n").hexdigest())
            w.run()
            asked.append([each.title for each in w.approver.questions])
            assert ("already has exactly this content" in str(w.texts())) is (hooks is None and not ask)
    assert asked == [["new.txt", ".envrc"], [*given], [*given]]


def test_where_no_one_is_asked_a_hook_that_asks_denies(tmp_path: Path) -> None:
    with world([ACT, "done"], tmp_path) as w:
        w.context.permissions.set_mode("dontAsk")
        for rule in parse_rules("bash(make)"):
            w.context.permissions.allow(rule)
        w.context.hooks = HookWords(pre_tool=HookAnswer(decision="ask"))
        w.run()
        assert w.ran["act"] == [] and "a hook requires approval, and the mode is dontAsk" in str(w.texts())


def test_a_deny_rule_counts_whatever_a_hook_allows(tmp_path: Path) -> None:
    with world([ACT, "done"], tmp_path) as w:
        w.context.hooks = HookWords(pre_tool=HookAnswer(decision="allow"))
        w.context.permissions.deny(type(parse_rules("bash")[0])("act"))
        w.run()
        assert w.ran["act"] == []
        (told,) = w.told(ToolCallFinished)
        assert told.denied and told.result.human.denied == "the rule act denies this"


def test_the_model_is_informed_that_what_was_denied_is_what_a_hook_made_of_its_call(tmp_path: Path) -> None:
    with world([ACT, "done"], tmp_path, Deny("not that")) as w:
        w.context.hooks = HookWords(pre_tool=HookAnswer(updated_input={"words": "rm"}))
        w.run()
        (text,) = w.texts()
        assert 'not that\n[a hook changed the input of this call to {"words": "rm"}]' in text


def test_permissions_change_for_the_session_but_never_to_a_bypass(tmp_path: Path) -> None:
    updates = (PermissionUpdate(deny=("bash(make)",)), PermissionUpdate(mode="bypassPermissions"))
    with world([ACT, "done"], tmp_path, Allow(updates=(*updates, PermissionUpdate(mode="dontAsk")))) as w:
        w.run()
        rules = w.context.permissions.rules
        assert (rules.mode, str(rules.deny[0])) == ("dontAsk", "bash(make)")


@pytest.mark.parametrize("event", ["pre_tool", "post_tool"])
def test_a_hook_ends_the_turn_after_a_call(tmp_path: Path, event: str) -> None:
    with world([ACT], tmp_path, Allow()) as w:
        w.context.hooks = HookWords(**{event: HookAnswer(stop="enough")})
        ended = w.run()
        assert ended.reason == "denied" and (w.ran["act"] == []) is (event == "pre_tool")
        w.check()


def follow(w: World, answer: StructuredOutput | None = None) -> TurnFinished:
    """A turn with its follow-ups."""

    async def whole() -> TurnFinished:
        w.say("go")
        try:
            return await run_with_follow_ups(w.session, w.context, w.events.append, answer)
        finally:
            await w.context.model.close()

    return asyncio.run(whole())


def test_a_hook_has_the_model_continue_after_its_end(tmp_path: Path) -> None:
    class Once(HookWords):
        async def run(self, event: Any, about: Any) -> HookAnswer:
            await super().run(event, about)
            return (
                HookAnswer(veto="not yet") if event == HookEvent.STOP and not about["again"] else HookAnswer()
            )

    with world(["one", "two"], tmp_path) as w:
        w.context.hooks = hooks = Once()
        assert follow(w) == TurnFinished("done", 2)
        assert [event for event in w.events if isinstance(event, TurnFinished)] == [TurnFinished("done", 2)]
        assert [about["answer"] for event, about in hooks.told if event == "stop"] == ["one", "two"]
        w.check()


def test_an_answer_that_lacks_its_form_is_reminded_of_and_then_given_up(tmp_path: Path) -> None:
    with world(["text"] * (MAX_REMINDERS + 1), tmp_path) as w:
        ended = follow(w, structured_output('{"type": "object"}'))
        assert (ended.reason, ended.turns) == ("no_answer", MAX_REMINDERS + 1)
    with world(["text"] * 3, tmp_path) as w:
        w.context.max_turns = 2
        assert follow(w, structured_output("{}")).reason == "max_turns" and w.context.max_turns == 2


@each_row("text", ["{", "[]", '{"type": "array"}', '{"properties": 5}'])
def test_a_schema_that_cannot_be_used_is_refused_before_anything_is_sent(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="--json-schema"):
        asyncio.run(structured_output(text).open(tmp_path, {}))  # type: ignore[union-attr]


def test_a_hook_refuses_a_prompt_or_adds_to_it() -> None:
    earlier: list[TextBlock] = []
    assert asyncio.run(hook_refuses(HookWords(prompt=HookAnswer(words="w")), "p", earlier)) is None
    refused = asyncio.run(hook_refuses(HookWords(prompt=HookAnswer(veto="no")), "p", earlier))
    assert refused is not None and refused.code == 1
    assert earlier == [ChannelBlock("A hook of the user says:\nw")]


def test_a_hook_allows_nothing_that_always_needs_approval(tmp_path: Path) -> None:
    for protected, asked in ((False, 0), (True, 1)):
        with world([ACT, "done"], tmp_path, Allow()) as w:
            tool = w.context.tools["act"]
            access = Access(
                "write", str(tmp_path / ".git/config"), outside=not protected, protected=protected
            )
            w.context.tools = {"act": replace(tool, access=lambda *_, access=access: (access,))}
            w.context.hooks = HookWords(pre_tool=HookAnswer(decision="allow"))
            w.run()
            assert len(w.approver.questions) == asked


def test_an_input_that_a_hook_made_and_no_one_can_read_is_not_run(tmp_path: Path) -> None:
    with world([ACT, "done"], tmp_path, Allow()) as w:
        w.context.hooks = HookWords(pre_tool=HookAnswer(updated_input={"wrods": 5}))
        w.run()
        assert w.ran["act"] == [] and "A hook changed the input of this call to an invalid one" in str(
            w.texts()
        )


def test_a_hook_replaces_an_output_and_the_record_keeps_the_original(tmp_path: Path) -> None:
    with world([Answer((calls("echo", words="hi"),)), "done"], tmp_path) as w:
        w.context.hooks = HookWords(post_tool=HookAnswer(updated_output="hidden", words="mind"))
        w.run()
        sent = w.server.requests[1]["messages"][-1]["content"][0]["content"]
        replaced, said = "[a hook after this call replaced its output]", "[a hook after this call says: mind]"
        assert [block["text"] for block in sent] == ["hidden", injected(replaced), injected(said)]
        (result,) = [fact for fact in w.record.facts if isinstance(fact, Result)]
        assert result.about["output_before_hook"] == "echo: hi"
        w.check()
