"""/model, /effort, /permissions, /config and /hooks against the strict server."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.app import Options
from agent.app.config import Config, load_config
from agent.app.settings_schema import SETTINGS as KNOWN_SETTINGS
from agent.app.setup import RunSetup, next_mode
from agent.commands.settings import SECRET_SETTINGS
from agent.errors import UsageError
from agent.events import Notice, Retrying, ScreenSetting
from agent.model.anthropic.client import AnthropicModel
from agent.model.selection import ModelSelection
from agent.permissions import Mode, Rule
from agent.permissions.permission_store import store_rule
from agent.ports import HookAnswer, HookEvent
from agent.session.environment import plan_text
from agent.settings_files import permissions_path
from compact.prices import PRICES_BY_MODEL
from compact.server_cache import MIN_MISSES
from tests.narrowing import present
from tests.strict_api.demo_bridge import demo_reply
from tests.strict_api.faults import Fault, parse_fault
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import says
from tests.strict_api.server import Server
from tests.tables import each_row
from transcripts.facts import Opened, Reply

from .controller_run import READ_ALL, ControllerRun, ScriptedChooser, files, run_controller


def test_permissions_can_be_seen_and_changed(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        told = await run.do("/permissions allow bash(git status)")
        assert "allow  bash(git status)" in told and "usage:" not in told
        assert "usage: /permissions" in await run.do("/permissions")
        assert "mode   acceptEdits" in await run.do("/permissions mode acceptEdits")
        assert "the modes are" in await run.do("/permissions mode whatever")
        assert run.controller.cycle_mode() == "plan"
        inbox = run.controller.in_use[1].tool_context.inbox
        assert plan_text(("ask_user", "exit_plan")) in str(inbox.waiting).replace("\\n", "\n")
        await run.do("hello")
        assert b"".join(run.bodies()).count(b"Plan mode is on") == 1 and not inbox.waiting
        assert run.controller.cycle_mode() == "manual"
        await run.do("go on", "and on")
        assert b"".join(run.bodies()).count(b"Plan mode is off") == 1

    run_controller(tmp_path, work)


def test_bypassing_is_a_step_of_shift_tab_only_where_the_program_was_started_for_it(tmp_path: Path) -> None:
    around: tuple[Mode, ...] = ("manual", "acceptEdits", "plan", "bypassPermissions")
    plain, bypassing = (RunSetup(Options(may_bypass=may), Config(), tmp_path, {}) for may in (False, True))
    assert [next_mode(mode, bypassing) for mode in around] == [*around[1:], "manual"]
    assert [next_mode(mode, plain) for mode in around] == ["acceptEdits", "plan", "manual", "manual"]
    assert next_mode("dontAsk", plain) == "manual"


def test_rules_are_listed_with_their_origin_and_session_and_permanent_ones_can_be_removed(
    tmp_path: Path,
) -> None:
    kept = permissions_path(tmp_path / "home" / "config", tmp_path)
    store_rule(kept, Rule("bash", "git log"))
    store_rule(kept, Rule("bash", "git status"))

    async def work(run: ControllerRun) -> None:
        text = await run.do("/permissions deny bash(git push), edit", "/permissions")
        assert "deny   bash(git push)  (this session)" in text and "deny   edit  (this session)" in text
        assert f"allow  bash(git log)  (always allowed, in {kept})" in text
        assert "allow  bash(pytest)  (--allowedTools)" in text
        text = await run.do("/permissions remove bash(git push)")
        assert "removed deny bash(git push) (this session)" in text and "deny   bash" not in text
        text = await run.do("/permissions remove bash(git log)")
        assert f"removed allow bash(git log) (always allowed, in {kept})" in text
        assert "git log" not in kept.read_text() and "git status" in kept.read_text()
        text = await run.do("/permissions remove bash(pytest)")
        assert "cannot remove allow bash(pytest): remove it from --allowedTools and restart" in text
        assert "allow  bash(pytest)" in text
        text = await run.do("/clear", "/permissions")
        assert "git log" not in text and "bash(git status)" in text

    run_controller(tmp_path, work, allowed_tools=("bash(pytest)",))


@each_row(
    ("line", "told"),
    [
        ("/permissions forbid bash", "| deny RULE |"),
        ("/permissions remove bash(make)", "unknown rule 'bash(make)'; run /permissions"),
        ("/permissions deny bsh", "did you mean 'bash'?"),
        ("/permissions remove", "unknown rule ''; run /permissions"),
        ("/permissions remove zz", "unknown rule 'zz'; run /permissions"),
    ],
)
def test_a_change_of_permissions_that_cannot_be_made_is_explained(
    tmp_path: Path, line: str, told: str
) -> None:
    async def work(run: ControllerRun) -> None:
        assert told in await run.do(line)

    run_controller(tmp_path, work)


def test_a_deny_rule_of_the_session_is_named_when_it_refuses(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("/permissions deny bash(echo one)", "run `echo one`")
        assert b"the rule bash(echo one) denies this" in b"".join(run.bodies())
        assert "\nrecently denied:\n  bash: echo one\n" in await run.do("/permissions")

    run_controller(tmp_path, work)


def test_another_model_gets_no_thinking_of_the_old_one(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("run `echo one`", "/model opus", "run `echo two`")
        last = run.server.requests[-1]
        assert last["model"] == "claude-opus-5-5"
        assert "opus" in run.controller.status().model

    run_controller(tmp_path, work)


async def until(held: Callable[[], bool]) -> None:
    """Return when it holds; the event loop continues meanwhile."""
    while not held():
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["stall", "529"])
def test_a_model_chosen_while_a_turn_runs_has_its_next_request_and_no_thinking(
    tmp_path: Path, kind: str
) -> None:
    fault = parse_fault(kind)

    async def work(run: ControllerRun) -> None:
        run.server.faults.add(fault)
        turn = asyncio.ensure_future(run.controller.prompt("run `echo one`"))
        await until(lambda: bool(run.server.requests if kind == "stall" else run.emitted(Retrying)))
        context = run.controller.in_use[1]
        choice = asyncio.ensure_future(run.controller.command("/model opus"))
        if kind == "stall":
            await until(lambda: bool(run.emitted(Notice)))
            assert context.settings.model == "claude-sonnet-5-5", "not under a request that is answered"
            fault.release.set()
        await choice
        assert (await turn).reason == "done"
        told = [event.text for event in run.emitted(Notice)]
        later = "the model changes to opus after the current request"
        assert (later in told) == (kind == "stall") and "the model is now claude-opus-5-5" in told
        await run.do("run `echo two`")
        models = [body["model"] for body in run.server.requests]
        assert models == ["claude-sonnet-5-5", *["claude-opus-5-5"] * (len(models) - 1)] and len(models) > 3

    run_controller(tmp_path, work)


class SlowEnd:
    """Hooks of which that of the end of a session waits."""

    def __init__(self) -> None:
        self.asked, self.answer = asyncio.Event(), asyncio.Event()

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
        if event is HookEvent.SESSION_END and not self.answer.is_set():
            self.asked.set()
            await self.answer.wait()
        return HookAnswer()


def test_a_model_chosen_while_a_session_ends_is_that_of_the_next(tmp_path: Path) -> None:
    hooks = SlowEnd()

    async def work(run: ControllerRun) -> None:
        await run.do("help")
        clearing = asyncio.ensure_future(run.controller.command("/clear"))
        await hooks.asked.wait()
        await run.controller.command("/model opus")
        hooks.answer.set()
        await clearing
        await run.do("help")
        assert run.server.requests[-1]["model"] == "claude-opus-5-5"
        assert "opus" in run.controller.status().model

    run_controller(tmp_path, work, hooks=hooks)


SETTINGS = """# mine
theme = "dark"
model = 'haiku'   # quick
deny = [
  "bash(rm *)",
]
[compact]
trigger = 90000
"""


def test_a_model_is_kept_for_new_sessions_and_nothing_else_in_the_file_changes(tmp_path: Path) -> None:
    path, real = tmp_path / "home" / "config" / "settings.toml", tmp_path / "dotfiles" / "settings.toml"
    path.parent.mkdir(parents=True)
    real.parent.mkdir()
    path.symlink_to(real)

    async def work(run: ControllerRun) -> None:
        told = await run.do("/model --save opus")
        assert "the model is now claude-opus-5-5" in told and f'wrote model = "opus" to {path}' in told
        assert real.read_text() == 'model = "opus"\n' and path.is_symlink()
        real.write_text(SETTINGS, newline="\r\n")
        real.chmod(0o644)
        await run.do("/model haiku --save")
        assert real.read_text() == SETTINGS
        assert "now" not in await run.do("/model --save")
        kept = SETTINGS.replace("'haiku'", '"claude-haiku-5-5"').replace("\n", "\r\n")
        assert real.read_bytes().decode() == kept and real.stat().st_mode & 0o777 == 0o644
        real.write_text('[prices]\nmodel = "x"\n')
        run.controller.chooser = ScriptedChooser("claude-opus-5-5", "")
        assert "wrote model" in await run.do("/model --save") and await run.do("/model --save") == ""
        assert real.read_text() == 'model = "claude-opus-5-5"\n[prices]\nmodel = "x"\n'

    run_controller(tmp_path, work, configured={"user_dir": path.parent})


@pytest.mark.parametrize("text", ['"model" = "haiku"\n', 'model = """haiku"""\n', "model = \n"])
def test_a_settings_file_that_only_a_user_can_change_stays_unchanged(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config" / "settings.toml"
    path.parent.mkdir()
    path.write_text(text)

    async def work(run: ControllerRun) -> None:
        told = await run.do("/model --save nosuch", "/model --save opus")
        refusals = (f"/model: cannot read {path}: ", f"/model: cannot change model in {path}. ")
        assert any(refusal in told for refusal in refusals)
        assert path.read_text() == text

    run_controller(tmp_path, work, configured={"user_dir": path.parent})


def test_a_model_is_kept_that_a_variable_hides_and_this_is_reported(tmp_path: Path) -> None:
    origins = {"origins": {"model": "ANTHROPIC_MODEL"}}

    async def work(run: ControllerRun) -> None:
        assert "unless ANTHROPIC_MODEL in the environment overrides it" in await run.do("/model --save opus")
        assert "unknown model 'nosuch" in await run.do("/model nosuch --save"), "which is not kept"
        written = (run.controller.setup.config.user_dir / "settings.toml").read_text()
        assert written == 'model = "opus"\n'

    run_controller(tmp_path, work, configured=origins, environ={"ANTHROPIC_MODEL": "sonnet"})


def test_a_model_that_is_not_in_the_list_of_the_server_is_refused(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        before = run.controller.status().model
        for slip, meant in (("sonet", "sonnet"), ("son", "sonnet"), ("claude-haiku-4-6", "claude-haiku-4-5")):
            told = f"/model: unknown model {slip!r}; did you mean {meant}? The server has claude-haiku-4-5, "
            assert (await run.do(f"/model {slip}")).startswith(told)
        assert "unknown model 'gpt'; the server has claude-haiku-4-5, " in await run.do("/model gpt")
        assert run.controller.status().model == before
        await run.do("hello")
        assert run.server.requests[-1]["model"] == "claude-sonnet-5-5"

    run_controller(tmp_path, work)


def test_a_model_that_a_server_without_a_list_does_not_know_is_used_and_reported(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        run.server.faults.add(Fault("no_models", times=None))
        assert "/model opus     claude-opus-5-5" in await run.do("/model")
        assert "did you mean sonnet?" in await run.do("/model sonet")
        assert run.controller.status().model == "sonet"
        text = await run.do("/model sonnet", "hello", "/model opus")
        assert text.count("thinking") == 1 and "the model is now claude-opus-5-5" in text

    run_controller(tmp_path, work)


def test_without_an_answer_of_the_server_a_model_is_used_and_the_doubt_about_it_told(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        run.server.close()
        for name, hint in (
            ("nosuch", "known models are opus, sonnet, haiku"),
            ("claude-sonet-5-5", "did you mean claude-sonnet-5-5?"),
        ):
            text = await run.do(f"/model {name}")
            assert text.startswith(f"the model is now {name}\n")
            assert f"cannot ask {run.server.base_url} whether it has this model; {hint}" in text
        assert await run.do("/model haiku") == "the model is now claude-haiku-5-5"

    run_controller(tmp_path, work)


def test_a_model_that_the_service_does_not_have_is_refused_with_the_nearest(tmp_path: Path) -> None:
    async def ask(server: Server) -> None:
        model = AnthropicModel(server.base_url, "test-key-12345", assume_official=True)
        selection = ModelSelection(model, "", time.time, None)
        try:
            with pytest.raises(
                UsageError, match=r"unknown model 'claude-opus-5\.5'; did you mean claude-opus-5-5"
            ):
                await selection.choose("claude-opus-5.5")
            assert selection.facts.id == "claude-sonnet-5-5"
            await selection.choose("opus")
            assert selection.facts.id == "claude-opus-5-5"
        finally:
            await model.close()

    with Server(demo_reply) as server:
        asyncio.run(ask(server))


def test_the_demo_offers_no_other_model_and_has_no_list_prices(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert "list prices" not in await run.do("hello", "/cost")
        assert "cannot change the model with --offline" in await run.do("/model opus")
        assert run.controller.status().model == "makeroom-offline"

    run_controller(tmp_path, work, offline=True)


def test_an_effort_is_kept_for_new_sessions(tmp_path: Path) -> None:
    path = tmp_path / "config" / "settings.toml"

    async def work(run: ControllerRun) -> None:
        told = await run.do("/effort --save low")
        assert "the effort is now low" in told
        assert told.endswith(f'wrote effort = "low" to {path}; new sessions use it')
        await run.do("/effort high")
        assert path.read_text() == 'effort = "low"\n'
        assert 'wrote effort = "high"' in await run.do("/effort --save")

    run_controller(tmp_path, work, configured={"user_dir": path.parent})


def test_a_setting_that_a_file_or_a_flag_sets_is_not_said_to_be_overridden_by_the_environment(
    tmp_path: Path,
) -> None:
    async def work(run: ControllerRun) -> None:
        for line in ("/model haiku --save", "/effort low --save"):
            told = await run.do(line)
            assert f"wrote {line[1:6]}" in told and "environment" not in told

    origins = {"model": "/home/u/settings.toml", "effort": "/home/u/settings.toml"}
    configured = {"user_dir": tmp_path / "config", "origins": origins}
    run_controller(tmp_path, work, configured=configured, model="claude-opus-5-5", effort="high")


def test_effort_goes_out_with_the_next_request_and_thinking_stays_valid(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert "the default of the model" in await run.do("/effort")
        await run.do("hello", "/effort low", "hello again")
        assert "the effort is low" in await run.do("/thinking")
        assert "| low | medium | high |" in await run.do("/effort much")
        await run.do("/clear", "hello")

    server = run_controller(tmp_path, work)
    efforts = [body.get("output_config", {}).get("effort") for body in server.requests]
    assert efforts == [None, "low", "low"]


@pytest.mark.parametrize("given", ["flag", "setting", "command"])
def test_without_effort_the_model_does_not_think_first_and_nothing_is_asked_of_it(
    tmp_path: Path, given: str
) -> None:
    async def work(run: ControllerRun) -> None:
        if given == "command":
            await run.do("/effort off")
        assert "the effort is off (" in await run.do("hello", "/effort")
        assert "the effort is now high" in await run.do("/clear", "hello", "/effort high")
        await run.do("hello")

    effort = {"effort": "off"} if given == "flag" else {}
    configured = {"effort": "off"} if given == "setting" else {}
    server = run_controller(tmp_path, work, configured=configured, model="claude-sonnet-4-6", **effort)
    asked = [(body.get("thinking"), body.get("output_config", {}).get("effort")) for body in server.requests]
    assert asked == [(None, None), (None, None), ({"type": "adaptive", "display": "summarized"}, "high")]


def test_effort_of_a_model_without_it_is_refused(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert "claude-haiku-4-5 does not support it" in await run.do(
            "/model claude-haiku-4-5", "/effort low"
        )
        await run.do("hello")

    run_controller(tmp_path, work)


def test_config_reports_where_each_setting_was_set(tmp_path: Path) -> None:
    user, project = tmp_path / "xdg" / "makeroom" / "settings.toml", tmp_path / ".makeroom" / "settings.toml"
    for path, text in (
        (
            user,
            'model = "haiku"\nmax_tokens = 9000\ndeny = ["bash(rm *)"]\n[compact]\ntrigger = 90000\n'
            '[[hooks.PreToolUse]]\nmatcher = "Bash"\nhooks = [{command = "guard.sh", if = "Bash(rm *)"}]\n',
        ),
        (project, 'max_tokens = 8000\ndeny = ["bash(git push)"]\nmodel = "opus"\n'),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text, "utf-8")
    environ = {
        "XDG_CONFIG_HOME": str(tmp_path / "xdg"),
        "MAKEROOM_POLICY": "classic",
        "ANTHROPIC_API_KEY": "sk-secret-value",
    }

    async def work(run: ControllerRun) -> None:
        run.controller.setup = replace(run.controller.setup, config=load_config(environ, tmp_path, tmp_path))
        run.controller.in_use[1].compaction.settings = run.controller.setup.compact_settings()
        assert "asks only before irreversible actions" in await run.do("/permissions mode bypassPermissions")
        text = await run.do("/permissions mode dontAsk", "/effort max", "/config")
        rows = dict(line.split(maxsplit=1) for line in text.splitlines() if "  " in line)
        assert rows["max_tokens"] == f"8000  ({project})"
        assert rows["deny"] == f"bash(rm *), bash(git push)  ({user}, {project})"
        assert rows["compact.policy"] == "classic  (MAKEROOM_POLICY)"
        assert rows["compact.trigger"] == f"90000  ({user})"
        assert rows["key"] == "set  (ANTHROPIC_API_KEY)" and "secret-value" not in text
        assert rows["context_window"] == "200000  (--context-window)"
        assert rows["permission_mode"] == "dontAsk  (Shift+Tab or /permissions)"
        assert rows["effort"] == "max  (/effort)" and rows["cache"] == "5m  (default)"
        assert "PreToolUse  Bash  if Bash(rm *): guard.sh  (" in await run.do("/hooks")
        assert "!!  hook PreToolUse: guard.sh does not exist" in await run.do("/doctor")

    run_controller(tmp_path, work)


def test_config_takes_a_name_and_a_value(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert 'wrote theme = "dark" to ' in await run.do("/config theme dark")
        assert run.emitted(ScreenSetting) == [ScreenSetting("theme", "dark")]
        assert "cannot set theme to 'pink': it must be one of auto, dark, " in await run.do(
            "/config theme pink"
        )
        assert "mode   acceptEdits: " in await run.do("/config permission_mode acceptEdits")
        assert "the effort is now low" in await run.do("/config effort low")
        assert "setting  off" in await run.do("/config sandbox off")
        assert "cannot set sandbox to 'purple': it must be one of auto, require, off" in await run.do(
            "/config sandbox purple"
        )
        shown = await run.do("/permissions mode manual")
        assert "mode   manual: asks before edits, and before commands that are not read-only" in shown
        assert "outside the sandbox" not in shown
        told = await run.do("/config notify")
        assert "notify = true (default); it takes true or false" in told and "permanently" in told
        assert "and restart" in await run.do("/config notify false")
        assert await run.do("/config notify perhaps") == "notify must be true or false, not 'perhaps'"
        told = await run.do("/config editing")
        assert "editing = emacs (default); it takes one of emacs, vim" in told
        assert told.endswith("use /config editing VALUE to change it")
        assert "use /permissions deny RULE to add one" in await run.do("/config deny")
        told = await run.do("/config key sk-123456789")
        assert told == "set ANTHROPIC_API_KEY in the environment and restart"
        assert await run.do("/config them") == "unknown setting 'them'; did you mean theme?"
        assert "did you mean compact.trigger?" in await run.do("/config compact.triger 3")
        assert await run.do("/config zzzz 1") == "unknown setting 'zzzz'; run /config to list the settings"
        chooser = run.controller.chooser = ScriptedChooser("light", "vim", "mode manual", "")
        assert 'wrote theme = "light" to ' in await run.do("/config theme")
        await run.do("/config editing")
        saved = run.controller.setup.config.settings_path.read_text()
        assert sorted(saved.splitlines()) == ['editing = "vim"', 'theme = "light"']
        assert run.emitted(ScreenSetting) == [ScreenSetting("editing", "vim")]
        assert "mode   manual" in await run.do("/config permission_mode")
        assert await run.do("/config effort") == "" and len(chooser.menus) == 4

    run_controller(tmp_path, work)


def test_limits_are_changed_within_a_session_and_hold_in_the_next(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("hello")
        told = await run.do("/config trigger 90_000")
        assert told.startswith(
            "compact.trigger = 90000 (/config); to keep it, add `trigger = 90_000` in [compact] to /"
        )
        assert 'to keep it, add `cache = "5m"` to /' in await run.do("/config cache 5m")
        await run.do("/config compact.policy classic", "/config max_tokens 4000", "/config cache 1h")
        await run.do("/config context_window 100_000", "hello")
        assert run.server.requests[-1]["max_tokens"] == 4000
        assert b'"ttl": "1h"' in json.dumps(run.server.requests[-1]).encode()
        shown = await run.do("/clear", "/config")
        state = run.controller.in_use[1].compaction
        assert (state.settings.policy, state.settings.trigger) == ("classic", 90_000)
        assert state.window.size == 100_000
        assert re.search(r"^context_window +100000 +\(/config\)$", shown, re.MULTILINE)
        whole = "an integer of 0 or more"
        assert await run.do("/config trigger much") == f"[compact] trigger must be {whole}, not 'much'"
        assert await run.do("/config cache 2h") == "cache must be one of 5m, 1h, not '2h'"
        assert run.controller.in_use[1].compaction.settings.trigger == 90_000
        assert "cannot work with context_window = 100 (" in await run.do("/config context_window 100")
        assert run.controller.services.setup.given_window == 100_000

    run_controller(tmp_path, work, policy="thrifty")


def test_every_setting_is_listed_and_reported_with_what_it_takes(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        names = {line.split()[0] for line in (await run.do("/config")).splitlines() if "  (" in line}
        assert names >= KNOWN_SETTINGS.keys() - {"compact"}
        for name in sorted(names - SECRET_SETTINGS.keys()):
            assert await run.do(f"/config {name}"), name
        assert "hooks is not set; it takes a table" in await run.do("/config hooks")
        assert "micro_min_chars = 120 (default); it takes an integer" in await run.do(
            "/config micro_min_chars"
        )

    run_controller(tmp_path, work)


def test_a_script_sets_nothing_by_config(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert "use a flag, the environment or a settings file" in await run.do(
            "/config permission_mode bypassPermissions"
        )
        assert run.controller.in_use[1].permissions.rules.mode == "manual"
        assert "compact.policy" in await run.do("/config")

    run_controller(tmp_path, work, headless=True)


def test_a_command_line_is_explained_by_its_simple_commands(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("/permissions deny bash(curl)")
        text = await run.do("/permissions explain git status && pytest -q; sudo curl 'a b' | sh")
        assert text.splitlines()[0] == "deny: the rule bash(curl) denies this"
        assert re.search(r"git status +it is read-only\n", text)
        assert re.search(r"pytest -q +the rule bash\(pytest\) allows this\n", text)
        assert re.search(r"curl 'a b' +the rule bash\(curl\) denies this\n", text)
        assert "it may run other commands that cannot be determined from the line" in text
        text = await run.do("/permissions explain $x y > f")
        assert '"always" would add bash(=$x y > f)' in text
        assert re.search(r"… y > f +the rule bash\(curl\) may deny this", text)
        text = await run.do("/permissions explain cd .. && rm -rf *")
        assert "ask: it removes a directory above the project" in text
        assert re.search(r"rm -rf \* +it removes a directory above the project", text)
        text = await run.do("/permissions explain git log --output=x")
        assert "git log --output=x  --output is not known to be read-only" in text
        assert "| explain LINE]" in await run.do("/permissions explain")

    run_controller(tmp_path, work, allowed_tools=("bash(pytest)",))


def test_a_settings_file_that_does_not_exist_is_shown_as_such(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        path = run.controller.setup.config.user_dir / "settings.toml"
        for command in ("/status", "/config"):
            assert f"{path} (not created yet)" in await run.do(command)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        assert str(path) in (shown := await run.do("/status")) and "not created" not in shown

    run_controller(tmp_path, work)


def test_the_status_names_the_window_and_where_its_size_comes_from(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert "window      50,000 tokens (from --sample)" in await run.do("/status")
        assert re.search(r"context_window +50000  \(--sample\)", await run.do("/config"))
        run.controller.in_use[1].compaction.window_source = ""
        assert "tokens (assumed, set it with --context-window)" in await run.do("/status")

    run_controller(tmp_path, work, context_window=50_000, window_flag="--sample")


def test_the_status_says_what_the_server_was_seen_to_cache(tmp_path: Path) -> None:
    def uncached(body: dict[str, Any]) -> Any:
        cached = dict.fromkeys(("cache_read_input_tokens", "cache_creation_input_tokens"), 0)
        return Answer([says("yes")], usage={"input_tokens": 9_000, **cached})

    async def work(run: ControllerRun) -> None:
        assert "cache       not known until the server has answered" in await run.do("/status")
        await run.do(*["go on"] * (MIN_MISSES + 1))
        assert "cache       none: the server reports no cached tokens" in await run.do("/status")

    run_controller(tmp_path, work, respond=uncached)


def test_a_model_that_retires_soon_is_reported_at_the_start(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        services = run.controller.services
        facts = services.selection.facts
        for days, is_announced in ((-3, True), (59, True), (62, False)):
            date = datetime.fromtimestamp(run.controller.setup.clock.now() + days * 86_400, UTC).date()
            services.selection.facts = replace(facts, retires_on=date.isoformat())
            services.warn_of_retirement()
            when = "was to retire" if days < 0 else "is scheduled to retire"
            told = f"{facts.id} {when} on {date}; change the model with /model"
            assert (told in run.text()) == is_announced
        setup = services.setup
        services.setup = replace(setup, options=replace(setup.options, headless=True))
        services.selection.facts = replace(facts, retires_on="2020-01-01")
        services.warn_of_retirement()
        assert "was to retire on 2020-01-01; change the model with --model" in run.text()

    run_controller(tmp_path, work)


def test_a_window_that_is_set_larger_than_the_server_reported_is_reported_and_corrected_for_good(
    tmp_path: Path,
) -> None:
    files(tmp_path, 8)

    async def work(run: ControllerRun) -> None:
        told = "set to 60,000 tokens, but the server reports 20,000 (/v1/models: max_input_tokens)"
        assert run.text().count(told) == 1
        assert run.controller.in_use[1].compaction.window.size == 60_000
        await run.do(READ_ALL)
        assert run.controller.in_use[1].compaction.window.size == 20_000
        await run.do("/clear", "what can you do?")
        assert run.controller.in_use[1].compaction.window.size == 20_000
        assert "20,000 tokens (from an error message of the server)" in await run.do("/status")
        assert "cannot work with context_window = 100 (" in await run.do("/config context_window 100")
        assert run.controller.services.window == 20_000
        told = await run.do("/config context_window 40000")
        assert (
            "the context window is set to 40,000 tokens, but the server reports 20,000 (an error message of"
            in told
        )
        assert run.controller.in_use[1].compaction.window.size == 40_000

    run_controller(tmp_path, work, window=20_000, context_window=60_000)


# 25k tokens, which a clearing that is free leaves alone.
LONG_TEXT = "The parser stays small, and its names are those of the standard. " * 1_500


def test_another_model_is_billed_before_anything_is_sent(tmp_path: Path) -> None:
    files(tmp_path, 2)  # so few that nothing is cleared after the change

    async def work(run: ControllerRun) -> None:
        assert "~$" not in await run.do("/model claude-opus-5-5"), "there is nothing to be written anew yet"
        await run.do(f"remember:\n{LONG_TEXT}", READ_ALL)
        told = await run.do("/model claude-sonnet-5-5")
        billed = present(re.search(r"caches ([\d,]+) tokens again \(~\$([\d.]+)\)", told))
        tokens, dollars = billed.groups()
        await run.do("how many files are there?")
        facts = run.controller.in_use[0].folded.facts
        changed = next(fact.seq for fact in reversed(facts) if isinstance(fact, Opened))
        first = next(fact for fact in facts if isinstance(fact, Reply) and fact.seq > changed)
        prices = PRICES_BY_MODEL["claude-sonnet-5-5"]
        paid = prices.dollars(prices.plain(first.usage))
        assert abs(int(tokens.replace(",", "")) - first.usage.prompt) < 0.05 * first.usage.prompt
        assert abs(float(dollars) - paid) < max(0.006, 0.05 * paid)

    run_controller(tmp_path, work)


def test_what_was_just_compacted_is_not_said_to_cost_less_by_compacting(tmp_path: Path) -> None:
    files(tmp_path, 30, 300)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL, "/compact")
        told = await run.do("/model claude-opus-5-5")
        assert "tokens again" in told and "; run /clear to start over" in told and "/compact" not in told
        assert "earlier thinking is no longer" not in told  # the record of the summary has none

    run_controller(tmp_path, work)


def test_another_model_says_nothing_of_thinking_where_there_is_none(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("hello")
        told = await run.do("/model claude-opus-5-5") + await run.do("and now?")
        assert "thinking" not in told
        assert present(run.controller.in_use[0].folded.opened).model == "claude-opus-5-5"

    run_controller(tmp_path, work, respond=lambda body: Answer([says("well")]))


@pytest.mark.parametrize("told", [False, True], ids=["as it was", "told otherwise"])
def test_a_session_continues_with_its_model_and_effort_unless_asked_otherwise(
    tmp_path: Path, told: bool
) -> None:
    sids: list[str] = []

    async def choose(run: ControllerRun) -> None:
        await run.do("hello", "/model claude-opus-5-5", "/effort low", "and now?")
        sids.append(run.controller.in_use[0].sid)

    async def go_on(run: ControllerRun) -> None:
        await run.do("go on")
        body = run.server.requests[-1]
        shown = "claude-sonnet-5-5" if told else "claude-opus-5-5"
        assert (body["model"], body["output_config"]["effort"]) == (shown, "high" if told else "low")
        await run.do("/clear", f"/resume {sids[0]}")
        assert run.controller.in_use[1].settings.model == shown

    run_controller(tmp_path, choose)
    more = {"model": "claude-sonnet-5-5", "effort": "high"} if told else {}
    run_controller(tmp_path, go_on, resume=sids[0], **more)


def test_a_model_chosen_otherwise_is_billed_with_the_prompt_and_once(tmp_path: Path) -> None:
    files(tmp_path, 5)

    async def work(run: ControllerRun) -> None:
        await run.do(f"remember:\n{LONG_TEXT}", READ_ALL)
        session, context = run.controller.in_use
        await run.controller.factory.change_model(session, context, "claude-opus-5-5")  # as --model does
        told = await run.do("how many files are there?" + " Look again." * 50)
        assert told.count("this request caches ") == 1 and "interrupt and run /compact to reduce that" in told
        assert "anew" not in await run.do("and now?")

    run_controller(tmp_path, work)


def test_a_model_an_effort_a_mode_and_a_rule_can_be_chosen_from_lists(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        chooser = run.controller.chooser = ScriptedChooser(
            *(
                "claude-opus-5-5",
                "high",
                "mode plan",
                "remove bash(make)",
                "",
                "permission_mode",
                "mode manual",
            ),
            *("theme", "light", "model", "claude-haiku-5-5", ""),
        )
        assert "the model is now claude-opus-5-5" in await run.do("/model")
        assert "the effort is now high" in await run.do("/effort")
        assert "mode   plan" in await run.do("/permissions")
        assert "removed allow bash(make)" in await run.do("/permissions allow bash(make)", "/permissions")
        assert await run.do("/model") == ""
        assert "mode   manual" in await run.do("/config")
        assert 'wrote theme = "light" to ' in await run.do("/config")
        themes = chooser.menus[-1]
        assert themes.rows[themes.at].value == "auto"
        assert "the model is now claude-haiku-5-5" in await run.do("/config")
        await run.do("/theme")
        themes = chooser.menus[-1]
        assert themes.rows[themes.at].value == "light" and "current" in themes.rows[themes.at].facts
        models, efforts, modes, rules, *_ = chooser.menus
        assert models.rows[models.at].value == "claude-sonnet-5-5"
        assert {row.title for row in efforts.rows} == {"off", "low", "medium", "high", "xhigh", "max"}
        assert "mode acceptEdits" in {row.title for row in modes.rows}
        assert "allow bash(make)" in {row.title for row in rules.rows}

    run_controller(tmp_path, work)
