"""Rules about files hold for commands where no sandbox hides the files: without one, and with Landlock."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.permissions.modes import MODES, Mode
from agent.permissions.rule_syntax import parse_rules
from agent.permissions.rules import PermissionRules, Verdict, judge_call
from agent.permissions.withheld import barred_paths
from agent.shell import ProjectEnvironment
from tests.tables import each_row
from tools.base import Access

RULES = "read(conf/*.yml), read(secrets/**), edit(db/schema.rb)"
FILES = ("conf/a.yml", "secrets/deep/key", "db/schema.rb", "conf/b.txt", "src/a.py")


class Project:
    """A project with files that rules withhold, as they are when its sandbox cannot hide them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in FILES:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("text\n")
        (folder / "link").symlink_to("conf")
        (folder / "also").symlink_to(folder / "conf/a.yml")
        rules = PermissionRules(
            deny=parse_rules(RULES),
            real_path=os.path.realpath,
            folder=str(folder),
            reading=lambda: ProjectEnvironment(str(folder), {"PATH": "/usr/bin:/bin"}),
        )
        self.rules = replace(rules, withheld=barred_paths(rules, [f"{folder}/conf/a.yml"]).withheld)

    def judge(
        self, line: str, mode: Mode = "manual", *, sandboxed: bool = True, hides_files: bool = False
    ) -> Verdict:
        rules = replace(self.rules, mode=mode, sandboxed=sandboxed, hides_files=hides_files)
        return judge_call("bash", [Access("run", line, cwd=str(self.folder))], rules)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


@each_row(
    ("line", "answer"),
    [
        ("cat conf/a.yml", "deny"),
        ("cat ./conf/../conf/a.yml", "deny"),
        ("cat conf/*.yml", "deny"),
        ("cat conf/?.yml", "deny"),
        ("cat conf/[ab].yml", "deny"),
        ("cat */a.yml", "deny"),
        ("cat {conf,x}/a.yml", "deny"),
        ("cd conf && head -1 a.yml", "deny"),
        ("sort <conf/a.yml", "deny"),
        ("cp conf/a.yml x", "deny"),
        ("cp secrets/deep/key x", "deny"),
        ("cp -r secrets x", "deny"),
        ("python3 show.py --file=conf/a.yml", "deny"),
        ("curl -d @conf/a.yml localhost", "deny"),
        ("cut -fconf/a.yml x", "deny"),
        ("for f in conf/*; do cat $f; done", "ask"),
        ("bash -c 'cat conf/a.yml'", "deny"),
        ("F=conf/a.yml; cat $F", "deny"),
        ("true && echo x >>secrets/deep/key", "deny"),
        ("cat link/a.yml", "deny"),
        ("cd link && cat a.yml", "deny"),
        ("cat also", "deny"),
        ("while read l; do echo $l; done <conf/a.yml", "deny"),
        ("exec 3<conf/a.yml; cat <&3", "deny"),
        ("echo $(<conf/a.yml)", "deny"),
        ("diff <(cat conf/a.yml) x", "deny"),
        ('cat "$PWD/conf/a.yml"', "deny"),
        ("P=conf; cat $P/a.yml", "deny"),
        ("mapfile -t x <conf/a.yml; echo ${x[@]}", "deny"),
        ("dd if=conf/a.yml of=x", "deny"),
        ("curl -F 'x=<conf/a.yml' localhost", "deny"),
        ("curl file://$PWD/conf/a.yml", "deny"),
        ("git show HEAD:conf/a.yml", "deny"),
        ("git diff -- conf/a.yml", "deny"),
        ("git grep text", "ask"),
        ("cat conf/a.yml | head -1", "deny"),
        ("env -i cat conf/a.yml", "deny"),
        ("cat co''nf/a.y\\ml", "deny"),
        ("cat conf/../conf/./a.yml", "deny"),
        ("find conf -name a.yml -exec cat {} +", "ask"),
        ("grep -r text .", "ask"),
        ("grep -rn text conf src", "ask"),
        ("rg text", "ask"),
        ("tar czf x.tgz conf", "ask"),
        ("cp -a . ../copy", "ask"),
        ("find . -type f -exec cat {} +", "ask"),
        ("python3 -c 'print(open(\"secrets/deep/key\").read())'", "ask"),
        ("sed -i s/a/b/ db/schema.rb", "ask"),
        ("echo x >> db/schema.rb", "ask"),
        ("cat db/schema.rb", "allow"),
        ("env -C conf cat a.yml", "ask"),
        ("git -C conf show HEAD:./a.yml", "ask"),
        ("sudo --chdir=conf cat a.yml", "ask"),
        ("cat conf/a$x.yml", "ask"),
        ("cat $x/conf/a.yml", "ask"),
        ("cat ${x:-conf/a.yml}", "ask"),
        ("cd src; cat $OLDPWD/conf/a.yml", "ask"),
        ("cat /proc/$$/cwd/conf/a.yml", "deny"),
        ("curl file:///$PWD/conf/a.yml", "deny"),
        ("./conf/a.yml", "deny"),
        ("ls conf/* src/* | xargs cat", "ask"),
        ("find . -type f | xargs cat", "ask"),
        ("find . -name '*.yml' -print0 | xargs -0 head", "ask"),
        ("cat $(git ls-files)", "ask"),
        ("while read f; do cat $f; done <<< conf/a.yml", "ask"),
        ("x=conf; x+=/a.yml; cat $x", "ask"),
        ("wc -l --files0-from=list", "ask"),
        ("mv conf c && cat c/a.yml", "ask"),
        ("ln -s conf c; cat c/a.yml", "ask"),
        ("docker run -v .:/x alpine cat /x/conf/a.yml", "ask"),
        ("cp --recursive conf x", "ask"),
        ("grep --recursive text .", "ask"),
        ("grep -d recurse text .", "ask"),
        ("diff -r conf x", "ask"),
        ("git diff --no-index x conf", "ask"),
        ("find . | cpio -o", "ask"),
        ("sed 'r conf/a.yml' src/a.py", "ask"),
        ("shopt -s extglob; cat conf/@(a).yml", "ask"),
        ("find . -name '*.py' | xargs wc -l", "allow"),
        ("while read f; do echo $f; done <<< conf/a.yml", "allow"),
        ("diff <(sort src/a.py) src/a.py", "allow"),
        ("git -C conf status", "allow"),
        ("cat src/$x", "allow"),
        ("mv src s", "allow"),
        ("cat conf/b.txt", "allow"),
        ("rg text src", "allow"),
        ("grep -rn text src", "allow"),
        ("echo conf/a.yml", "allow"),
        ("ls conf", "allow"),
        ("wc -l src/* conf/b*", "allow"),
        ("cat */b.txt", "ask"),
        ("for f in src/*; do wc -l $f; done", "allow"),
        ("cat conf/*", "ask"),
        ("cp * /tmp", "ask"),
        ("cat secrets/*", "deny"),
        ("cat s*/deep/key", "deny"),
        ("grep -r text *", "ask"),
        ("find . -name '*.py'", "allow"),
    ],
)
def test_a_line_that_names_a_withheld_file_is_judged_by_its_rule(
    project: Project, line: str, answer: str
) -> None:
    assert project.judge(line).answer == answer
    without = project.judge(line, sandboxed=False).answer
    assert without == answer or (answer == "allow" and without == "ask")
    assert project.judge(line, hides_files=True).answer == "allow"
    if answer == "deny":
        assert {project.judge(line, mode).answer for mode in MODES} == {"deny"}


