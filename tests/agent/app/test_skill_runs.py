"""Commands and skills in a session: what is approved runs and is granted, the latter for one turn."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.app.agent_start import give_skills
from agent.events import TurnFinished
from agent.extensions.skills import SkillLibrary, skill_items
from agent.permissions import judge_call
from agent.ports import CommandSummary
from agent.session.skill_texts import skills_in_use
from agent.stream_protocol.stream_input import greeting
from tests.agent.commands.controller_run import READ_ALL, ControllerRun, files, run_controller
from tests.agent.ui.headless_run import run_here
from tests.narrowing import present
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server
from tools.base import Access, ToolError
from transcripts.facts import Compacted, User
from transcripts.messages import TextBlock

REVIEW = """\
---
description: Review the changes
argument-hint: [what]
allowed-tools: Write, Bash(git push:*), Edit(/src/**), Read(*), open(make), net(example.com)
effort: low
---
Made here: !`touch made-$0 && echo "$ARGUMENTS"`
Look at $0.
"""


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def project(tmp_path: Path) -> dict[str, Any]:
    """A project with commands and skills; the options of its run."""
    put(tmp_path / ".claude/commands/review.md", REVIEW)
    put(
        tmp_path / ".claude/skills/pdf/SKILL.md",
        "---\ndescription: About PDF\n---\nUse ${CLAUDE_SKILL_DIR}/x in ${CLAUDE_PROJECT_DIR}.",
    )
    return {"environ": {"HOME": str(tmp_path / "home")}}


def allow_all(run: ControllerRun) -> None:
    services = run.controller.services
    services.approvals.record(skill_items(run.controller.setup.folder, run.controller.setup.environ), True)


def last_prompt(run: ControllerRun) -> list[str]:
    user = [fact for fact in run.controller.in_use[0].folded.facts if isinstance(fact, User)][-1]
    return [block.text for block in user.blocks if isinstance(block, TextBlock)]


def may(run: ControllerRun, tool: str, path: str, **more: Any) -> str:
    access = Access("write" if tool == "write" else "read", path, **more)
    return judge_call(tool, (access,), run.controller.in_use[1].permissions.rules).answer


def test_a_typed_command_is_in_the_prompt_and_in_lists(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        allow_all(run)
        await run.do("/review a c")
        *_, words, text = last_prompt(run)
        assert words == "/review a c"
        assert text.startswith("Instructions of the skill review (its files are in ")
        assert text.endswith("Made here: a c\nLook at a.")
        assert (tmp_path / "made-a").is_file()
        assert run.server.requests[-1]["output_config"] == {"effort": "low"}
        review = CommandSummary("review", "[what] · Review the changes · (project)")
        assert review in run.controller.commands()
        assert "/review  [what] · Review the changes" in await run.do("/help commands")
        assert "allows  Write, Bash(git push:*)" in await run.do("/help review")
        assert "/pdf     project  skill    About PDF" in await run.do("/skills")
        put(tmp_path / ".claude/settings.json", '{"hooks": {"Stop": [{"hooks": [{"command": "x"}]}]}}')
        assert "not approved" not in await run.do("/skills"), "a hook is no skill"
        put(tmp_path / ".claude/commands/init.md", "Ours is another.")
        put(tmp_path / ".claude/commands/ops/todo.md", "List all TODO comments.")
        taken = "makeroom has a command of this name"
        shown = await run.do("/skills")
        assert f"unused: {tmp_path}/.claude/commands/init.md ({taken})" in shown
        assert "/ops:todo  project  command  List all TODO comments." in shown and "/todo " not in shown
        added = {each.name: each.summary for each in run.controller.commands() if not each.alias_of}
        assert added["ops:todo"] == "List all TODO comments. · (project)"
        assert [each.name for each in run.controller.commands()].count("init") == 1
        put(tmp_path / "home/.claude/commands/greet.md", "Something new: $ARGUMENTS")
        await run.do("/greet words")
        assert "Something new: words" in last_prompt(run)[-1]
        assert "output_config" not in run.server.requests[-1]
        assert len(run.emitted(TurnFinished)) == 1
        put(tmp_path / "home/.claude/commands/greet.md", "---\nfoo: x\n- bar\n---\n")
        await run.do("/greet words")
        [ended] = run.emitted(TurnFinished)
        assert (ended.reason, ended.error.partition(":")[0]) == ("failed", "/greet")
        assert "did you mean /review" in await run.do("/revew")

    run_controller(tmp_path, work, **project(tmp_path))


def test_without_approval_nothing_of_a_project_runs_or_is_granted_also_after_a_change(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert "1 command that is not approved; it is disabled" in run.text()
        await run.do("/review a")
        assert "[not run: touch made-a" in last_prompt(run)[-1]
        assert "approve it with /trust" in last_prompt(run)[-1]
        allow_all(run)
        put(tmp_path / ".claude/commands/review.md", REVIEW.replace("made-$0", "Made-$0"))
        await run.do("/review a")
        assert "[not run: touch Made-a" in last_prompt(run)[-1]
        assert not list(tmp_path.glob("[Mm]ade-*"))
        assert 'runs touch Made-$0 && echo "$ARGUMENTS"' in await run.do("/trust")
        await run.do("/trust all", "/review a")
        assert (tmp_path / "Made-a").is_file()

    run_controller(tmp_path, work, **project(tmp_path))


def test_a_file_that_became_a_link_meanwhile_is_not_followed(tmp_path: Path) -> None:
    options = project(tmp_path)
    put(tmp_path / "home" / ".netrc", "a password")
    path = tmp_path / ".claude/skills/pdf/SKILL.md"

    async def work(run: ControllerRun) -> None:
        path.unlink()
        path.symlink_to("/etc/hostname")
        skills = present(run.controller.in_use[1].tool_context.skills)()
        with pytest.raises(ToolError, match="is a link that leads out of the project"):
            await skills.load("pdf", "")
        path.unlink()
        path.symlink_to(tmp_path / "home" / ".netrc")
        assert "is a link to a secret" in (await skills.typed("/pdf")).ended.error

    run_controller(tmp_path, work, **options)


def test_a_grant_ends_with_the_turn_and_reaches_no_protected_place(tmp_path: Path) -> None:
    inside = str(tmp_path / "x")

    async def work(run: ControllerRun) -> None:
        allow_all(run)
        assert may(run, "write", inside) == "ask"
        skills = present(run.controller.in_use[1].tool_context.skills)()
        await skills.typed("/review a")
        assert may(run, "write", inside) == "allow"
        assert may(run, "write", "/etc/hosts", outside=True) == "ask"
        assert may(run, "read", "/root/.ssh/id_rsa", outside=True, protected=True) == "ask"
        rules = run.controller.in_use[1].permissions.rules
        assert [str(rule) for rule in rules.allow] == ["write", "bash(git push)", "edit(src/**)", "read(*)"]
        run.controller.services.end_turn()
        assert may(run, "write", inside) == "ask"
        await run.do("/permissions deny write", "/permissions deny bash(touch)")
        denied = await skills.typed("/review b")
        assert "the rule bash(touch) denies this" in denied.after[0].text
        assert may(run, "write", inside) == "deny"
        assert not (tmp_path / "made-b").exists()
        await run.do("/review a")
        assert run.controller.in_use[1].permissions.rules.allow == ()
        await run.do("/pdf")
        assert may(run, "read", f"{tmp_path}/.claude/skills/pdf/more.md", outside=True) == "allow"

    run_controller(tmp_path, work, **project(tmp_path))


def test_the_model_loads_a_skill_which_a_compaction_keeps(tmp_path: Path) -> None:
    options = project(tmp_path)
    files(tmp_path)

    async def work(run: ControllerRun) -> None:
        await run.do("hello")
        _, context = run.controller.in_use
        opened = run.server.requests[0]
        assert "- pdf: About PDF" in str(opened["system"])
        tool = next(tool for tool in opened["tools"] if tool["name"] == "skill")
        assert set(tool["input_schema"]["properties"]) == {"name", "args", "query"}
        skills = present(context.tool_context.skills)()
        loaded = (await skills.load("pdf", "some words")).content[0].text
        assert f"Use {tmp_path}/.claude/skills/pdf/x in {tmp_path}." in loaded
        assert loaded.endswith("ARGUMENTS: some words")
        offered = run.controller.services.tools["skill"]
        access = offered.access(offered.parse({"name": "/PDF"}), context.tool_context)
        assert judge_call("skill", access, context.permissions.rules).answer == "allow"
        await run.do("/permissions deny Skill(pdf)")
        assert judge_call("skill", access, context.permissions.rules).answer == "deny"
        with pytest.raises(ToolError, match=r"Unknown skill: 'pfd'.\n(?s:.*)pdf"):
            await skills.load("pfd", "")
        await run.do("/pdf typed", READ_ALL, "/compact")
        first, *others = map(bytes.decode, run.bodies())
        assert "## Current state" in first
        assert "ARGUMENTS: typed\\n(end of the instructions of pdf, r" in first
        assert "ARGUMENTS: typed" not in str(others)

    run_controller(tmp_path, work, **options)


def test_instructions_that_a_fold_hides_come_again_once(tmp_path: Path) -> None:
    options = project(tmp_path)
    policy = {"policy": "classic", "environ": options["environ"] | {"MAKEROOM_POLICY": "classic"}}

    async def work(run: ControllerRun) -> None:
        session, context = run.controller.in_use
        context.compaction.settings = replace(
            context.compaction.settings, snip_max_messages=6, snip_head_messages=1, snip_tail_messages=3
        )
        context.compaction.use_window(context.compaction.window)
        await run.do("hello", "/pdf typed", *["hello"] * 4)
        assert any(fact.layer == "snip" for fact in session.folded.facts if isinstance(fact, Compacted))
        later = [body.decode() for body in run.bodies()]
        assert sum("ARGUMENTS: typed" in body for body in later) == 1
        assert "/pdf typed" not in str(later)
        assert skills_in_use(session.folded)["pdf"][0] > 8  # the newer text counts from now on

    run_controller(tmp_path, work, **policy)


def test_model_and_effort_of_a_command_hold_for_its_turn(tmp_path: Path) -> None:
    options = project(tmp_path)
    put(tmp_path / "home/.claude/commands/deep.md", "---\nmodel: opus\neffort: max\n---\nThink.")
    put(tmp_path / "home/.claude/commands/odd.md", "---\nmodel: inherit\neffort: huge\n---\nThink.")

    async def work(run: ControllerRun) -> None:
        await run.do("hello", "/deep", "/odd")
        first, deep, odd = run.server.requests
        assert first["model"] == odd["model"] == "claude-sonnet-5-5"
        assert deep["model"].startswith("claude-opus")
        assert [body.get("output_config") for body in (first, deep, odd)] == [None, {"effort": "max"}, None]

    run_controller(tmp_path, work, **options, model="claude-sonnet-5-5")


def test_a_model_and_an_effort_that_are_chosen_in_the_turn_of_a_command_stay(tmp_path: Path) -> None:
    options = project(tmp_path)
    put(tmp_path / "home/.claude/commands/deep.md", f"---\nmodel: opus\neffort: max\n---\n{READ_ALL}")
    files(tmp_path, 2)

    async def work(run: ControllerRun) -> None:
        await run.controller.ready()
        _, context = run.controller.in_use
        turn = asyncio.ensure_future(run.controller.prompt("/deep"))
        while context.settings.effort != "max" or not context.asking.locked():
            await asyncio.sleep(0)
        await run.controller.command("/effort low")
        await run.controller.command("/model claude-haiku-5-5")
        assert (await turn).reason == "done" and len(run.server.requests) > 2
        await run.do("hello")
        assert run.server.requests[-1]["model"] == "claude-haiku-5-5"
        assert context.settings.effort == "low"

    run_controller(tmp_path, work, **options, model="claude-sonnet-5-5")


def test_within_an_agent_a_skill_takes_nothing(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        allow_all(run)
        session, context = run.controller.in_use
        give_skills(run.controller.services, session, context)
        assert context.tool_context.skills is not None
        added = await context.tool_context.skills().typed("/review a")
        assert "Look at a." in added.after[0].text
        assert context.permissions.rules.allow == ()
        assert context.settings.effort is None

    run_controller(tmp_path, work, **project(tmp_path))


def test_a_script_can_call_a_command_and_reads_which_there_are(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    project(tmp_path)
    with Server(ScriptedModel(["Done."])) as server:
        flags = ("--output-format", "stream-json", "--verbose")
        done = run_here(tmp_path, capfd, server, "/review a", *flags)
    first, *_, last = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, last["result"]) == (0, "Done.")
    assert (first["slash_commands"], first["skills"]) == (["pdf", "review"], ["pdf"])
    assert "1 command that is not approved" in done.stderr
    assert "[not run: touch made-a" in str(server.requests[0]["messages"])


def test_without_skills_no_tool_and_no_section_is_there(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("hello")
        assert "skill" not in str([tool["name"] for tool in run.server.requests[0]["tools"]])
        assert "# Skills" not in str(run.server.requests[0]["system"])
        assert "no commands or skills" in await run.do("/skills")

    run_controller(tmp_path, work, environ={"HOME": str(tmp_path / "home")})


def test_a_skill_that_forks_works_in_a_session_of_its_own(tmp_path: Path) -> None:
    options = project(tmp_path)
    body = "Hello $ARGUMENTS, see @notes.md: !`seq 1 4000` and !`cat names`"
    put(tmp_path / "home/.claude/skills/apart/SKILL.md", f"---\ncontext: fork\n---\n{body}")
    put(tmp_path / "notes.md", "These are notes.")
    put(tmp_path / "names", "@secret.md")
    put(tmp_path / "secret.md", "Nobody named this.")

    async def work(run: ControllerRun) -> None:
        await run.do("/apart you")
        assert "The skill apart ran in a session of its own. Its report:" in last_prompt(run)[-1]
        assert "Hello you" not in last_prompt(run)[-1]
        first = str(run.server.requests[0]["messages"])
        assert "Hello you" in first
        assert "more characters omitted]" in first
        assert len(first) < 14_000
        later = str(run.server.requests[-1]["messages"])
        assert "These are notes." in later
        assert "Nobody named this." not in later

    run_controller(tmp_path, work, **options)


def test_a_command_in_a_skill_leaves_the_current_directory_as_it_was(tmp_path: Path) -> None:
    options = project(tmp_path)
    put(tmp_path / "sub" / "file", "")
    put(
        tmp_path / "home/.claude/skills/there/SKILL.md",
        "---\nallowed-tools: Bash\n---\nFirst !`cd sub && pwd`, then !`pwd`.",
    )

    async def work(run: ControllerRun) -> None:
        tools = present(run.controller.context).tool_context
        here = tools.cwd
        await run.do("/there")
        sent = str(run.server.requests[0]["messages"])
        assert f"First {here}/sub\\n[cwd: sub], then {here}." in sent
        assert tools.cwd == here

    run_controller(tmp_path, work, **options)


def test_a_client_is_informed_of_commands_before_anything_is_loaded(tmp_path: Path) -> None:
    project(tmp_path)
    library = SkillLibrary.load(tmp_path, {"HOME": str(tmp_path / "home")}, None)
    told = {each["name"]: each for each in greeting("", library)["commands"]}
    assert told["review"] == {
        "name": "review", "description": "Review the changes (project)", "argumentHint": "[what]",
    }  # fmt: skip
    assert {"clear", "compact", "pdf"} <= told.keys()
    assert SkillLibrary.load(tmp_path / "home", {"HOME": str(tmp_path / "home")}, None).summaries() == []
