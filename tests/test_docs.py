"""README and docs say what the program says: generated pages, names, links, figures, commands."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from shutil import which
from types import ModuleType

import pytest

from agent.cli.arguments import EXIT_CODES, parser
from agent.commands import COMMANDS
from agent.ports import HookEvent
from agent.replay.figures import MARKDOWN_COLUMNS
from agent.replay.policies import DEFAULT_POLICIES, PRICE_TIERS
from tests.tables import each_row
from transcripts.codec import encode_fact
from transcripts.data_tags import injected
from transcripts.facts import FACT_TYPES, User
from transcripts.file_states import RECORD_FOLDERS
from transcripts.messages import ChannelBlock, ImageBlock, TextBlock, attached
from transcripts.stored_outputs import OUTPUTS_FOLDER

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text("utf-8")
ECONOMY = (DOCS / "ECONOMY.md").read_text("utf-8")
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sorted(DOCS.rglob("*.md"))}
PAGES |= {name: (ROOT / name).read_text("utf-8") for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")}
FOR_DEVELOPERS = ("docs/ARCHITECTURE.md", "docs/ECONOMY.md", "CONTRIBUTING.md")
MAX_README_LINES = 150
MAX_README_WORDS = 900
MAX_SENTENCE_WORDS = 30


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_reference_pages_are_up_to_date() -> None:
    behind = [
        name
        for name, text in _script("make_reference").pages().items()
        if (DOCS / name).read_text("utf-8") != text
    ]
    assert behind == [], "run docs/make_reference.py"


def test_the_chart_shows_the_figures_of_the_table() -> None:
    made = _script("make_chart")
    assert (DOCS / "cost.svg").read_text("utf-8") == made.chart(made.costs(ECONOMY))


def test_the_readme_fits_its_limits() -> None:
    assert len(README.splitlines()) <= MAX_README_LINES
    assert len(README.split()) <= MAX_README_WORDS


def _sentences(text: str) -> list[str]:
    """Return the sentences of a page's prose: no code, no tables, no comments."""
    prose = re.sub(r"```.*?```|<!--.*?-->|^\|.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    blocks = re.split(r"\n\s*\n|\n\s*(?:[-*#]|\d+\.) ", prose)
    return [part for block in blocks for part in re.split(r"(?<=[.?!:]) ", " ".join(block.split())) if part]


@each_row("name", [name for name in PAGES if not name.startswith(FOR_DEVELOPERS)])
def test_no_sentence_of_a_page_for_users_is_long(name: str) -> None:
    if "make_reference.py. Do not edit" in PAGES[name]:
        pytest.skip("the generated pages show texts of the program, which have their own check")
    assert [each for each in _sentences(PAGES[name]) if len(each.split()) > MAX_SENTENCE_WORDS] == []


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@each_row("name", PAGES)
def test_every_link_to_a_file_of_the_repository_leads_somewhere(name: str) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", PAGES[name], flags=re.DOTALL)):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        path = (ROOT / name).parent / place if place else ROOT / name
        headings = (
            re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE) if path.suffix == ".md" else []
        )
        if not path.exists() or (anchor and anchor not in map(_anchor, headings)):
            broken.append(target)
    assert broken == []


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="the docs extra is not installed")
def test_the_pages_build_as_a_site(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "reference" / "commands" / "index.html").is_file()


def test_every_flag_that_the_pages_name_exists() -> None:
    known = {flag for action in parser()._actions for flag in action.option_strings}
    for source in ((ROOT / "agent" / "replay" / "command.py"), *(ROOT / "agent" / "cli").glob("*.py")):
        known |= set(re.findall(r'"(--[a-z][a-z-]*)"', source.read_text("utf-8")))
    known |= {option for command in COMMANDS for option in command.options}
    texts = "".join(
        text for name, text in PAGES.items() if not name.endswith(("CONTRIBUTING.md", "ARCHITECTURE.md"))
    )
    named = set(re.findall(r"(?<![\w-])--[A-Za-z][\w-]*", texts))
    # of ruff, uvx, git, grep, venv
    others = {"--check", "--from", "--no-edit", "--line-buffered", "--upgrade-deps"}
    assert named - known <= others


def test_every_command_that_the_pages_name_exists() -> None:
    known = {name for command in COMMANDS for name in (command.name, *command.aliases)}
    texts = "".join(text for name, text in PAGES.items() if "reference" not in name)
    named = set(re.findall(r"`/([a-z][a-z-]*)\b(?!/)", texts))
    others = {"login", "proc", "tmp"}  # a command of Claude Code, directories
    assert named - known <= others


def test_every_environment_variable_of_the_reference_is_read_by_the_program() -> None:
    named = set(re.findall(r"`([A-Z][A-Z0-9_]{3,})(?:=\w+)?`", PAGES["docs/reference/environment.md"]))
    sources = "".join(
        path.read_text("utf-8")
        for room in ("agent", "tools", "compact")
        for path in (ROOT / room).rglob("*.py")
    )
    composed = r"ANTHROPIC_DEFAULT_|CLAUDE_CODE_USE_"  # these are put together from parts
    assert [name for name in sorted(named) if name not in sources and not re.match(composed, name)] == []


def test_the_table_of_hook_events_is_complete() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGES["docs/reference/hooks.md"], re.MULTILINE)
    assert rows[: len(HookEvent)] == [
        "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Notification",
        "Stop", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd",
    ]  # fmt: skip
    assert sorted(rows[: len(HookEvent)]) == sorted(event.value for event in HookEvent)


