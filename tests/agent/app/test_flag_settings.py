"""--settings in makeroom's format or Claude Code's, and the files of system prompts."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.app import Options
from agent.app.flag_settings import GivenSettings, given_settings, with_prompt_files
from agent.errors import ConfigError, UsageError
from tests.tables import each_row


@each_row(
    ("given", "meant"),
    [
        ({"effort": "low"}, GivenSettings({"effort": "low"})),
        (
            {"permissions": {"allow": ["Bash(ls:*)"], "deny": ["Bash(rm:*)"], "ask": []}},
            GivenSettings({"allow": ["bash(ls)"], "deny": ["bash(rm)"]}),
        ),
        (
            {"deny": ["edit"], "permissions": {"deny": ["Bash(rm:*)"]}},
            GivenSettings({"deny": ["edit", "bash(rm)"]}),
        ),
        ({"permissions": {"defaultMode": "default"}}, GivenSettings({"permission_mode": "manual"})),
        ({"permissions": {"defaultMode": "whatever"}}, GivenSettings({"permission_mode": "whatever"})),
        ({"permissions": {"additionalDirectories": ["../a"]}}, GivenSettings(add_dirs=("../a",))),
        ({"permissions": None, "env": {"COLOUR": 1}}, GivenSettings(environ={"COLOUR": "1"})),
        (
            {"outputStyle": "terse", "statusLine": {}},
            GivenSettings({"output_style": "terse", "status_line": {}}),
        ),
        ({"outputStyle": ""}, GivenSettings({"outputStyle": ""})),
        (
            {"theme": "dark", "disableAllHooks": True},
            GivenSettings(
                remarks=(
                    "--settings: theme has no effect here",
                    "--settings: disableAllHooks has no effect here",
                )
            ),
        ),
        ({"sandbox": {"enabled": True}}, GivenSettings({"sandbox": {"mode": "require"}})),
        ({"sandbox": {"enabled": False}}, GivenSettings({"sandbox": {"mode": "auto"}})),
        ({"sandbox": {"mode": "off"}}, GivenSettings({"sandbox": {"mode": "off"}})),
        ({"sandbox": "off"}, GivenSettings({"sandbox": "off"})),
    ],
)
def test_settings_of_the_flag_may_be_ours_or_those_of_claude_code(
    tmp_path: Path, given: dict[str, Any], meant: GivenSettings
) -> None:
    assert given_settings(json.dumps(given), None, tmp_path) == meant
    (tmp_path / "given.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(given).encode())
    assert given_settings(" given.json", None, tmp_path) == meant


@each_row(
    ("given", "why"),
    [
        ("{", "--settings: not a valid JSON object ("),
        ("list.json", "list.json: not a JSON object"),
        ("nowhere.json", "nowhere.json: No such file or directory; pass a file or a JSON object"),
        ('{"permissions": 1}', "--settings: permissions and env must be objects"),
        ('{"env": [1]}', "--settings: permissions and env must be objects"),
        ('{"permissions": {"deny": "Bash(rm *)"}}', "--settings: permissions.deny must be a list"),
        ('{"permissions": {"ask": {}}}', "--settings: permissions.ask must be a list"),
        (
            '{"permissions": {"additionalDirectories": "../a"}}',
            "permissions.additionalDirectories must be a list",
        ),
        ('{"permissions": {"allow": ["Bash(ls"]}}', "--settings: "),
        (
            '{"sandbox": {"enabled": true, "network": {}}}',
            "--settings: sandbox.network cannot be enforced here",
        ),
    ],
)
def test_settings_of_the_flag_that_cannot_be_read_end_the_start(tmp_path: Path, given: str, why: str) -> None:
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises((ConfigError, UsageError)) as caught:
        given_settings(given, None, tmp_path)
    assert why in str(caught.value)


def test_a_rule_of_the_flag_about_an_unknown_tool_is_reported(tmp_path: Path) -> None:
    given = given_settings('{"permissions": {"deny": ["LSP", "Bash(rm:*)"]}}', None, tmp_path)
    assert given.entries == {"deny": ["bash(rm)"]}
    (remark,) = given.remarks
    assert remark.startswith("--settings: ") and "LSP" in remark


def test_without_settings_the_flag_limits_only_the_sources(tmp_path: Path) -> None:
    assert given_settings(" ", ("user",), tmp_path) == GivenSettings(sources=("user",))
    assert [GivenSettings(sources=sources).reads("user") for sources in (None, ("user",), ())] == [
        True,
        True,
        False,
    ]
    (tmp_path / "given.toml").write_text("effort = 'low'\n[compact]\npolicy = 'classic'\n")
    assert given_settings("given.toml", None, tmp_path).entries == {
        "effort": "low",
        "compact": {"policy": "classic"},
    }


def test_system_prompts_are_read_from_their_files(tmp_path: Path) -> None:
    (tmp_path / "whole.md").write_bytes(b"\xef\xbb\xbfYou are terse.")
    (tmp_path / "more.md").write_text("Use tabs.")
    given = Options(
        system_prompt_file="whole.md",
        append_system_prompt="Be kind.",
        append_system_prompt_file=str(tmp_path / "more.md"),
    )
    read = with_prompt_files(given, tmp_path)
    assert (read.system_prompt, read.append_system_prompt) == ("You are terse.", "Be kind.\n\nUse tabs.")
    assert with_prompt_files(Options(), tmp_path) == Options()
    with pytest.raises(UsageError, match=r"cannot read the system prompt from .*none\.md: No such file"):
        with_prompt_files(Options(system_prompt_file="none.md"), tmp_path)
