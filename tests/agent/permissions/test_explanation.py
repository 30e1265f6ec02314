"""`/permissions explain`: each simple command of a line with the rule or the reason that decides about it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agent.permissions.explanation import explain_line
from agent.permissions.modes import Mode
from agent.permissions.rule_syntax import parse_rules
from tests.agent.shell.reading_project import ReadingProject
from tests.tables import each_row
from tools.base import Access

RULES = parse_rules("bash(=make > log), bash(pytest), open(git push), net(a.example)")
NO_RULE = "  irreversible commands need approval in every mode, and no rule allows them"
ONLY_EXACT = "  only a rule for all of bash or for exactly this line allows it"
NOT_PLAIN = "it is not known to be read-only: it contains more than plain words (such as ~, $x or > file)"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ReadingProject:
    return ReadingProject(tmp_path_factory.mktemp("explained"))


def explained(project: ReadingProject, line: str, sandbox: bool = True, mode: Mode = "manual") -> list[str]:
    home = str(project.place / "home")
    rules = replace(project.rules(), allow=RULES, sandboxed=sandbox, mode=mode, home=home)
    return explain_line("bash", Access("run", line, cwd=str(project.root)), rules)


def test_what_the_sandbox_or_the_mode_lets_run_needs_no_rule(project: ReadingProject) -> None:
    within = "it runs in the sandbox"
    assert explained(project, "rm -rf ~/help") == [f"allow: {within}", f"  rm -rf ~/help  {within}"]
    doubt = "rm is not known to be read-only"
    assert explained(project, "rm -rf ../x")[1:] == [f"  rm -rf ../x  {doubt}; {within}"]
    assert explained(project, "rm -rf ../x", mode="bypassPermissions")[1:] == [
        f"  rm -rf ../x  {doubt}; the mode is bypassPermissions"
    ]


def test_each_named_host_is_reported_as_allowed_or_blocked(project: ReadingProject) -> None:
    line = "curl https://a.example/x && curl https://me:pass@B.example:8080/y"
    hosts = [
        "  the rule net(a.example) lets it reach a.example",
        "  the sandbox blocks b.example; you are asked when the command tries to reach it",
    ]
    assert explained(project, line)[-2:] == hosts
    assert not set(hosts) & set(explained(project, line, sandbox=False))
    assert not set(hosts) & set(explained(project, "cat notes.example"))


def test_a_denied_host_is_reported_as_denied_although_a_rule_allows_it(project: ReadingProject) -> None:
    denied = parse_rules("net(a.example)")
    rules = replace(project.rules(), allow=RULES, deny=denied, sandboxed=True)
    line = Access("run", "curl https://a.example/x", cwd=str(project.root))
    assert explain_line("bash", line, rules)[-1] == "  the rule net(a.example) denies a.example"


def test_without_a_sandbox_the_rule_that_would_allow_a_line_is_reported(project: ReadingProject) -> None:
    assert explained(project, "rm -rf ~/help", sandbox=False) == [
        f"ask: {NOT_PLAIN}",
        '"always" would add bash(=rm -rf ~/help)',
        f"  rm -rf ~/help  {NOT_PLAIN}",
        ONLY_EXACT,
    ]


def test_a_line_that_is_too_long_to_be_checked_is_called_that(project: ReadingProject) -> None:
    assert explained(project, "echo " + "a" * 10_000, sandbox=False)[0].endswith("too long to be checked")


@each_row("sandbox", [True, False])
@each_row("mode", ["manual", "acceptEdits", "bypassPermissions"])
def test_no_rule_is_offered_for_irreversible_effects(
    project: ReadingProject, sandbox: bool, mode: Mode
) -> None:
    told = ["ask: it removes a home directory", "  rm -rf ~  it removes a home directory", NO_RULE]
    assert explained(project, "rm -rf ~", sandbox, mode) == told
    assert NO_RULE not in explained(project, "rm -rf ~", sandbox, "plan")


@pytest.mark.parametrize("sandbox", [True, False])
def test_a_rule_for_a_whole_line_is_reported_with_its_redirections(
    project: ReadingProject, sandbox: bool
) -> None:
    assert "  make > log  the rule bash(=make > log) allows this" in explained(project, "make > log", sandbox)
    assert "bash(=make > log)" not in "\n".join(explained(project, "make > log", sandbox, "plan"))
    opened = explained(project, "git push", sandbox)
    assert opened[0] == "allow: the rule open(git push) allows this"


@each_row(
    ("line", "shown"),
    [
        ("make 2> err >> out 2>&1 < x", "make 2> err >> out 2>&1 < x"),
        ("cat > f <<E\ntext\nE", "cat > f << …"),
        ("> log", "> log"),
        ("sort <<< b", "sort << …"),
        ("echo a | tee b", "tee b"),
    ],
)
def test_redirections_are_shown(project: ReadingProject, line: str, shown: str) -> None:
    rows = [row.strip().partition("  ")[0] for row in explained(project, line)[1:]]
    assert rows[-1] == shown


def test_a_reason_names_the_command_that_it_is_about(project: ReadingProject) -> None:
    assert explained(project, "git pull && rm -rf ~", sandbox=False)[1:] == [
        "  git pull",
        "  rm -rf ~  it removes a home directory",
        NO_RULE,
    ]
    assert explained(project, "git pull && cat ~/x", sandbox=False)[2:] == [
        "  git pull",
        f"  cat ~/x   {NOT_PLAIN}",
        ONLY_EXACT,
    ]
    rows = explained(project, "echo a && make 2>&1 > out.txt; ls *.py | wc", sandbox=True)[1:]
    within = "it runs in the sandbox"
    assert rows == ["  echo a", f"  make 2>&1 > out.txt  {within}", "  ls *.py", "  wc"]


def test_a_command_that_another_one_runs_is_reported_as_such(project: ReadingProject) -> None:
    (*_, inner) = explained(project, "sh -c 'rm x'", sandbox=False)
    assert inner == "  rm x          another command of the line runs it"
