"""`makeroom import claude`: what it shows, what it copies, and that it copies once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.app.config import load_config
from agent.cli.import_command import run_import
from agent.extensions.mcp import ServerFiles

Import = Callable[..., str]


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Import:
    """A home with the files of Claude Code; runs the command in a project and returns what it prints."""
    home = tmp_path / "home"
    project = tmp_path / "project"
    project.mkdir()

    def write(name: str, content: Any) -> None:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    write(".claude/settings.json", {"permissions": {"allow": ["Bash(make:*)", "Oven(hot)"]}})
    near = {
        str(project.resolve()): {"mcpServers": {"near": {"command": "near-server"}, "odd": {"args": ["x"]}}}
    }
    write(".claude.json", {"mcpServers": {"wide": {"url": "https://wide.example/mcp"}}, "projects": near})
    write(".claude/agents/mole.md", "---\nname: mole\ndescription: Digs.\n---\nDig.")
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(project)

    def run(*words: str) -> str:
        assert run_import(["claude", *words]) == 0
        return capsys.readouterr().out

    return run


def test_rules_servers_and_agents_are_shown_and_without_consent_nothing_is_copied(imported: Import) -> None:
    lines = imported().splitlines()
    assert lines[:4] == [
        "allow   bash(make)  (~/.claude/settings.json)",
        "server  wide: https://wide.example/mcp  (~/.claude.json, to ~/.config/makeroom/mcp.json)",
        f"server  near: near-server  (~/.claude.json, to {Path.cwd()}/.makeroom/mcp.local.json)",
        f"server  odd:  x  (~/.claude.json, to {Path.cwd()}/.makeroom/mcp.local.json; "
        "not usable yet: it has no command)",
    ]
    assert lines[4].startswith("skipped") and "Oven" in lines[4]
    assert lines[5] == "agent   mole  (~/.claude/agents/mole.md, used without approval)"
    assert lines[6] == "nothing was imported; makeroom import claude --yes imports all of it"
    assert imported().splitlines() == lines


def test_allow_rules_of_a_checkout_are_skipped_with_the_reason(imported: Import) -> None:
    path = Path.cwd() / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"permissions": {"allow": ["Edit"]}}')
    line = f"skipped Edit: a checkout cannot grant permissions; see /permissions allow ({path})"
    assert line in imported().splitlines()


def test_what_was_imported_is_in_force_and_offered_no_more(imported: Import) -> None:
    assert imported("--yes").splitlines()[-1] == "imported 4 items"
    project, home = Path.cwd(), Path.home()
    assert list(map(str, load_config({}, project, home).allow)) == ["bash(make)"]
    found = ServerFiles(project, home / ".config/makeroom").servers({})
    assert [(entry.name, entry.scope) for entry in found.entries] == [
        ("near", "local"),
        ("odd", "local"),
        ("wide", "user"),
    ]
    assert imported("--yes").splitlines()[-1] == "nothing to import"


def test_other_words_are_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_import(["pi"]) == run_import(["claude", "--all"]) == 2
    assert "cannot import pi; use import claude [--yes]" in capsys.readouterr().err
    assert run_import(["--help"]) == 0 and "import claude [--yes]" in capsys.readouterr().out
