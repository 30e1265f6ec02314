"""The rules of a session, and those that are kept for a project in a file."""

from multiprocessing import get_context
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.app.config import Config
from agent.app.options import Options
from agent.app.permission_loading import permission_store
from agent.app.setup import RunSetup
from agent.errors import ConfigError
from agent.permissions.modes import Mode
from agent.permissions.permission_store import (
    SESSION_ORIGIN,
    PermissionStore,
    drop_rule,
    store_rule,
    stored_openings,
    stored_places,
    stored_rules,
)
from agent.permissions.rule_syntax import OPENING, Rule, parse_rules
from agent.permissions.rules import PermissionRules, judge_call
from agent.permissions.sandbox_settings import SandboxSettings
from agent.settings_files import permissions_path
from agent.shell import KnownPrograms
from tools.base import Access

LOG, PUSH = Rule("bash", "git log", "a flag"), Rule("bash", "git push", "a flag")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return permissions_path(tmp_path / "user", tmp_path / "project")


def origins(rules: tuple[Rule, ...]) -> list[tuple[str, str]]:
    return [(str(rule), rule.origin) for rule in rules]


def test_rules_added_in_a_session_say_so_and_end_with_it(path: Path) -> None:
    store = PermissionStore(PermissionRules(), path)
    store.allow(LOG)
    store.deny(PUSH)
    store.set_mode("dontAsk")
    assert origins(store.rules.allow) == [("bash(git log)", SESSION_ORIGIN)]
    assert origins(store.rules.deny) == [("bash(git push)", SESSION_ORIGIN)]
    assert store.rules.mode == "dontAsk" and stored_rules(path) == () and not path.exists()


def test_a_permanent_rule_is_in_the_file_once_and_is_removed_from_both(path: Path) -> None:
    store = PermissionStore(PermissionRules(), path)
    for rule in (LOG, PUSH):
        store.allow_always(rule)
    assert origins(store.rules.allow) == origins(stored_rules(path)) != []
    assert all(map(store.is_permanent, store.rules.allow))
    store_rule(path, LOG)
    store.allow(LOG)
    assert not store.is_permanent(store.rules.allow[-1]) and len(stored_rules(path)) == 2
    store.remove(store.rules.allow[0])
    assert stored_rules(path) == (PUSH,)
    assert origins(store.rules.allow) == [("bash(git push)", str(path)), ("bash(git log)", SESSION_ORIGIN)]


def test_two_programs_that_grant_rules_at_once_lose_none(path: Path) -> None:
    """Nor what one of them knows of the programs behind its rules."""

    def grant(name: str) -> None:
        lines = [f"make {name}{number}" for number in range(6)]
        known = {line: KnownPrograms(line) for line in lines}
        store = PermissionStore(PermissionRules(opened=known), path)
        for line in lines:
            store.allow_always(Rule(OPENING, line, exact=True))
            store.let_through("write", f"/srv/{line}")

    both = [get_context("fork").Process(target=grant, args=(name,)) for name in "ab"]
    for each in both:
        each.start()
    for each in both:
        each.join()
    lines = {f"make {name}{number}" for name in "ab" for number in range(6)}
    assert {rule.pattern for rule in stored_rules(path)} == lines == stored_openings(path).keys()
    assert len(stored_places(path)["write"]) == 12


def test_only_the_removed_rule_goes_not_an_equal_one_from_elsewhere(path: Path) -> None:
    flag, own = LOG, Rule("bash", "git log", SESSION_ORIGIN)
    store = PermissionStore(PermissionRules(allow=(flag, own), deny=(flag, own), ask=(flag, own)), path)
    store.remove(own)
    for left in (store.rules.allow, store.rules.deny, store.rules.ask):
        assert origins(left) == [("bash(git log)", "a flag")]


def test_without_a_file_a_permanent_rule_holds_for_the_session() -> None:
    store = PermissionStore(PermissionRules())
    store.allow_always(LOG)
    assert origins(store.rules.allow) == [("bash(git log)", SESSION_ORIGIN)]
    assert not store.is_permanent(store.rules.allow[0])


