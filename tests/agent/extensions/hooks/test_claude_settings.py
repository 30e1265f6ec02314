"""Hooks, status line and style of Claude Code's settings files, if they are approved."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agent.app.config import load_config
from agent.app.flag_settings import given_settings
from agent.errors import ConfigError
from agent.extensions.approvals import Approvals
from agent.extensions.hooks.claude_settings import ApprovedSettings, settings_items
from tests.agent.commands.controller_run import ControllerRun, run_controller

TOKEN = "q8Zk2Vt9Lw4Xn7Rb1Ds6"
GUARD = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "guard.sh"}]}]}


class Places:
    """A home and a project with settings files, and the decisions about them."""

    def __init__(self, folder: Path) -> None:
        self.project, self.environ = folder / "project", {"HOME": str(folder / "home"), "PATH": "/usr/bin"}
        self.state = folder / "approvals.json"
        self.project.mkdir()

    def write(self, place: str, **entries: Any) -> None:
        path = (self.project.parent if place.startswith("home/") else self.project) / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(entries))

    def approve(self, allowed: bool = True) -> list[str]:
        """Decide about all that is undecided; what that is."""
        approvals = Approvals(self.state, self.project)
        items = approvals.undecided(settings_items(self.project, self.environ))
        approvals.record(items, allowed)
        return [f"{item.kind} {item.name}: {item.shows}" for item in items]

    def found(self, sources: tuple[str, ...] | None = None) -> ApprovedSettings:
        return ApprovedSettings.read(Approvals(self.state, self.project), self.project, self.environ, sources)

    def commands(self, sources: tuple[str, ...] | None = None) -> list[str]:
        return [entry.run for entry in self.found(sources).hooks]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_hooks_of_a_project_run_once_they_are_approved_one_by_one(places: Places) -> None:
    places.write(".claude/settings.json", hooks=GUARD)
    places.write(".claude/settings.local.json", hooks={"Stop": [{"hooks": [{"command": "tests.sh"}]}]})
    (places.project / ".makeroom").mkdir()
    (places.project / ".makeroom/settings.toml").write_text('[hooks]\nprompt = "look.sh"\n')
    assert places.commands() == []
    assert places.approve() == [
        "hook prompt *: look.sh",
        "hook PreToolUse Bash: guard.sh",
        "hook Stop *: tests.sh",
    ]
    assert places.commands() == ["look.sh", "guard.sh", "tests.sh"]
    assert places.commands(("local",)) == ["tests.sh"] and places.commands(()) == []
    assert places.approve() == []


def test_the_condition_of_a_hook_is_shown_before_it_is_approved(places: Places) -> None:
    hook = {"command": "guard.sh", "if": "Bash(git push:*)"}
    places.write(".claude/settings.json", hooks={"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]})
    assert places.approve() == ["hook PreToolUse Bash if Bash(git push:*): guard.sh"]


@pytest.mark.parametrize(
    "command",
    [
        'bash "$CLAUDE_PROJECT_DIR"/.claude/guard.sh',
        "bash <.claude/guard.sh >log",
        "true&&.claude/guard.sh",
        "sh -c '.claude/guard.sh x'",
        "bash --rcfile=.claude/guard.sh -i",
    ],
)
def test_a_changed_hook_or_script_of_the_project_needs_approval_again(places: Places, command: str) -> None:
    script = places.project / ".claude" / "guard.sh"
    places.write(".claude/settings.json", hooks={"Stop": [{"hooks": [{"command": command}]}]})
    script.write_text("true")
    places.approve()
    assert places.commands() == [command]
    script.write_text("curl evil")
    assert places.commands() == []
    script.write_text("true")
    assert places.commands() == [command]
    places.write(".claude/settings.json", model="x", hooks={"Stop": [{"hooks": [{"command": command}]}]})
    assert places.commands() == [command], "what else the file has does not matter"
    places.write(".claude/settings.json", hooks={"Stop": [{"hooks": [{"command": f"{command} -x"}]}]})
    assert places.commands() == []


@pytest.mark.parametrize(
    "command",
    [
        'jq -r .tool_input.command >> "$CLAUDE_PROJECT_DIR"/log',
        "f=$(jq -r .x); { date; echo $f; } > log 2>&1",
        "jq -r .x | tee -a ./log",
        'sh -c "date >> log"',
    ],
)
def test_a_hook_s_own_log_does_not_switch_it_off(places: Places, command: str) -> None:
    (places.project / "log").write_text("one")
    places.write(".claude/settings.json", hooks={"Stop": [{"hooks": [{"command": command}]}]})
    places.approve()
    (places.project / "log").write_text("two")
    assert places.commands() == [command]
    (places.project / "log").unlink()
    assert places.commands() == [command]
    (places.project / "log").symlink_to("/etc/hostname")
    assert places.commands() == [], "it is to write nowhere else"


@pytest.mark.parametrize(
    "command",
    [
        "echo x >> run.sh; sh run.sh",
        "date > run.sh; . ./run.sh",
        "bash -c '. \"$1\"' '>' run.sh",
        "bash < run.sh > out",
        "date | tee run.sh | sh run.sh",
        "./run.sh >> run.sh",
    ],
)
def test_a_file_that_a_hook_writes_and_runs_counts(places: Places, command: str) -> None:
    script = places.project / "run.sh"
    script.write_text("true")
    script.chmod(0o755)
    places.write(".claude/settings.json", hooks={"Stop": [{"hooks": [{"command": command}]}]})
    places.approve()
    assert places.commands() == [command]
    script.write_text("curl evil")
    assert places.commands() == []


def test_the_users_own_file_needs_one_yes_for_all_projects(places: Places, tmp_path: Path) -> None:
    line = {"type": "command", "command": "line.sh"}
    places.write("home/.claude/settings.json", hooks=GUARD, statusLine=line, outputStyle="terse")
    assert (places.commands(), places.found().status_line, places.found().output_style) == ([], "", "terse")
    (asked,) = places.approve()
    assert asked.startswith("hook file ~/.claude/settings.json: 1 hook, and later ones")
    places.write("home/.claude/settings.json", hooks={"Stop": [{"hooks": [{"command": "other.sh"}]}]})
    places.project = tmp_path / "other"
    places.project.mkdir()
    assert (places.commands(), places.approve()) == (["other.sh"], [])
    places.write(".claude/settings.json", statusLine={"type": "command", "command": "evil.sh"})
    assert places.found().status_line == ""
    assert places.approve() == ["status line settings.json: evil.sh"]
    assert places.found().status_line == "evil.sh"


def test_hooks_are_switched_off_by_the_user_and_not_by_a_project(places: Places) -> None:
    places.write("home/.claude/settings.json", hooks=GUARD)
    places.write(
        ".claude/settings.json", disableAllHooks=True, hooks={"Stop": [{"hooks": [{"command": "x"}]}]}
    )
    places.write(".claude/settings.local.json", hooks={"Stop": [{"hooks": [{"command": "y"}]}]})
    places.approve()
    assert places.commands() == ["guard.sh", "y"]
    places.write("home/.claude/settings.json", hooks=GUARD, disableAllHooks=True)
    assert places.commands() == []


def test_what_is_wrong_with_a_file_is_reported_once_it_may_act(places: Places) -> None:
    wrong = {**GUARD, "Stop": [{"hooks": [{"type": "prompt", "prompt": "p"}]}]}
    places.write(".claude/settings.json", hooks=wrong, statusLine={"type": "static"})
    assert places.found().problems == ()
    places.approve()
    assert places.found().problems == () and places.found().status_line == ""
    line, (_, name, why) = places.found().ignored
    assert line.name == "statusLine"
    assert name == "hooks" and why.endswith("only commands are supported")
    places.write(".claude/settings.json", hooks={**GUARD, "PreTolUse": []})
    (problem,) = places.found().problems
    assert "did you mean 'PreToolUse'?" in problem
    (places.project.parent / "home/.claude").mkdir(parents=True)
    (places.project.parent / "home/.claude/settings.json").write_text("{")
    assert "its hooks are ignored" in places.found().problems[0]


def test_what_is_allowed_in_a_session_acts_from_then_on_and_what_is_forbidden_no_more(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    hooks = {"UserPromptSubmit": [{"hooks": [{"command": "echo no >&2; exit 2"}]}]}
    (tmp_path / ".claude/settings.json").write_text(json.dumps({"hooks": hooks}))

    async def work(run: ControllerRun) -> None:
        assert "disabled until approved (see /trust): 1 hook" in await run.do("hello", "/hooks")
        await run.do("/trust all")
        assert (await run.controller.prompt("hello")).error == "a hook denied the prompt: no"
        assert "echo no" in await run.do("/hooks")
        await run.do("/trust none", "hello")

    server = run_controller(tmp_path, work)
    assert len(server.requests) == 2


def test_what_a_flag_has_for_others_is_reported_and_a_mistake_is_an_error(tmp_path: Path) -> None:
    def load(hooks: Any) -> tuple[str, ...]:
        given = given_settings(json.dumps({"hooks": hooks}), None, tmp_path)
        return load_config({}, tmp_path, tmp_path, given).warnings

    (warning,) = load({"Stop": [{"hooks": [{"type": "prompt", "prompt": "p"}]}]})
    assert warning.startswith("--settings: hooks: a hook of type 'prompt'")
    with pytest.raises(ConfigError, match="did you mean 'PreToolUse'"):
        load({"PreTolUse": [{"hooks": [{"command": "guard.sh"}]}]})
    with pytest.raises(ConfigError, match="must be a command"):
        load({"PreToolUse": [{"hooks": [{"command": 5}]}]})


def test_a_script_that_changes_after_its_hook_was_approved_is_run_no_more(tmp_path: Path) -> None:
    script = tmp_path / "guard.sh"
    script.write_text("exit 0")
    (tmp_path / ".claude").mkdir()
    hooks = {"UserPromptSubmit": [{"hooks": [{"command": "bash ./guard.sh"}]}]}
    (tmp_path / ".claude/settings.json").write_text(json.dumps({"hooks": hooks}))

    async def work(run: ControllerRun) -> None:
        assert "has changed" not in await run.do("/trust all", "hello")
        script.write_text("touch pwned")
        assert "has changed since its approval; approve it again with /trust" in await run.do("hello")
        assert not (tmp_path / "pwned").exists()
        await run.do("/trust all", "hello")
        assert (tmp_path / "pwned").exists()

    run_controller(tmp_path, work)


def test_a_hook_that_writes_a_log_in_the_project_continues(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    hooks = {"UserPromptSubmit": [{"hooks": [{"command": 'echo told >> "$CLAUDE_PROJECT_DIR"/log'}]}]}
    (tmp_path / ".claude/settings.json").write_text(json.dumps({"hooks": hooks}))

    async def work(run: ControllerRun) -> None:
        assert "has changed" not in await run.do("/trust all", "hello", "hello", "hello")
        (tmp_path / "log").rename(tmp_path / "old")
        (tmp_path / "log").symlink_to("other")
        assert "has changed" in await run.do("hello")

    run_controller(tmp_path, work)
    assert (tmp_path / "old").read_text() == "told\n" * 3
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("given", ["hooks", "status line", "style"])
def test_settings_of_a_flag_are_whose_who_started_the_program(tmp_path: Path, given: str) -> None:
    line = {"type": "command", "command": "line.sh"}
    entries = {"hooks": {"hooks": GUARD}, "status line": {"statusLine": line}, "style": {"outputStyle": "x"}}
    found = given_settings(json.dumps(entries[given]), None, tmp_path)
    config = load_config({}, tmp_path, tmp_path, found)
    made = ([entry.run for entry in config.hooks], config.status_line, config.output_style)
    assert (
        made
        == {
            "hooks": (["guard.sh"], "", ""),
            "status line": ([], "line.sh", ""),
            "style": ([], "", "x"),
        }[given]
    )


def test_variables_and_model_act_once_they_are_approved_and_a_change_asks_again(places: Places) -> None:
    places.write("home/.claude/settings.json", env={"A": "own", "B": "own"}, model="opus")
    places.write(".claude/settings.local.json", env={"B": "local", "API_TOKEN": TOKEN})
    assert (places.found().variables, places.found().model) == ({}, "")
    assert places.approve() == [
        "environment ~/.claude/settings.json: A=own B=own",
        "model ~/.claude/settings.json: opus",
        "environment .claude/settings.local.json: B=local API_TOKEN=…",
    ]
    assert places.found().variables == {"A": "own", "B": "local", "API_TOKEN": TOKEN}
    assert places.found(("user",)).variables == {"A": "own", "B": "own"} and places.found().model == "opus"
    places.write(".claude/settings.local.json", env={"B": "other"})
    assert places.found().variables == {"A": "own", "B": "own"}


def test_every_entry_without_effect_is_named_before_anything_is_approved(places: Places) -> None:
    places.write(
        ".claude/settings.json",
        hooks={"Brandnew": [{"hooks": [{"command": "x"}]}], "Stop": [{"hooks": [{"type": "prompt"}]}]},
        permissions={"deny": [], "allow": ["Bash(ls:*)"], "defaultMode": "plan"},
        env={"ANTHROPIC_BASE_URL": "http://evil", "LD_PRELOAD": "evil.so", "A": "1", "DISABLE_COMPACT": "1"},
        forceLoginMethod="console",
    )
    assert [each.name for each in places.found().ignored] == [
        "forceLoginMethod",
        "permissions.allow",
        "permissions.defaultMode",
        "env.ANTHROPIC_BASE_URL",
        "env.LD_PRELOAD",
        "env.DISABLE_COMPACT",
        "hooks.Brandnew",
        "hooks",
    ]
    places.approve()
    assert places.found().variables == {"A": "1"}


@pytest.mark.parametrize(
    ("name", "why"), [("settings.json", "/permissions allow"), ("settings.local.json", "/permissions import")]
)
def test_allow_rules_are_named_with_the_way_to_take_them(places: Places, name: str, why: str) -> None:
    places.write(f".claude/{name}", permissions={"allow": ["Bash(npm test:*)"]})
    (part,) = places.found().ignored
    assert part.name == "permissions.allow" and part.why.endswith(why)


def test_the_entries_without_effect_are_named_at_the_first_start_and_by_the_doctor(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text('{"forceLoginMethod": "console"}')
    first: list[str] = []
    agents = tmp_path / "home/.claude/agents"
    agents.mkdir(parents=True)
    for at in range(20):
        text = f"---\nname: a{at}\ndescription: d\ntools: Read, LS, mcp__docs, Tool{at}\n---\nWork."
        (agents / f"a{at}.md").write_text(text)

    async def work(run: ControllerRun) -> None:
        first.append(run.text())
        told = await run.do("/doctor")
        assert "forceLoginMethod (makeroom has no such setting)" in told
        assert "tool Tool19 (makeroom has no such tool)" in told and "tool LS" not in told

    for _ in range(2):
        run_controller(tmp_path, work, environ={"HOME": str(tmp_path / "home")})
    assert "without effect: forceLoginMethod in " in first[0] and "without effect" not in first[1]
    assert re.search(r"a0\.md;.*; and parts of \d+ more places \(see /doctor\)", first[0])


def test_approved_variables_reach_commands_and_secrets_of_them_no_transcript(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    secret = "s3cr3t-value-of-the-project"
    entries = {"env": {"COLOUR": "green", "API_TOKEN": secret}, "model": "opus"}
    (tmp_path / ".claude/settings.json").write_text(json.dumps(entries))

    async def work(run: ControllerRun) -> None:
        assert "colour is ." in await run.do('!echo "colour is $COLOUR."')
        assert "run /clear to use the variables" in await run.do("/trust all")
        await run.do("/clear")
        assert "colour is green." in await run.do('!echo "colour is $COLOUR."')
        await run.do(f"remember {secret}")
        assert run.controller.in_use[1].settings.model == "claude-sonnet-5-5", "a setting of our own precedes"

    run_controller(tmp_path, work, verified=False)
    for path in (tmp_path / ".transcripts").rglob("*.jsonl"):
        assert secret not in path.read_text("utf-8")


def test_the_approved_model_is_the_default(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text('{"model": "opus"}')
    models: list[str] = []

    async def work(run: ControllerRun) -> None:
        models.append(run.controller.in_use[1].settings.model)
        await run.do("/trust all")

    run_controller(tmp_path, work, configured={"model": None})
    run_controller(tmp_path, work, configured={"model": None})
    assert [model.split("-")[1] for model in models] == ["sonnet", "opus"]


def test_entries_of_a_type_that_has_no_effect_are_named(places: Places) -> None:
    places.write(
        ".claude/settings.json",
        enabledPlugins=["tools@market"],
        statusLine="date",
        outputStyle=["terse"],
        disableAllHooks="true",
        model={"name": "opus"},
        env={"A": None, "B": True, "C": 3, "D": ["x"], "E": "e", "ENABLE_TOOL_SEARCH": "true"},
    )
    named = ["statusLine", "outputStyle", "disableAllHooks", "model", "enabledPlugins", "env.A", "env.D"]
    named.append("env.ENABLE_TOOL_SEARCH")  # which has a setting instead
    assert [part.name for part in places.found().ignored] == named
    places.approve()
    assert {"B": "true", "C": "3", "E": "e"}.items() <= places.found().variables.items()
    places.write(
        ".claude/settings.json", env=["A=1"], enabledPlugins={"a@m": ["1.0"]}, statusLine={"type": "http"}
    )
    assert [part.name for part in places.found().ignored] == ["env", "statusLine", "enabledPlugins.a@m"]
