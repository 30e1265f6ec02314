"""The README's tables, and those of the figures, say what the program says."""

import json
import re
import subprocess
from pathlib import Path
from shutil import which

import pytest

from agent.cli.arguments import EXIT_CODES, parser
from agent.commands import COMMANDS
from agent.replay.figures import MARKDOWN_COLUMNS
from agent.replay.policies import PRICE_TIERS, REPLAY_POLICIES
from tools import BUILTIN
from transcripts.codec import encode_fact
from transcripts.facts import FACT_TYPES, User
from transcripts.file_states import RECORD_FOLDERS
from transcripts.messages import ImageBlock, TextBlock, injected
from transcripts.stored_outputs import OUTPUTS_FOLDER

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
ECONOMY = (ROOT / "docs" / "ECONOMY.md").read_text("utf-8")


def table_of_commands() -> str:
    rows = [f"| `/{command.name}` | {command.help} |" for command in COMMANDS]
    return "\n".join(["| command | |", "|---|---|", *rows])


def test_every_command_stands_in_the_readme_with_its_help() -> None:
    assert table_of_commands() in README


def test_every_built_in_tool_stands_in_the_readme() -> None:
    assert f"| **Tools** | {', '.join(f'`{name}`' for name in BUILTIN)} |" in README


def test_every_flag_that_the_readme_names_exists() -> None:
    known = {flag for action in parser()._actions for flag in action.option_strings}
    replay = (ROOT / "agent" / "replay" / "command.py").read_text("utf-8")
    known |= set(re.findall(r'"(--[a-z][a-z-]*)"', replay))
    known |= {option for command in COMMANDS for option in command.options}
    named = set(re.findall(r"(?<![\w-])--[A-Za-z][\w-]*", README + ECONOMY))
    assert named - known <= {"--check", "--from"}  # of ruff, uvx


def test_the_table_of_prices_has_a_row_for_each_policy_and_tier_and_the_columns_of_replay() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", ECONOMY, re.MULTILINE)
    assert rows == [(policy, tier) for policy in REPLAY_POLICIES for tier in PRICE_TIERS]
    assert f"| policy | prices | {' | '.join(name for name, _ in MARKDOWN_COLUMNS)} |" in ECONOMY


def test_the_figures_that_the_readme_names_are_those_of_the_other_half_with_our_tools() -> None:
    rows = re.findall(r"^\| (standard|cheap|cheapest|hour) \| (0.* / .*) \|$", ECONOMY, re.MULTILINE)
    other = {tier: [cell.partition(" / ")[2] for cell in cells.split(" | ")] for tier, cells in rows}
    means = [other[tier][1] for tier in ("standard", "cheap", "cheapest")]
    worst = max(row[3] for row in other.values())
    assert f"costs {means[0]} of what" in README
    assert f"({means[1]} to {means[2]} at cheaper" in README
    assert f"the worst session {worst}." in README


def test_the_exit_code_of_a_denial_is_told_as_what_it_is() -> None:
    assert "4 permission denied to the last call before the answer" in EXIT_CODES
    assert "where the last call before the answer was denied, the exit code is 4" in README


def test_the_folders_of_the_record_that_the_documents_name_are_those_in_use() -> None:
    places = "|".join(map(re.escape, RECORD_FOLDERS))
    texts = [README, *(path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md"))]
    named = {found for text in texts for found in re.findall(rf"(?:{places})/[\w-]+", text)}
    assert OUTPUTS_FOLDER.as_posix() in named
    assert named <= {OUTPUTS_FOLDER.as_posix(), ".transcripts/search"}


def test_the_commands_to_start_and_to_test_are_there() -> None:
    assert "pip install -q -e . && .venv/bin/python -m agent --offline" in README
    assert "<!-- tests -->" in README


@pytest.mark.skipif(which("jq") is None, reason="jq is not installed")
def test_the_line_for_jq_shows_what_was_said_and_nothing_else(tmp_path: Path) -> None:
    added = (injected("branch: main"), "<hook>\nremember\n</hook>")
    prompt = User(1, 1.0, (*map(TextBlock, added), ImageBlock("image/png", "AA"), TextBlock("fix it")))
    (tmp_path / "ID.jsonl").write_bytes(encode_fact(prompt, "s"))
    (line,) = (line for line in README.splitlines() if line.startswith("jq -r") and '"user"' in line)
    assert subprocess.check_output(line, shell=True, cwd=tmp_path, text=True) == "fix it\n"


def test_the_readme_shows_a_line_of_each_kind_of_the_record() -> None:
    block = README.partition("```json\n")[2].partition("```")[0]
    shown = [json.loads(line)["kind"] for line in block.splitlines()]
    assert shown == list(FACT_TYPES)