def test_removing_a_rule_keeps_what_else_is_in_the_file(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text('allow = ["edit, bash(git log)", "no rule?", "write(docs/*)"]\n', "utf-8")
    assert stored_rules(path) == parse_rules("edit, bash(git log), write(docs/*)")
    drop_rule(path, LOG)
    assert stored_rules(path) == parse_rules("edit, write(docs/*)")
    assert '"no rule?"' in path.read_text("utf-8")


def test_any_text_survives_the_file_which_only_its_owner_can_read(path: Path) -> None:
    rules = [Rule("bash", text) for text in ("say über 🐟", "two\tblanks")]
    rules.append(Rule("bash", 'echo "a\\b"', exact=True))
    for rule in rules:
        store_rule(path, rule)
    assert list(stored_rules(path)) == rules
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_cannot_be_read_is_named_and_never_written_over(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("allow = [", "utf-8")
    store = PermissionStore(PermissionRules(), path)
    with pytest.raises(ConfigError, match="correct or remove it"):
        store.allow_always(LOG)
    assert path.read_text("utf-8") == "allow = [" and store.rules.allow == (LOG,)


def test_plan_mode_is_announced_once_and_left_for_a_mode_that_asks(path: Path) -> None:
    store = PermissionStore(PermissionRules("acceptEdits"), path)
    planned: list[bool] = []
    store.on_planning = planned.append
    store.leave_plan()
    modes: tuple[Mode, ...] = ("plan", "plan", "dontAsk", "manual")
    for mode in modes:
        store.set_mode(mode)
    assert planned == [True, False]
    left: list[tuple[bool, Mode, Mode]] = []
    entered: tuple[Mode, ...] = ("manual", "acceptEdits", "dontAsk", "bypassPermissions")
    for before in entered:
        for mode in (before, "plan", "plan"):
            store.set_mode(mode)
        planning = store.planning
        store.leave_plan()
        left.append((planning, store.before_plan, store.rules.mode))
    assert left == [
        (True, "manual", "manual"),
        (True, "acceptEdits", "manual"),
        (True, "dontAsk", "dontAsk"),
        (True, "bypassPermissions", "bypassPermissions"),
    ]


def test_a_path_opened_for_the_sandbox_stays_open_until_it_is_closed_in_the_file_too(path: Path) -> None:
    store = PermissionStore(PermissionRules(), path)
    store.allow_always(LOG)
    store.let_through("write", "/a", "/b")
    store.let_through("write", "/b", "/c")
    store.let_through("read", "/b")
    assert (store.sandbox.write, store.sandbox.read) == (("/a", "/b", "/c"), ("/b",))
    assert stored_places(path) == {"write": ("/a", "/b", "/c"), "read": ("/b",)}
    assert store.close_again("/b") and not store.close_again("/b")
    assert (store.sandbox.write, store.sandbox.read) == (("/a", "/c"), ())
    assert stored_places(path)["write"] == ("/a", "/c") and not stored_places(path).get("read")
    assert stored_rules(path) == (LOG,)
    store.close_again("/a")
    store.close_again("/c")
    assert "sandbox" not in path.read_text("utf-8")


def test_closing_a_path_of_another_settings_file_leaves_the_file_of_grants_alone(path: Path) -> None:
    for at in (path, None):
        store = PermissionStore(PermissionRules(), at, sandbox=SandboxSettings(write=("/a",)))
        assert store.close_again("/a") and store.sandbox.write == ()
        assert not path.exists()
    store.let_through("write", "/b")
    assert store.sandbox.write == ("/b",) and not path.exists()


def test_places_of_the_sandbox_that_are_invalid_allow_nothing(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text('[sandbox]\nwrite = ["~/.cargo"]\n', "utf-8")
    assert stored_places(path)["write"] == ("~/.cargo",)
    path.write_text("[sandbox]\nwrite = 1\n", "utf-8")
    assert stored_places(path) == {}


def test_a_file_instead_of_a_directory_holds_no_rules(tmp_path: Path) -> None:
    (tmp_path / "user").write_text("")
    assert stored_rules(permissions_path(tmp_path / "user", tmp_path)) == ()


def test_the_file_of_a_project_stays_where_it_was_whatever_bytes_its_directory_has(tmp_path: Path) -> None:
    assert permissions_path(tmp_path, Path("/home/me/app")) == tmp_path / "projects" / "fd865ce82eb8c9db.toml"
    no_text = Path("/home/me/\udcff")
    store_rule(permissions_path(tmp_path, no_text), LOG)
    assert stored_rules(permissions_path(tmp_path, no_text)) == (LOG,)


def test_a_line_allowed_outside_the_sandbox_is_remembered_with_what_its_programs_were(tmp_path: Path) -> None:
    """A rule of this project's file is checked against what was kept; one of a flag against the start."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "tool").write_text("echo")
    config = Config(user_dir=tmp_path / "user")

    def answers(*flags: str) -> list[str]:
        setup = RunSetup(Options(allowed_tools=flags), config, folder, {"PATH": "/usr/bin:/bin"})
        rules = replace(permission_store(setup).rules, sandboxed=True)
        verdicts = [judge_call("bash", [Access("run", line)], rules) for line in ("./tool", "./tool x")]
        return [f"{verdict.answer}{' walled' * verdict.sandboxed}" for verdict in verdicts]

    setup = RunSetup(Options(), config, folder, {"PATH": "/usr/bin:/bin"})
    permission_store(setup).allow_always(Rule(OPENING, "./tool"))
    assert answers("open(./tool x)") == ["allow", "allow"]
    (folder / "tool").write_text("echo evil")
    assert answers("open(./tool x)") == ["ask", "allow"]
    assert answers() == ["ask", "allow walled"]
    permission_store(setup).allow_always(Rule(OPENING, "./tool"))
    assert answers() == ["allow", "allow walled"]
