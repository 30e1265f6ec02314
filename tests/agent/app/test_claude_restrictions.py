"""The restrictions and rules that are read from Claude Code's settings files, and what is reported."""

import json
from pathlib import Path

import pytest

from agent.app.claude_restrictions import claude_rules, offered_rules
from agent.app.config import load_config
from agent.app.flag_settings import given_settings
from agent.errors import ConfigError
from agent.permissions import Rule
from tests.tables import each_row


def test_paths_of_allow_rules_begin_where_claude_code_lets_them_begin(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    rules = ["Edit(/src/**)", "Read(//etc/hosts)", "Read(~/notes/*)", "Edit(lib/**)", "Bash(/bin/ls *)"]
    path = tmp_path / ".claude" / "settings.local.json"
    path.write_text(json.dumps({"permissions": {"allow": rules}}))
    found = claude_rules({"HOME": str(tmp_path / "home")}, tmp_path, managed=tmp_path / "none")
    names = ["edit(src/**)", "read(/etc/hosts)", "read(~/notes/*)", "edit(lib/**)", "bash(/bin/ls *)"]
    assert ([str(rule) for rule in found.allow], found.unusable) == (names, ())


def test_rules_about_tools_that_do_not_exist_here_are_reported(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    rules = {"deny": ["PowerShell(rm *)", "LSP", "Bash(rm *)", "PowerShell"], "ask": ["NotebookRemix"]}
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"permissions": rules}))
    found = claude_rules({"HOME": str(tmp_path / "home")}, tmp_path, managed=tmp_path / "none")
    assert [str(rule) for rule in found.deny] == ["Bash(rm *)"] and found.ask == ()
    path = tmp_path / ".claude" / "settings.json"
    assert found.warnings == (
        f"{path}: cannot apply deny rules about PowerShell, LSP: makeroom has no such tool",
        f"{path}: cannot apply ask rules about NotebookRemix: makeroom has no such tool",
    )


def test_rules_that_cannot_match_are_reported_once_for_each_reason(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    rules = {"deny": ["Bash(echo $*)", "Bash(curl * | sh)", "Bash(a* > b)", "Read(!x)"]}
    path = tmp_path / ".claude" / "settings.json"
    path.write_text(json.dumps({"permissions": rules}))
    found = claude_rules({"HOME": str(tmp_path / "home")}, tmp_path, managed=tmp_path / "none")
    assert [str(rule) for rule in found.deny] == ["Bash(curl * | sh)"]
    several, one = found.warnings
    assert several.startswith(f"{path}: cannot apply deny Bash(echo $*), Bash(a* > b): it contains more than")
    assert one == f"{path}: cannot apply deny Read(!x): exceptions with `!` are not supported"


def write_rules(path: Path, **permissions: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"permissions": permissions}), "utf-8")


def test_restrictions_of_all_files_are_in_force_and_allow_rules_of_none(tmp_path: Path) -> None:
    home, folder, managed = tmp_path / "home", tmp_path / "app", tmp_path / "etc"
    write_rules(managed / "managed-settings.json", deny=["Bash(rm *)"], allow=["Bash(make)"])
    write_rules(managed / "managed-settings.d" / "10.json", ask=["WebFetch(domain:example.com)"])
    write_rules(home / ".claude" / "settings.json", deny=["Read(~/.zshrc)", "Read(!x)"], allow=["Bash(ls:*)"])
    write_rules(folder / ".claude" / "settings.json", deny=["Read(./secrets/**)"], allow=["Bash(evil)"])
    write_rules(folder / ".claude" / "settings.local.json", ask=["Bash(git push:*)"], allow=["Edit"])
    found = claude_rules({"HOME": str(home)}, folder, managed=managed)
    assert list(dict.fromkeys(map(str, found.deny))) == ["Bash(rm *)", "Read(~/.zshrc)", "Read(./secrets/**)"]
    assert list(dict.fromkeys(map(str, found.ask))) == ["WebFetch(domain:example.com)", "Bash(git push:*)"]
    assert {rule.origin for rule in found.ask} == {
        str(managed / "managed-settings.d" / "10.json"),
        str(folder / ".claude" / "settings.local.json"),
    }
    assert list(map(str, found.allow)) == ["bash(make)", "bash(ls)", "edit"]
    assert [line.partition(": ")[2] for line in found.warnings] == [
        "cannot apply deny Read(!x): exceptions with `!` are not supported"
    ]
    config = load_config({}, folder, home)
    assert {str(rule) for rule in config.deny} == {"Read(~/.zshrc)", "Read(./secrets/**)"}
    assert (config.allow, list(dict.fromkeys(map(str, config.ask)))) == ((), ["Bash(git push:*)"])
    of_project = claude_rules({"HOME": str(home)}, folder, lambda source: source == "project", managed)
    assert {str(rule) for rule in of_project.deny} == {"Bash(rm *)", "Read(./secrets/**)"}


@each_row(
    ("text", "why"),
    [
        ('{"permissions": {"deny": ["Read(./secrets/**)"]}, x}', "Expecting property name"),
        ('{"permissions": 1}', "`permissions` is not an object"),
        ("[]", "it does not contain a JSON object"),
        ('{"permissions": {"deny": "Read(./secrets/**)"}}', "permissions.deny: must be a list of rules"),
        ('{"permissions": {"ask": {}}}', "permissions.ask: must be a list of rules"),
        (
            '{"permissions": {"deny": ["Read(./secrets/**"]}}',
            "Read(./secrets/**: it is not a rule",
        ),
    ],
)
def test_restrictions_that_cannot_be_read_end_the_start(tmp_path: Path, text: str, why: str) -> None:
    home, folder = tmp_path / "home", tmp_path / "app"
    path = folder / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config({}, folder, home)
    assert str(path) in str(caught.value) and why in str(caught.value)
    without = given_settings(None, ("user",), folder)
    assert load_config({}, folder, home, without).deny == ()


def test_a_settings_file_behind_a_file_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / ".claude").touch()
    assert claude_rules({"HOME": "/nowhere"}, tmp_path, managed=tmp_path / "none").faults == ()


def test_an_allow_rule_is_offered_once_from_its_most_specific_file_unless_it_is_known(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "app"
    write_rules(home / ".claude" / "settings.json", allow=["Bash(ls:*)", "Bash(make:*)", "Read(/x/y)"])
    local = folder / ".claude" / "settings.local.json"
    write_rules(local, allow=["Bash(make:*)"])
    offered = offered_rules({"HOME": str(home)}, folder, [Rule("bash", "ls")])
    names = {str(rule): rule.origin for rule in offered}
    assert names.pop("bash(make)") == str(local) and len(names) == len(offered) - 1 == 1