def test_the_table_of_prices_has_a_row_for_each_policy_and_tier_and_the_columns_of_replay() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", ECONOMY, re.MULTILINE)
    assert rows == [(policy, tier) for policy in DEFAULT_POLICIES for tier in PRICE_TIERS]
    assert f"| policy | prices | {' | '.join(name for name, _ in MARKDOWN_COLUMNS)} |" in ECONOMY


def test_the_figures_of_the_readme_are_those_of_the_other_half() -> None:
    (row,) = re.findall(r"^\| `thrifty` \| standard \| (.*) \|$", ECONOMY, re.MULTILINE)
    _, mean, _, worst, *_ = (cell.partition(" / ")[2] for cell in row.split(" | "))
    assert f"{float(mean):.0%} of an uncompacted session".replace("%", " %") in README
    assert f"(worst case {float(worst):.0%})".replace("%", " %") in README
    page = " ".join(PAGES["docs/concepts/context.md"].split())
    assert f"costs {float(mean):.0%} of an uncompacted session".replace("%", " %") in page
    assert f"(worst case {float(worst):.0%})".replace("%", " %") in page


def test_the_figures_of_the_concepts_are_those_of_the_other_half_with_the_own_tools() -> None:
    rows = re.findall(r"^\| (standard|cheap|cheapest|hour) \| (0.* / .*) \|$", ECONOMY, re.MULTILINE)
    other = {tier: [cell.partition(" / ")[2] for cell in cells.split(" | ")] for tier, cells in rows}
    means = [other[tier][1] for tier in ("standard", "cheap", "cheapest")]
    worst = max(row[3] for row in other.values())
    page = " ".join(PAGES["docs/concepts/context.md"].split())
    standard, cheap, cheapest, dearest = (round(100 * float(each)) for each in (*means, worst))
    assert f"With makeroom's own, which are smaller, it costs {standard} %" in page
    assert f"{cheap} to {cheapest} % where cache reads are cheaper (worst case {dearest} %)" in page


def test_the_exit_code_of_a_denial_is_explained() -> None:
    assert "4 the last tool call before the answer was denied" in EXIT_CODES
    assert "If the last call before the answer was denied, the exit code is 4" in " ".join(
        PAGES["docs/guides/scripting.md"].split()
    )


def test_the_directories_of_the_transcript_that_the_pages_name_are_those_in_use() -> None:
    places = "|".join(map(re.escape, RECORD_FOLDERS))
    named = {found for text in PAGES.values() for found in re.findall(rf"(?:{places})/[\w-]+", text)}
    assert OUTPUTS_FOLDER.as_posix() in named
    assert named <= {OUTPUTS_FOLDER.as_posix(), ".transcripts/search"}


def test_the_commands_to_start_and_to_test_are_there() -> None:
    assert "pip install -q -e . && .venv/bin/python -m agent --offline --sample" in README
    assert "<!-- tests -->" in README


@pytest.mark.skipif(which("jq") is None, reason="jq is not installed")
def test_the_line_for_jq_shows_what_the_user_wrote_and_nothing_else(tmp_path: Path) -> None:
    added = (injected("branch: main"), "<hook>\nremember\n</hook>")
    blocks = (ChannelBlock("# Plan mode"), attached("File", "a.py", "x"), ImageBlock("image/png", "AA"))
    prompt = User(1, 1.0, (*map(TextBlock, added), *blocks, TextBlock("fix it")))
    (tmp_path / "ID.jsonl").write_bytes(encode_fact(prompt, "s"))
    page = PAGES["docs/reference/transcript-format.md"]
    (line,) = (line for line in page.splitlines() if line.startswith("jq -r") and '"user"' in line)
    assert subprocess.check_output(line, shell=True, cwd=tmp_path, text=True) == "fix it\n"


def test_the_transcript_format_shows_a_line_of_each_kind() -> None:
    block = PAGES["docs/reference/transcript-format.md"].partition("```json\n")[2].partition("```")[0]
    shown = [json.loads(line)["kind"] for line in block.splitlines()]
    assert shown == list(FACT_TYPES)
