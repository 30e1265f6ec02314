"""Definitions of agents: from files, from JSON, after approval; unusable ones are reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.extensions.agents.builtin import BUILTIN_AGENTS, agents_section, find_agent
from agent.extensions.agents.definitions import AgentDefinition, read_agent, tool_names
from agent.extensions.agents.files import AgentPlaces, agent_items
from agent.extensions.approvals import ProjectItem

FILE = """---
name: {name}
description: {description}
tools: Read, Grep, Bash(git log:*), mcp__docs__search
disallowedTools: Bash
model: haiku
permissionMode: plan
maxTurns: 7
skills: pdf
background: true
effort: low
color: blue
---

You review. Be {name}.
"""


def put(folder: Path, name: str, description: str = "reviews changes") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(FILE.format(name=name, description=description))
    return folder / f"{name}.md"


def known(
    folder: Path, *allowed: bytes, given: str = "", sources: tuple[str, ...] | None = None
) -> tuple[dict[str, AgentDefinition], list[str]]:
    places = AgentPlaces(folder / "p", {"HOME": str(folder / "home")}, folder / "ours", sources, given)
    (folder / "p").mkdir(exist_ok=True)
    agents, problems, _ = places.agents(lambda item: item.content in allowed)
    return agents, problems


def test_every_field_of_a_file_counts_and_others_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "home/.claude/agents", "reviewer")
    found, problems = known(tmp_path)
    assert problems == [] and found.keys() == {*BUILTIN_AGENTS, "reviewer"}
    made = found["reviewer"]
    assert made.tools == ("Read", "Grep", "Bash", "mcp__docs__search") and made.without == ("Bash",)
    assert (made.model, made.effort, made.mode, made.max_turns) == ("haiku", "low", "plan", 7)
    assert (made.skills, made.background, made.prompt) == (("pdf",), True, "You review. Be reviewer.")


def test_agents_in_directories_below_are_found(tmp_path: Path) -> None:
    put(tmp_path / "home/.claude/agents/engineering/web", "powershell-5.1-expert")
    put(tmp_path / "home/.claude/agents/engineering/web", "reviewer")
    put(tmp_path / "home/.claude/agents/.git", "ghost")
    assert known(tmp_path)[0].keys() == {*BUILTIN_AGENTS, "powershell-5.1-expert", "reviewer"}


def test_a_project_s_agent_counts_once_its_bytes_are_approved(tmp_path: Path) -> None:
    path = put(tmp_path / "p/.claude/agents", "reviewer")
    assert "reviewer" not in known(tmp_path)[0]
    (item,) = agent_items(tmp_path / "p", {})
    assert (item.kind, item.name) == ("agent", "reviewer")
    assert item.shows == "tools Read, Grep, Bash, mcp__docs__search: reviews changes"
    assert "reviewer" in known(tmp_path, item.content)[0]
    path.write_text(path.read_text() + " And more.")
    assert "reviewer" not in known(tmp_path, item.content)[0]
    assert "reviewer" not in known(tmp_path, path.read_bytes(), sources=("user",))[0]


def test_the_agents_of_a_repository_are_there_in_its_directories_and_the_nearer_counts(
    tmp_path: Path,
) -> None:
    (tmp_path / ".git").mkdir()
    top = put(tmp_path / ".claude/agents", "reviewer", "of the top")
    put(tmp_path / ".claude/agents", "tester")
    near = put(tmp_path / "p/.claude/agents", "reviewer", "of the folder")
    assert [item.name for item in agent_items(tmp_path / "p", {})] == ["reviewer", "tester", "reviewer"]
    found, _ = known(tmp_path, top.read_bytes(), near.read_bytes())
    assert found["reviewer"].description == "of the folder" and "tester" not in found


def test_a_link_out_of_the_project_is_not_a_definition_of_it(tmp_path: Path) -> None:
    outside = put(tmp_path / "elsewhere", "spy")
    (tmp_path / "p/.claude/agents").mkdir(parents=True)
    (tmp_path / "p/.claude/agents/spy.md").symlink_to(outside)
    assert agent_items(tmp_path / "p", {}) == []


def test_the_nearer_definition_of_a_name_counts_and_a_given_one_before_all(tmp_path: Path) -> None:
    put(tmp_path / "home/.claude/agents", "reviewer", "one")
    put(tmp_path / "ours/agents", "reviewer", "two")
    assert known(tmp_path)[0]["reviewer"].description == "two"
    path = put(tmp_path / "p/.makeroom/agents", "reviewer", "three")
    assert known(tmp_path, path.read_bytes())[0]["reviewer"].description == "three"
    given = json.dumps({"reviewer": {"description": "four", "prompt": "x", "tools": ["*"]}})
    found = known(tmp_path, path.read_bytes(), given=given)[0]["reviewer"]
    assert (found.description, found.tools) == ("four", None)


def test_what_cannot_be_used_is_reported_in_a_line_each(tmp_path: Path) -> None:
    folder = tmp_path / "home/.claude/agents"
    put(folder, "good").write_text(
        FILE.format(name="good", description="x")
        .replace("plan", "wild")
        .replace("maxTurns: 7", "maxTurns: no")
    )
    (folder / "empty.md").write_text("---\nname: empty\n---\nwords")
    (folder / "broken.md").write_text("---\nname: [\n---\nwords")
    (folder / "big.md").write_text("x" * 70_000)
    given = json.dumps({"Bad Name": {"description": "d", "prompt": "p"}, "none": {"description": "d"}})
    places = AgentPlaces(tmp_path, {"HOME": str(tmp_path / "home")}, tmp_path / "ours", given=given)
    found, problems, ignored = places.agents(lambda item: True)
    assert found.keys() == {*BUILTIN_AGENTS, "good"} and found["good"].mode is None
    assert len(problems) == 4 and all("\n" not in line for line in problems)
    assert [part.path.name for part in ignored if part.name == "agent"] == ["big.md", "broken.md", "empty.md"]
    for turns in (True, 0, -1, 1.5):
        read = read_agent("docs", {"description": "d", "maxTurns": turns}, "p", "")
        assert read.definition.max_turns is None and "must be a number of requests" in read.remarks[0]


@pytest.mark.parametrize("given", ["{", "[1]", '{"a": 1}'])
def test_json_that_defines_nothing_is_refused(tmp_path: Path, given: str) -> None:
    with pytest.raises(ValueError, match=r"^not (valid JSON|an object of)"):
        known(tmp_path, given=given)


def test_the_model_is_informed_of_agents_that_are_not_built_in() -> None:
    assert agents_section(BUILTIN_AGENTS) == ""
    made, _ = read_agent("docs", {"description": "d" * 400}, "p", "")
    text = agents_section({**BUILTIN_AGENTS, "docs": made})
    assert text.endswith(f"- docs: {'d' * 250}") and "explore" not in text.partition("\n- ")[2]
    many = agents_section({f"docs{at}": replace(made, name=f"docs{at}") for at in range(90)})
    assert len(many) < 4_200 and many.endswith(" more, which the user can name")


def test_names_of_agents_and_tools_are_read_as_others_write_them() -> None:
    assert find_agent(BUILTIN_AGENTS, "general-purpose") is BUILTIN_AGENTS["general"]
    assert find_agent(BUILTIN_AGENTS, "Explore") is BUILTIN_AGENTS["explore"]
    assert tool_names("Read,Edit  Bash(git diff:*, git log:*)") == ("Read", "Edit", "Bash")
    assert tool_names(["mcp__a__*", "Glob"]) == ("mcp__a__*", "Glob")
    assert (tool_names("*"), tool_names("")) == (None, ())


def test_items_are_listed_for_the_question_about_the_project(tmp_path: Path) -> None:
    (tmp_path / ".claude/agents").mkdir(parents=True)
    content = b"---\nname: _odd\ndescription: does it\n---\nwords"
    (tmp_path / ".claude/agents/odd.md").write_bytes(content)
    assert agent_items(tmp_path, {}) == [ProjectItem("agent", "odd", "all tools: does it", content)]


def test_an_agent_with_an_unknown_isolation_is_used_with_a_remark() -> None:
    read = read_agent("a", {"description": "d", "isolation": "remote"}, "p", "here")
    told = "unknown isolation 'remote' (the agent works in the project's files)"
    assert not read.definition.isolated and read.remarks == (told,)
    read = read_agent("a", {"description": "d", "isolation": "worktree"}, "p", "here")
    assert read.definition.isolated and read.remarks == ()


def test_fields_of_claude_code_without_effect_are_named(tmp_path: Path) -> None:
    path = put(tmp_path / "home/.claude/agents", "builder")
    hooks = 'hooks:\n  PostToolUse:\n    - hooks:\n        - type: command\n          command: "check.sh"\n'
    path.write_text(path.read_text().replace("color: blue\n", f"color: blue\n{hooks}initialPrompt: /go\n"))
    places = AgentPlaces(tmp_path, {"HOME": str(tmp_path / "home")}, tmp_path / "ours")
    found = places.agents(lambda item: True)
    assert [(part.path, part.name) for part in found.ignored] == [(path, "hooks"), (path, "initialPrompt")]
    assert found.problems == [] and "settings file" in found.ignored[0].why


@pytest.mark.parametrize("name", ["allowed-tools", "allowedTools"])
def test_a_list_of_tools_in_a_field_of_commands_is_named(tmp_path: Path, name: str) -> None:
    path = put(tmp_path / "home/.claude/agents", "builder")
    path.write_text(path.read_text().replace("color: blue\n", f"color: blue\n{name}: Read\n"))
    places = AgentPlaces(tmp_path, {"HOME": str(tmp_path / "home")}, tmp_path / "ours")
    (part,) = places.agents(lambda item: True).ignored
    assert (part.path, part.name) == (path, name) and "`tools`" in part.why


def test_a_file_that_defines_no_agent_is_named_and_needs_no_approval(tmp_path: Path) -> None:
    (tmp_path / ".claude/agents").mkdir(parents=True)
    (tmp_path / ".claude/agents/README.md").write_text("# Our agents\n")
    (tmp_path / ".claude/agents/broken.md").write_text("---\nname: [\n---\nwords")
    (tmp_path / ".claude/agents/nothing.md").write_text("---\nname: nothing\n---\nwords")
    assert agent_items(tmp_path, {}) == []
    places = AgentPlaces(tmp_path, {"HOME": str(tmp_path / "home")}, tmp_path / "ours")
    found = places.agents(lambda item: False)
    assert found.problems == []
    assert [f"{part.path.name}: {part.why}" for part in found.ignored] == [
        "README.md: it does not define an agent",
        "broken.md: '[' is not a valid agent name; use lower-case letters, digits, -, _ and .",
        "nothing.md: it has no description",
    ]
