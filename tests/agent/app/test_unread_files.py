"""Files of other programs that are not read are named, with what to do about it."""

from pathlib import Path

from agent.app.unread_files import unread_files
from agent.session import MemoryPlaces


def test_settings_and_servers_above_the_directory_are_named_but_the_users_own_are_not(tmp_path: Path) -> None:
    project = tmp_path.resolve() / "project"
    below = project / "packages/web"
    (below / ".claude/workflows").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / ".claude").mkdir()
    for name in (".mcp.json", ".claude/settings.json"):
        (project / name).write_text("{}")
        (below / name).write_text("{}")

    def unread(folder: Path, home: Path = tmp_path) -> list[str]:
        found = unread_files(MemoryPlaces(folder, tmp_path / "ours"), home)
        return [f"{part.name} in {part.path.relative_to(project)}: {part.why}" for part in found]

    workflows = "scripts in packages/web/.claude/workflows: makeroom does not run workflows"
    assert unread(below) == [
        f"settings in .claude/settings.json: start makeroom in {project} to use them",
        f"MCP servers in .mcp.json: start makeroom in {project} to use them",
        workflows,
    ]
    assert unread(project) == []
    assert unread(below, home=project) == [workflows]


def test_replaced_instructions_are_named(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("agents")
    (tmp_path / "CLAUDE.md").write_text("claude")
    (part,) = unread_files(MemoryPlaces(tmp_path, tmp_path / "ours"), tmp_path / "home")
    assert (part.path, part.why) == (tmp_path / "CLAUDE.md", f"{tmp_path}/AGENTS.md is used instead")
