"""How rules are written, stored and read again."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.permissions.permission_store import store_rule, stored_rules
from agent.permissions.rule_syntax import Rule, is_exactly, parse_rules
from agent.permissions.rules import PermissionRules, judge_call
from tools.base import Access

AWKWARD_LINES = [
    "make > out.txt", "echo $(date), edit(x) write", "(cd a && make)", "f() { ls; }; f",
    "case a in a) b;; esac",
    "echo ')'", "echo '('", "echo \\)", "echo \\\\", "echo a\\", "echo \"it's\" 'a\"b'", "a\nb\n\nc", "x:*",
    "=x", "==", "bash(=ls)", ")(", "((", "))", "\\(\\", "echo é\u2028", "a,b", "*", "echo [a] {b,c}",
]  # fmt: skip


def run(line: str, *allow: Rule, deny: tuple[Rule, ...] = ()) -> str:
    return judge_call("bash", [Access("run", line)], PermissionRules("manual", allow, deny, "/w")).answer


@pytest.mark.parametrize("line", AWKWARD_LINES)
def test_a_rule_for_one_line_survives_being_stored_and_covers_that_line_alone(
    line: str, tmp_path: Path
) -> None:
    rule = Rule("bash", line, exact=True)
    store_rule(tmp_path / "rules.toml", rule)
    (kept,) = stored_rules(tmp_path / "rules.toml")
    assert kept == rule and kept.exact
    assert is_exactly(kept, f" {line}\n") and not is_exactly(kept, f"{line} x")
    assert run(line, kept) == "allow" and run(line, Rule("bash"), deny=(kept,)) == "deny"
    assert run(f"{line}\nls", kept) == "ask" and run(f"{line}\nls", Rule("bash"), deny=(kept,)) == "allow"


@given(st.text(alphabet="ab ()\\=,'\"\n:*[]", min_size=1, max_size=12), st.booleans())
def test_what_a_rule_is_written_as_is_read_as_the_same_rule(text: str, exact: bool) -> None:
    pattern = text.strip(" \t\n")
    if pattern and (exact or not (pattern.startswith("=") or pattern.endswith(":*"))):
        rule = Rule("bash", pattern, exact=exact)
        assert parse_rules(f"edit, {rule} write") == (Rule("edit"), rule, Rule("write"))


def test_a_rule_for_one_line_covers_no_longer_one() -> None:
    (rule,) = parse_rules("bash(=git status)")
    assert run("git status", rule) == "allow"
    assert run("git status -s", rule) == "ask"
    assert run("git status; git status", rule) == "ask"


def test_rules_with_single_brackets_are_read_as_before() -> None:
    assert parse_rules("bash(echo (x), edit") == (Rule("bash", "echo (x"), Rule("edit"))
    assert parse_rules("write(a\\)") == (Rule("write", "a\\"),)
