"""Commands and skills are found where users keep them; what is wrong with one harms no other."""

import os
from pathlib import Path

import pytest
from msgspec.structs import asdict

from agent.extensions.frontmatter import parse_markdown
from agent.extensions.skills.approval import open_skill, skill_items
from agent.extensions.skills.library import SkillLibrary
from agent.extensions.skills.substitution import written_lines
from agent.ports import CommandSummary
from agent.session.skill_texts import skills_section

from .published_samples import COMMANDS, SKILLS


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def put(path: Path, text: str = "Do it.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def skill(folder: Path, description: str, more: str = "") -> Path:
    return put(folder / "SKILL.md", f"---\ndescription: {description}\n{more}---\nDo it.\n")


def library(folder: Path, home: Path, sources: tuple[str, ...] | None = None) -> SkillLibrary:
    return SkillLibrary.load(folder, {"HOME": str(home)}, home / ".config" / "makeroom", sources)


def test_they_are_found_in_all_places(project: Path, home: Path) -> None:
    below = project / "packages" / "web"
    below.mkdir(parents=True)
    put(project / ".claude/commands/review.md")
    put(project / ".claude/commands/git/deep/commit.md")
    put(below / ".claude/commands/build.md")
    skill(project / ".claude/skills/pdf", "PDF")
    skill(project / ".agents/skills/shared", "of all agents")
    skill(project / ".makeroom/skills/own", "ours")
    put(home / ".claude/commands/hello.md")
    skill(home / ".claude/skills/mine", "mine")
    skill(home / ".agents/skills/agents", "mine too")
    put(home / ".config/makeroom/commands/first.md")
    found = library(below, home)
    names = "agents build commit first hello mine own pdf review shared"
    assert sorted(found.skills) == names.split()
    assert found.unusable == [] and found.shadowed == []
    assert found.find("git:deep:commit") is found.skills["commit"]
    assert found.others.keys() == {"git:deep:commit"}
    assert CommandSummary("git:deep:commit", alias_of="commit") in found.summaries()
    assert {one.name for one in found.skills.values() if not one.from_project} == {
        "agents", "first", "hello", "mine",
    }  # fmt: skip
    assert set(library(below, home, ("user",)).skills) == {"agents", "first", "hello", "mine"}
    assert "hello" not in library(below, home, ("project",)).skills


def test_of_one_name_ours_counts_then_the_projects_then_the_users_and_a_skill_before_a_command(
    project: Path, home: Path
) -> None:
    order = [
        skill(project / ".makeroom/skills/x", "1"),
        skill(home / ".config/makeroom/skills/x", "2"),
        put(home / ".config/makeroom/commands/x.md"),
        skill(project / ".claude/skills/x", "3"),
        skill(project / ".agents/skills/x", "4"),
        put(project / ".claude/commands/x.md"),
        skill(home / ".claude/skills/x", "5"),
        put(home / ".claude/commands/x.md"),
    ]
    while order:
        found = library(project, home)
        assert found.skills["x"].path == order[0]
        assert [hidden.path for hidden, _ in found.shadowed] == order[1:]
        order.pop(0).unlink()


def test_files_that_no_name_leads_to_are_named(project: Path, home: Path) -> None:
    """A command in a subdirectory has a second name, and a link is the same file."""
    taken = put(project / ".claude/commands/cost.md")
    put(project / ".claude/commands/sc/help.md")
    skill(project / ".claude/skills/model", "1")
    skill(project / ".claude/skills/x", "2")
    lost = put(home / ".claude/commands/x.md")
    (project / ".agents").mkdir()
    (project / ".agents/skills").symlink_to(project / ".claude/skills")
    found = library(project, home)
    assert [part[:2] for part in found.hidden(["cost", "help", "model"])] == [(lost, "/x"), (taken, "/cost")]


def test_skills_in_the_wrong_place_are_named(project: Path, home: Path) -> None:
    skills = project / ".claude/skills"
    skill(skills / "good", "does good")
    skill(skills / "web/forms", "in a group")
    for name in ("review.md", "README.md", "notes.txt", "good/help.md"):
        (skills / name).write_text("# Review")
    (skills / "shared").mkdir()
    (project / ".agents").mkdir()
    (project / ".agents/skills").symlink_to(skills)
    found = library(project, home)
    assert list(found.skills) == ["good"]
    named = [f"{part.path.relative_to(skills)}: {part.why}" for part in found.unusable]
    assert named == [
        "review.md: a skill is a directory: move the file to NAME/SKILL.md",
        f"web/forms: move the directory to {skills}, since skills have no groups",
    ]


def test_all_fields_are_read(project: Path, home: Path) -> None:
    fields = """\
name: deep-research
argument-hint: [topic] [depth]
arguments: [topic, depth]
allowed-tools: Bash(gh pr view:*), Read Grep
disable-model-invocation: true
model: my-inherited-opus
effort: high
context: fork
agent: Explore
license: MIT
"""
    skill(project / ".claude/skills/other", "Look: closely", fields)
    one = library(project, home).skills["deep-research"]
    assert (one.description, one.hint, one.arguments) == (
        "Look: closely",
        "[topic] [depth]",
        ("topic", "depth"),
    )
    assert one.allowed_tools == ("Bash(gh pr view:*)", "Read", "Grep")
    assert (one.model, one.effort, one.forks, one.agent) == ("my-inherited-opus", "high", True, "Explore")
    assert (one.for_model, one.for_user) == (False, True)


def test_a_command_without_fields_is_described_by_its_first_line_and_not_for_the_model(
    project: Path, home: Path
) -> None:
    put(project / ".claude/commands/plain.md", "\n# Tidy up\n\nAll of it.")
    skill(project / ".claude/skills/hidden", "only for the model", "user-invocable: false\n")
    found = library(project, home)
    assert found.skills["plain"].description == "Tidy up"
    assert [one.name for one in found.for_model()] == ["hidden"]
    assert [one.name for one in found.for_users()] == ["plain"]
    assert found.typed("/hidden x") is None
    typed = found.typed("/Plain some  words\nand more")
    assert typed is not None
    assert typed[1] == "some  words\nand more"


def test_each_file_that_cannot_be_used_is_named_once_and_harms_no_other(project: Path, home: Path) -> None:
    commands = project / ".claude" / "commands"
    put(commands / "good.md")
    bad = [
        put(commands / "yaml.md", "---\nname: x\n- y\n---\n"),
        put(commands / "large.md", "x" * 1_000_000),
        put(commands / "strange name.md"),
        put(project / ".claude/skills/Bad Name/SKILL.md", "---\nname: Bad Name\n---\n"),
    ]
    for name, target in (("loop.md", "loop.md"), ("away.md", "/etc/passwd"), ("secret.md", "../../.netrc")):
        (commands / name).symlink_to(target)
        bad.append(commands / name)
    put(project / ".netrc", "password")
    (commands / "round").symlink_to(commands)
    (project / ".claude" / "skills" / "gone").symlink_to("nowhere")
    bad += [commands / "round", project / ".claude" / "skills" / "gone"]
    os.mkfifo(commands / "pipe.md")
    bad.append(commands / "pipe.md")
    found = library(project, home)
    assert list(found.skills) == ["good"]
    assert sorted(part.path for part in found.unusable) == sorted(bad)


def test_a_large_skill_is_listed_by_its_head_and_read_when_it_is_used(project: Path, home: Path) -> None:
    put(project / ".claude/skills/api/SKILL.md", f"---\ndescription: API\n---\n{'page é ' * 20_000}the end")
    found = library(project, home)
    assert found.unusable == [] and found.skills["api"].description == "API"
    assert open_skill(found.skills["api"]).body.endswith("the end")


def test_a_home_that_is_the_directory_is_not_a_project(home: Path) -> None:
    put(home / ".claude/commands/mine.md", "!`date`")
    assert [one.from_project for one in library(home, home).skills.values()] == [False]
    assert list(skill_items(home, {"HOME": str(home)})) == []


def test_what_runs_or_takes_something_is_an_item_of_the_project(project: Path, home: Path) -> None:
    put(home / ".claude/commands/mine.md", "!`date`")
    put(project / ".claude/commands/plain.md")
    put(project / ".claude/commands/runs.md", "See !`git  log` and !`ls` and\n```!\na\nb\n```\n!`d`")
    skill(project / ".claude/skills/takes", "x", "allowed-tools: Read, Bash(ls:*)\nuser-invocable: false\n")
    items = {item.name: item for item in skill_items(project, {"HOME": str(home)})}
    assert items["/runs"].shows == "runs git log; ls; a b; 1 more"
    assert items["takes"].shows == "allows Read, Bash(ls:*)"
    assert items["takes"].kind == "skill"
    assert items["takes"].content == (project / ".claude/skills/takes/SKILL.md").read_bytes()
    assert len(items) == 2


def test_five_hundred_skills_take_two_percent_of_a_window_and_are_found_by_search(
    project: Path, home: Path
) -> None:
    for number in range(500):
        skill(home / f".claude/skills/skill-{number}", f"Number {number} of many. {'long ' * 100}")
    skill(home / ".claude/skills/zebra", "Draw stripes on animals")
    found = library(project, home)
    section = skills_section(found.for_model(), 200_000, lambda text: len(text) // 4)
    assert len(section) // 4 <= 4_000
    assert "more: the skill tool finds them" in section
    assert max(map(len, section.splitlines()[2:])) < 280
    assert found.search("paint STRIPES please")[0].name == "zebra"
    assert [one.name for one in found.search("zebar")] == ["zebra"]


def test_commands_and_skills_are_read_as_published(project: Path, home: Path) -> None:
    for path, text, _ in (*COMMANDS, *SKILLS):
        put(project / ".claude" / path, text)
    found = library(project, home)
    assert found.unusable == []
    assert len(found.skills) + len(found.shadowed) == len(COMMANDS) + len(SKILLS) == 40
    for path, text, expected in (*COMMANDS, *SKILLS):
        [one] = [each for each in found.skills.values() if str(each.path).endswith(path)]
        shown = {name: value for name, value in asdict(one).items() if name in expected}
        lines = written_lines(parse_markdown(text.encode()).body)
        assert {**shown, **({"runs": lines} if "runs" in expected else {})} == expected
        assert len(one.description) <= 1_024


def test_fields_of_claude_code_count_or_are_named(project: Path, home: Path) -> None:
    hooks = "hooks:\n  Stop:\n    - hooks:\n        - {type: command, command: check.sh}\n"
    more = "when_to_use: For scans.\ndisallowed-tools: Task\npaths: '*.pdf'\n"
    hidden = "hide-from-slash-command-tool: 'true'\n"  # as in published plugins
    skill(project / ".claude/skills/pdf", "Reads PDF.", f"{more}{hidden}{hooks}")
    pdf = library(project, home).skills["pdf"]
    assert pdf.description == "Reads PDF. For scans." and not pdf.for_model and pdf.for_user
    assert [part.name for part in pdf.ignored] == ["disallowed-tools", "paths", "hooks"]
