"""The flags of programs that run makeroom: as SDKs write them, what has no effect, what is refused."""

import json

import pytest

from agent.cli.arguments import parse
from tests.tables import each_row

STREAMS = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")


def test_a_value_may_follow_its_flag_or_be_in_it_be_empty_or_begin_with_a_dash() -> None:
    beside = parse([*STREAMS, "--system-prompt", "-x", "--tools", "", "--max-turns", "3", "--model", "m"])
    within = parse([*STREAMS, "--system-prompt=-x", "--tools=", "--max-turns=3", "--model=m"])
    assert beside == within
    assert (beside.system_prompt, beside.tools, beside.max_turns, beside.headless) == ("-x", (), 3, True)


@each_row("text", ["Read,Bash(git:*)", "read Bash(git)", " Read , Bash(git:*),"])
def test_rules_are_distinguished_from_the_tools_of_other_agents(text: str) -> None:
    text = f"{text},NotebookEdit,mcp__calc__*"
    options = parse([*STREAMS, "--allowedTools", text, "--disallowedTools", "KillShell"])
    assert options.allowed_tools == ("read", "bash(git)", "mcp__calc__*")
    assert options.disallowed_tools == () and len(options.remarks) == 2
    assert "unknown tool in the rule 'NotebookEdit'" in options.remarks[0]


def test_a_last_word_after_rules_is_the_prompt_where_there_may_be_one() -> None:
    options = parse(["-p", "--allowedTools", "bash", "mend the tests"])
    assert (options.prompt, options.allowed_tools, options.remarks) == ("mend the tests", ("bash",), ())


@each_row("flag", ["--add-dir", "--mcp-config"])
@each_row(
    ("words", "values", "prompt"),
    [
        (["a", "b", "mend it"], ("a", "b"), "mend it"),
        (["a", "./b c"], ("a", "./b c"), ""),
        (["a b"], ("a b",), ""),
        (["a", "b c", "--", "mend", "it"], ("a", "b c"), "mend it"),
    ],
)
def test_several_directories_or_files_and_a_prompt(
    flag: str, words: list[str], values: tuple[str, ...], prompt: str
) -> None:
    options = parse(["-p", flag, *words])
    assert options.prompt == prompt
    assert (options.add_dirs or options.mcp_config) == values


@each_row(
    ("argv", "wanted"),
    [
        (["--max-thinking-tokens", "0"], {"thinking": False}),
        (["--max-thinking-tokens=8000"], {"thinking": True}),
        (["--thinking", "disabled"], {"thinking": False}),
        (["--thinking-display=omitted"], {"thinking_display": "omitted"}),
        (["--permission-prompt-tool", "stdio"], {"asks_client": True}),
        (["--setting-sources="], {"setting_sources": ()}),
        (["--setting-sources=user,project"], {"setting_sources": ("user", "project")}),
        (["--tools", "default"], {"tools": None}),
        (["--add-dir", "a", "b c", "--add-dir=d"], {"add_dirs": ("a", "b c", "d")}),
        (["--no-session-persistence"], {"no_session": True}),
        (["--permission-mode", "default"], {"permission_mode": "manual"}),
        (["--mcp-config", json.dumps({"mcpServers": {}})], {"mcp_config": ('{"mcpServers": {}}',)}),
        (["--strict-mcp-config"], {"strict_mcp_config": True}),
        (["--json-schema", "{}", "--betas", "a,b"], {"json_schema": "{}", "betas": ("a", "b")}),
    ],
)
def test_each_flag_has_its_value(argv: list[str], wanted: dict[str, object]) -> None:
    options = parse([*STREAMS, *argv])
    assert {name: getattr(options, name) for name in wanted} == wanted and options.remarks == ()


@each_row(
    "argv",
    [
        ["--task-budget", "5"],
        ["--debug"],
        ["-d"],
        ["--bare"],
        ["--permission-mode", "auto"],
    ],
)
def test_what_has_no_effect_is_reported_in_one_line(argv: list[str]) -> None:
    (remark,) = parse(["-p", "x", *argv]).remarks
    assert argv[0] in remark


@pytest.mark.parametrize(
    "argv",
    [
        [*STREAMS, "a prompt"],
        ["-p", "--input-format", "stream-json"],
        [*STREAMS, "--permission-prompt-tool", "mcp__a__b"],
        ["-p", "x", "--permission-prompt-tool", "stdio"],
        [*STREAMS, "--session-mirror"],
        [*STREAMS, "--resume-session-at=1"],
        [*STREAMS, "--setting-sources=global"],
        [*STREAMS, "--session-id=1", "--resume=2"],
    ],
)
def test_what_cannot_be_kept_is_refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(argv)
    told = capsys.readouterr().err
    assert told.startswith("error: ") and told.count("\n") == 1


def test_effort_off_is_not_thinking() -> None:
    asked = parse(["--effort", "off"])
    assert asked.effort == "off"
    assert parse(["--effort", "high"]).thinking is None
