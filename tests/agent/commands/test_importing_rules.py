"""/permissions with the rules of Claude Code's settings files."""

import json
from pathlib import Path
from typing import Any

from agent.app.claude_restrictions import claude_rules
from agent.ports import PermissionQuestion
from agent.ui import approval_choices
from tools.base import Access
from tools.user_questions import Preview

from .controller_run import ControllerRun, run_controller


def _settings(home: Path, **permissions: Any) -> Path:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"permissions": permissions}), "utf-8")
    return path


def test_allow_rules_are_offered_and_taken_by_name(tmp_path: Path) -> None:
    path = _settings(tmp_path / "home", allow=["Bash(make:*)", "Bash(ls)", "Nonsense("])

    async def work(run: ControllerRun) -> None:
        store = run.controller.in_use[1].permissions
        offered = await run.do("/permissions import")
        assert offered.splitlines()[:2] == [f"allow  bash(make)  ({path})", f"allow  bash(ls)  ({path})"]
        assert store.rules.allow == ()
        assert "unknown rule 'bash(cc)'" in await run.do("/permissions import bash(cc)")
        assert "always allowed in this project: bash(ls)" in await run.do("/permissions import bash(ls)")
        assert "bash(ls)" not in await run.do("/permissions import")
        await run.do("/permissions import all")
        assert list(map(str, store.rules.allow)) == ["bash(ls)", "bash(make)"]
        assert all(map(store.is_permanent, store.rules.allow))
        shown = (await run.do("/permissions import")).splitlines()
        assert shown[0].startswith("cannot be imported: Nonsense(:") and shown[0].endswith(f"({path})")
        assert shown[1] == "Claude Code's settings files contain no other allow rules"

    run_controller(tmp_path, work, environ={"HOME": str(tmp_path / "home")})


def test_allow_rules_of_a_checkout_are_named_with_the_reason_why_they_are_not_offered(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        none = "Claude Code's settings files contain no allow rules to import"
        assert await run.do("/permissions import") == none
        path = _settings(run.controller.setup.folder, allow=["Bash(ls:*)"])
        why = f"a checkout cannot grant permissions; see /permissions allow ({path})"
        for words in ("import", "import all"):
            shown = await run.do(f"/permissions {words}")
            assert shown.splitlines() == [
                f"cannot be imported: Bash(ls:*): {why}",
                "Claude Code's settings files contain no other allow rules",
            ]

    run_controller(tmp_path, work, environ={"HOME": str(tmp_path / "home")})


def test_restrictions_are_shown_as_they_were_written_and_removed_in_their_file(tmp_path: Path) -> None:
    path = _settings(tmp_path / "home", deny=["Read(.env)"], ask=["Bash(git push:*)"])
    found = claude_rules({"HOME": str(tmp_path / "home")}, tmp_path)

    async def work(run: ControllerRun) -> None:
        shown = (await run.do("/permissions")).splitlines()
        assert shown[1:3] == [f"deny   Read(.env)  ({path})", f"ask    Bash(git push:*)  ({path})"]
        told = await run.do("/permissions remove Read(.env)")
        assert told.splitlines()[0] == f"cannot remove deny Read(.env): remove it from {path} and restart"
        assert "ask    edit  (this session)" in await run.do("/permissions ask edit")
        assert "removed ask edit" in await run.do("/permissions remove edit")

    run_controller(tmp_path, work, configured={"deny": found.deny, "ask": found.ask})


def test_the_question_of_an_ask_rule_offers_no_lasting_answer() -> None:
    access = (Access("write", "/w/app/a"),)
    question = PermissionQuestion("edit", "edit a", access, why="", prefix=None, preview=Preview(), once=True)
    assert [choice.letter for choice in approval_choices(question)] == ["y", "n"]
