"""Paths that rules about the file tools withhold from commands."""

from pathlib import Path

from msgspec.structs import replace

from agent.permissions.rule_syntax import parse_rules
from agent.permissions.rules import PermissionRules
from agent.permissions.withheld import barred_paths


def test_a_rule_about_the_home_directory_withholds_what_it_names_there(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    folder = home / "project"
    folder.mkdir()
    (home / "settings").write_text("")
    rules = PermissionRules(deny=parse_rules("read(~/settings)"), folder=str(folder), home=str(home))
    assert barred_paths(rules) == ([home / "settings"], [])
    assert barred_paths(replace(rules, home="")) == ([], [])


def test_a_rule_that_would_withhold_the_project_itself_withholds_nothing(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    (home / "project" / "docs").mkdir(parents=True)
    rules = PermissionRules(deny=parse_rules("edit(~/**), edit(docs/**)"), home=str(home))
    rules = replace(rules, folder=str(home / "project"))
    assert barred_paths(rules) == ([], [home / "project" / "docs"])
