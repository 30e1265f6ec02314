"""Syntax of rules, and storing and reading them."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.permissions.permission_store import store_rule, stored_rules
from agent.permissions.rule_syntax import Rule, known_rules, parse_rules
from agent.permissions.rules import PermissionRules, judge_call
from tests.tables import each_row
from tools.base import Access

AWKWARD_LINES = [
    "make > out.txt", "echo $(date), edit(x) write", "(cd a && make)", "f() { ls; }; f",
    "case a in a) b;; esac",
    "echo ')'", "echo '('", "echo \\)", "echo \\\\", "echo a\\", "echo \"it's\" 'a\"b'", "a\nb\n\nc", "x:*",
    "=x", "==", "bash(=ls)", ")(", "((", "))", "\\(\\", "echo é\u2028", "a,b", "*", "echo [a] {b,c}",
]  # fmt: skip


def run(line: str, *allow: Rule, deny: tuple[Rule, ...] = ()) -> str:
    return judge_call("bash", [Access("run", line)], PermissionRules("manual", allow, deny, "/w")).answer


@each_row("text", ["mcp__calc__*", "mcp__calc", "mcp__calc__add"])
def test_a_rule_is_about_one_tool_of_a_server_or_all(text: str) -> None:
    (rule,) = parse_rules(text)
    assert str(rule) == text and rule.names("mcp__calc__add")
    assert rule.names("mcp__calc__mul") is (text != "mcp__calc__add")
    assert not rule.names("mcp__calculator__add") and not rule.names("bash")


def test_rules_about_tools_that_there_are_not_can_be_distinguished() -> None:
    found, unknown = known_rules("Read, NotebookEdit(*.py), Bash(git:*), LSP")
    assert (list(map(str, found)), len(unknown)) == (["read", "bash(git)"], 2)
    with pytest.raises(ValueError, match="cannot match"):
        known_rules("bash()")


@each_row("line", AWKWARD_LINES)
def test_a_rule_for_one_line_survives_being_stored_and_covers_that_line_alone(
    line: str, tmp_path: Path
) -> None:
    rule = Rule("bash", line, exact=True)
    store_rule(tmp_path / "rules.toml", rule)
    (kept,) = stored_rules(tmp_path / "rules.toml")
    assert kept == rule and kept.exact
    assert kept.is_exactly(f" {line}\n") and not kept.is_exactly(f"{line} x")
    assert run(line, kept) == "allow" and run(line, Rule("bash"), deny=(kept,)) == "deny"
    assert run(f"{line}\nls", kept) == "ask" and run(f"{line}\nls", Rule("bash"), deny=(kept,)) == "allow"


@given(st.text(alphabet="ab ()\\=,'\"\n:*[]", min_size=1, max_size=12))
def test_what_a_rule_is_written_as_is_read_as_the_same_rule(text: str) -> None:
    if pattern := text.strip(" \t\n"):
        rule = Rule("bash", pattern, exact=True)
        assert parse_rules(f"edit, {rule} write") == (Rule("edit"), rule, Rule("write"))


def test_a_rule_for_one_line_covers_no_longer_one() -> None:
    (rule,) = parse_rules("bash(=git status)")
    assert run("git status", rule) == "allow"
    assert run("git status -s", rule) == "ask"
    assert run("git status; git status", rule) == "ask"


def test_rules_with_single_brackets_are_read_as_before() -> None:
    assert parse_rules("bash(echo (x), edit") == (Rule("bash", "echo (x", exact=True), Rule("edit"))
    assert parse_rules("write(a\\)") == (Rule("write", "a\\"),)


@each_row("line", ["make > log", "a && b", "echo 'x'", "X=1 make", "ls | wc -l", "echo $HOME"])
def test_a_pattern_of_more_than_plain_words_is_one_whole_line(line: str) -> None:
    assert parse_rules(f"bash({line})") == (Rule("bash", line, exact=True),)


@each_row(
    ("rule", "reason"),
    [
        ("bash()", "write bash for every use of bash"),
        ("bash(:*)", "write bash for every use of bash"),
        ("Bash( :* )", "write bash for every use of bash"),
        ("bash(=)", "its parentheses are empty"),
        ("edit()", "write edit for every use of edit"),
        ("mcp__x__y( )", "write mcp__x__y for every use"),
        ("bash(a\0b)", "its parentheses are empty"),
        ("bash(curl * | sh)", "contains more than the words of one command"),
        ("bash(X=1 make *)", "contains more than the words of one command"),
        ('bash(git commit -m "*")', "contains more than the words of one command"),
        ("bash(while *)", "'while' is a reserved word of the shell"),
        ("bash(if)", "'if' is a reserved word of the shell"),
        ("edit(docs/)", "write docs/* for the files in it"),
        ("edit(../x)", "without `//`, `.` and `..`"),
        ("write(a//b)", "without `//`, `.` and `..`"),
        ("read(a/./b)", "without `//`, `.` and `..`"),
        ("open", "open takes a command line in parentheses"),
        ("open()", "its parentheses are empty"),
        ("net", "net takes a host in parentheses"),
        ("net(1.2.3.4)", "addresses are not allowed"),
        ("net([::1])", "addresses are not allowed"),
        ("net(::1)", "addresses are not allowed"),
        ("net(0x7f000001)", "addresses are not allowed"),
        ("net(me@host.example)", "user name is not allowed"),
        ("net(host.example.)", "ends with a dot"),
        ("net(h\u00f6st.example)", "internationalized"),
        ("net(xn--hst-sna.example)", "internationalized"),
        ("net(host.example:22)", "addresses are not allowed"),
        ("net(*.example)", "not a host name"),
        ("net(host.example/x)", "not a host name"),
        ("net(a\0b)", "its parentheses are empty"),
    ],
)
def test_a_rule_that_cannot_match_is_refused_with_the_reason(rule: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)) as refusal:
        parse_rules(rule)
    assert str(refusal.value).startswith(f"the rule {rule!r} cannot match anything: ")


def test_rules_about_the_sandbox_name_a_line_or_a_host() -> None:
    assert parse_rules("open(git push origin $(x) :*)") == (Rule("open", "git push origin $(x) :*"),)
    assert parse_rules("Open(=git push)") == (Rule("open", "git push"),)
    assert parse_rules("net(Registry.Example), net(a.example:443) net(localhost)") == (
        Rule("net", "registry.example"),
        Rule("net", "a.example"),
        Rule("net", "localhost"),
    )
    assert parse_rules("net(Localhost:05432)") == (Rule("net", "localhost:5432"),)
    for text in ("net(localhost:1023)", "net(localhost:65536)", "net(127.0.0.1:5432)", "net(localhost:x)"):
        with pytest.raises(ValueError, match="addresses are not allowed"):
            parse_rules(text)
    with pytest.raises(ValueError, match=re.escape("did you mean 'open(git push)'?")):
        parse_rules("opn(git push)")


def test_a_path_is_written_in_the_form_that_is_compared() -> None:
    assert parse_rules("edit(./docs/*)") == (Rule("edit", "docs/*"),)
    assert parse_rules("edit(/etc/*) read(.env*)") == (Rule("edit", "/etc/*"), Rule("read", ".env*"))


def test_no_reserved_word_of_bash_is_taken_for_a_program() -> None:
    """`time` runs a program, and `]]` ends what only `[[` can begin."""
    words = subprocess.run(["bash", "-c", "compgen -k"], capture_output=True, text=True, check=True).stdout
    reserved = set(words.split()) - {"time", "]]"}
    assert len(reserved) > 15
    for word in reserved:
        with pytest.raises(ValueError, match="is a reserved word of the shell"):
            parse_rules(f"bash({word} x)")