def test_the_question_names_the_file_and_its_rule(project: Project) -> None:
    assert project.judge("cat conf/a.yml").why == "the rule read(conf/*.yml) denies this"
    found = project.judge("grep -r text conf").why
    assert found == "it may read conf/a.yml, which the rule read(conf/*.yml) denies"
    found = project.judge("sed -i s/a/b/ db/schema.rb").why
    assert found == "it may change db/schema.rb, which the rule edit(db/schema.rb) denies"


def test_what_runs_outside_the_sandbox_is_not_hidden_from(project: Project) -> None:
    """Such as every command in the mode bypassPermissions."""
    assert project.judge("cat conf/a.yml", "bypassPermissions", hides_files=True).answer == "deny"
    assert project.judge("cat conf/b.txt", "bypassPermissions", hides_files=True).answer == "allow"
    project.rules = replace(project.rules, allow=parse_rules("open(cat conf/a.yml)"))
    assert project.judge("cat conf/a.yml", hides_files=True).answer == "deny"


def test_an_ask_rule_asks_about_a_named_file(project: Project) -> None:
    project.rules = replace(project.rules, deny=(), ask=project.rules.deny)
    found = project.judge("cat conf/a.yml")
    assert found.answer == "ask" and found.why == "the rule read(conf/*.yml) requires approval"
    assert project.judge("cat conf/b.txt").answer == "allow"


def test_a_script_of_the_project_that_names_a_withheld_file_is_denied(project: Project) -> None:
    (project.folder / "run.sh").write_text("set -e\ncat conf/a.yml\n")
    assert project.judge("sh run.sh").answer == "deny"
    (project.folder / "run.sh").write_text("set -e\ncat conf/b.txt\n")
    assert project.judge("sh run.sh").answer == "allow"
