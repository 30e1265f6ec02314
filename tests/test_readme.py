"""The README's tables say what the program says."""

import json
import re
from pathlib import Path

from agent.cli.arguments import parser
from agent.commands import COMMANDS
from tools import BUILTIN
from transcripts.facts import FACT_TYPES

README = (Path(__file__).resolve().parent.parent / "README.md").read_text("utf-8")


def table_of_commands() -> str:
    rows = [f"| `/{command.name}` | {command.help} |" for command in COMMANDS]
    return "\n".join(["| command | |", "|---|---|", *rows])


def test_every_command_stands_in_the_readme_with_its_help() -> None:
    assert table_of_commands() in README


def test_every_built_in_tool_stands_in_the_readme() -> None:
    assert f"| **Tools** | {', '.join(f'`{name}`' for name in BUILTIN)} |" in README


def test_every_flag_that_the_readme_names_exists() -> None:
    known = {flag for action in parser()._actions for flag in action.option_strings}
    replay = (Path(__file__).resolve().parent.parent / "agent" / "replay" / "command.py").read_text("utf-8")
    known |= set(re.findall(r'"(--[a-z]+)"', replay))
    named = set(re.findall(r"(?<![\w-])--[A-Za-z][\w-]*", README))
    assert named - known <= {"--check", "--dry-run", "--from"}  # of ruff, /compact, uvx


def test_the_commands_to_start_and_to_test_are_there() -> None:
    assert "pip install -q -e . && .venv/bin/python -m agent --offline" in README
    assert "<!-- tests -->" in README


def test_the_readme_shows_a_line_of_each_kind_of_the_record() -> None:
    block = README.partition("```json\n")[2].partition("```")[0]
    shown = [json.loads(line)["kind"] for line in block.splitlines()]
    assert shown == list(FACT_TYPES)
