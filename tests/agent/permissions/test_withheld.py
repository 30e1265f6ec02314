"""Paths that rules about the file tools withhold from commands."""

from pathlib import Path

from msgspec.structs import replace

from agent.permissions.rule_syntax import parse_rules
from agent.permissions.rules import PermissionRules
from agent.permissions.withheld import barred_paths, barring_globs, barring_rule, reachable_hosts
from tools.guarded import PathGlobs


def test_a_rule_about_the_home_directory_withholds_what_it_names_there(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    folder = home / "project"
    folder.mkdir()
    (home / "settings").write_text("")
    rules = PermissionRules(deny=parse_rules("read(~/settings)"), folder=str(folder), home=str(home))
    assert barred_paths(rules)[:4] == ([home / "settings"], [], [], [])
    assert barred_paths(replace(rules, home=""))[:4] == ([], [], [], [])


def test_a_rule_that_would_withhold_the_project_itself_withholds_nothing(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    (home / "project" / "docs").mkdir(parents=True)
    rules = PermissionRules(deny=parse_rules("edit(~/**), edit(docs/**)"), home=str(home))
    rules = replace(rules, folder=str(home / "project"))
    assert barred_paths(rules)[:4] == ([], [home / "project" / "docs"], [], [])


def test_globs_are_searched_for_unless_they_match_the_whole_project(tmp_path: Path) -> None:
    written = "read(*.pem), read(*), read(**/*), read(*.*), read(~/*.key), edit(src/*/gen*/**), read(a)"
    written += ", read(keys/*.*), read(conf/.*), read(.*)"
    rules = PermissionRules(deny=parse_rules(written), folder=str(tmp_path), home=str(tmp_path))
    assert barring_globs(rules) == {"*.pem", "src/*/gen*", "keys/*.*", "conf/.*"}


def test_braces_are_alternatives(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    folder = home / "project"
    for name in (".aws", "project/db", "project/keys"):
        (home / name).mkdir(parents=True)
    written = "read(~/.{aws,ssh}/**), edit({db,keys}/*), read(src/*.{pem,key})"
    rules = PermissionRules(deny=parse_rules(written), folder=str(folder), home=str(home))
    assert barred_paths(rules)[:4] == ([home / ".aws"], [folder / "db", folder / "keys"], [], [])
    matching = [f"{folder}/src/{name}" for name in ("a.pem", "b.key", "c.pub")]
    found = barred_paths(rules, filter(PathGlobs(str(folder), barring_globs(rules)).match, matching))
    assert found.unreadable == [home / ".aws", folder / "src/a.pem", folder / "src/b.key"]


def test_a_path_below_a_withheld_directory_is_not_withheld_again(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    rules = PermissionRules(deny=parse_rules("read(*gen*), edit(a/*gen*/x*)"), folder=str(folder))
    matching = [f"{folder}/{name}" for name in ("gen", "a/gen1", "a/gen1/x1", "gen/b")]
    unreadable, unwritable, ways, held, _ = barred_paths(rules, matching)
    assert unreadable == [folder / "gen", folder / "a/gen1"]
    assert unwritable == [folder / "a/gen1/x1"]
    assert ways == [], "the names of other directories do not matter, or the path can be read"
    assert held == [folder / "a/gen1", folder / "a"]
    for name, tool in (("gen/b/c", "read"), ("a/gen1/x1", "read"), ("b", None)):
        rule = barring_rule(rules, "read", f"{folder}/{name}")
        assert (rule.tool if rule is not None else None) == tool


def test_a_link_does_not_withhold_what_commands_need(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    folder = home / "project"
    (folder / "src").mkdir(parents=True)
    rules = PermissionRules(deny=parse_rules("read(*.pem)"), folder=str(folder), home=str(home))
    targets = {"a": "/usr", "b": "..", "c": ".", "d": "src", "e": "../key", "f": "/etc/f.pem"}
    for name, target in targets.items():
        (folder / f"{name}.pem").symlink_to(target)
    (home / "key").write_text("")
    matching = [f"{folder}/{name}.pem" for name in targets]
    assert barred_paths(rules, matching).unreadable == [folder / "src", home / "key", Path("/etc/f.pem")]


def test_the_rule_is_named_that_keeps_a_directory_from_being_renamed(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    (folder / "b" / "keys").mkdir(parents=True)
    deny = parse_rules("read(a/*.pem), read(b/keys/**), read(*.x), edit(d/*.y)")
    rules = PermissionRules(deny=deny, folder=str(folder))
    matching = [f"{folder}/{name}" for name in ("a/k.pem", "c/k.x", "d/k.y")]
    assert barred_paths(rules, matching)[2:4] == ([folder / "b", folder / "a"], [folder / "d"])
    found = [barring_rule(rules, "write", f"{folder}/{name}", matching) for name in "abcd"]
    assert found == [*deny[:2], None, None]
    assert barring_rule(rules, "read", f"{folder}/a", matching) is None


def test_hosts_are_reachable_if_a_net_rule_allows_them_and_none_withholds_them_nor_in_plan_mode() -> None:
    allowed = parse_rules("net(a.example), net(b.example), net(a.example), edit(c.example)")
    rules = PermissionRules(allow=allowed, deny=parse_rules("net(b.example)"))
    assert reachable_hosts(rules) == ("a.example",)
    assert reachable_hosts(replace(rules, mode="plan")) == ()
