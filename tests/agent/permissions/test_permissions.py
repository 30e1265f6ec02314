"""May a call go ahead: modes, rules, and command lines that try to hide what they do."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.cli.arguments import parse
from agent.loop.call_permission import rules_for_session
from agent.permissions.modes import MODES, mode_named
from agent.permissions.rule_syntax import Rule, parse_rules
from agent.permissions.rules import PermissionRules, Verdict, judge_call
from agent.ports import Cause, PermissionQuestion
from agent.shell.simple_commands import parse_simple_commands
from agent.ui import approval_choices
from tests.tables import each_row
from tools.base import Access
from tools.user_questions import Preview

FOLDER = "/w/app"


def rules(*allow: str, deny: tuple[str, ...] = (), mode: str = "manual") -> PermissionRules:
    allowed, denied = (tuple(rule for text in texts for rule in parse_rules(text)) for texts in (allow, deny))
    return PermissionRules(mode, allowed, denied, FOLDER)  # type: ignore[arg-type]


def run(command: str, given: PermissionRules) -> str:
    return judge_call("bash", [Access("run", command)], given).answer


def always_rule(command: str) -> Rule | None:
    return judge_call("bash", [Access("run", command)], PermissionRules()).prefix


def write(path: str, given: PermissionRules, *, outside: bool = False, protected: bool = False) -> str:
    access = Access("write", path, outside=outside, protected=protected)
    return judge_call("write", [access], given).answer


def test_reading_inside_is_free_and_everything_else_is_asked() -> None:
    assert judge_call("read", [Access("read", f"{FOLDER}/a")], rules()).answer == "allow"
    assert judge_call("read", [Access("read", "/etc/passwd", outside=True)], rules()).answer == "ask"
    assert run("ls", rules()) == "ask"
    assert write(f"{FOLDER}/a", rules()) == "ask"
    assert judge_call("compact", [Access("none")], rules()).answer == "allow"


def test_what_is_not_there_needs_no_approval_where_a_command_can_look_unasked() -> None:
    missing = [Access("read", "/etc/x", outside=True, missing=True)]
    assert judge_call("read", missing, rules()).answer == "ask"
    assert judge_call("read", missing, replace(rules(), sandboxed=True)).answer == "allow"
    assert judge_call("read", missing, replace(rules(), sandboxed=True, asks_sandboxed=True)).answer == "ask"
    denying = replace(rules(), sandboxed=True, deny=(Rule("read", "/etc/*"),))
    assert judge_call("read", missing, denying).answer == "deny"


def test_the_modes_are_chosen_by_these_names() -> None:
    assert PermissionRules().mode == "manual"
    assert MODES == ("manual", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
    for mode in MODES:
        assert parse(["--permission-mode", mode]).permission_mode == mode


def test_modes_are_known_by_the_names_of_clients_too() -> None:
    assert [mode_named(name) for name in ("default", "auto", "plan")] == ["manual", "manual", "plan"]
    assert mode_named("whatever") is None


def test_where_a_client_wants_to_be_asked_the_sandbox_saves_no_question() -> None:
    given = replace(rules("bash(make)"), sandboxed=True)
    assert run("touch x", given) == "allow"
    asks = replace(given, asks_sandboxed=True)
    assert (run("touch x", asks), run("make", asks)) == ("ask", "allow")
    assert judge_call("bash", [Access("run", "touch x")], asks).sandboxed


def test_no_one_is_asked_in_dont_ask() -> None:
    assert run("ls", rules(mode="dontAsk")) == "deny"
    assert run("ls", rules("bash(ls)", mode="dontAsk")) == "allow"


def test_accept_edits_frees_the_project_but_not_protected_or_outside_places() -> None:
    given = rules(mode="acceptEdits")
    assert write(f"{FOLDER}/a", given) == "allow"
    assert write("/etc/hosts", given, outside=True) == "ask"
    assert write(f"{FOLDER}/.git/hooks/pre-commit", given, protected=True) == "ask"
    assert run("ls", given) == "ask"


@each_row("rule", ["write", "write(*)", "write(.git/*)", f"write({FOLDER}/.git/hooks/pre-commit)"])
def test_no_rule_opens_a_protected_place_for_writing(rule: str) -> None:
    assert write(f"{FOLDER}/.git/hooks/pre-commit", rules(rule), protected=True) == "ask"


def test_a_rule_opens_nothing_outside_the_project_that_it_does_not_name() -> None:
    for rule in ("write", "write(*)", "edit(**)", "edit(*.json)", "write(**/a.json)"):
        assert write("/home/me/a.json", rules(rule), outside=True) == "ask"
        assert write(f"{FOLDER}/a.json", rules(rule)) == "allow"
    assert write("/home/me/a.json", rules("edit(/home/me/*.json)"), outside=True) == "allow"
    secret = Access("read", f"{FOLDER}/.env", protected=True)
    answers = [judge_call("read", [secret], rules(rule)).answer for rule in ("read(*)", "read(.env)")]
    assert answers == ["ask", "allow"]


def test_the_strictest_verdict_over_all_accesses_counts() -> None:
    inside, outside = Access("write", f"{FOLDER}/a"), Access("write", "/etc/hosts", outside=True)
    given = rules("write", deny=("write(/etc/*)",))
    for accesses, answer in (([], "allow"), ([inside], "allow"), ([inside, outside], "deny")):
        assert judge_call("write", accesses, given).answer == answer
    asked = Access("write", f"{FOLDER}/.git/config", protected=True)
    assert judge_call("write", [asked, outside, inside], given).answer == "deny"
    assert judge_call("write", [inside, asked], given).answer == "ask"


def test_a_rule_is_about_its_own_tool_alone() -> None:
    editing = [Access("write", f"{FOLDER}/a")]
    assert judge_call("edit", editing, rules("write")).answer == "ask"
    assert judge_call("read", [Access("read", "/etc/a", outside=True)], rules("edit(/etc/*)")).answer == "ask"
    assert write(f"{FOLDER}/a", rules("write", deny=("read",))) == "allow"
    assert run("ls", rules("write(ls)")) == "ask"
    assert run("ls", rules("bash(ls)", deny=("edit(ls)",))) == "allow"


def test_a_deny_rule_about_editing_is_about_every_tool_that_writes() -> None:
    for rule in ("edit", "edit(docs/*)", f"edit({FOLDER}/docs/a.md)"):
        given = rules("write", deny=(rule,), mode="bypassPermissions")
        assert write(f"{FOLDER}/docs/a.md", given) == "deny"
        assert judge_call("mcp__x__y", [Access("write", f"{FOLDER}/docs/a.md")], given).answer == "deny"
        assert judge_call("read", [Access("read", f"{FOLDER}/docs/a.md")], given).answer == "allow"
        assert write(f"{FOLDER}/b", given) == ("deny" if rule == "edit" else "allow")
    editing = judge_call("edit", [Access("write", f"{FOLDER}/a")], rules(deny=("write",), mode="acceptEdits"))
    assert editing.answer == "allow"


def test_a_rule_that_allows_editing_is_about_every_tool_that_writes() -> None:
    assert write(f"{FOLDER}/a", rules("edit")) == "allow"
    assert [write(f"{FOLDER}/{name}", rules("edit(docs/*)")) for name in ("docs/a", "a")] == ["allow", "ask"]
    assert write(f"{FOLDER}/a", rules("edit", deny=("write",))) == "deny"
    assert write("/home/me/.bashrc", rules("edit"), outside=True) == "ask"
    assert write(f"{FOLDER}/.git/hooks/x", rules("edit", "edit(.git/*)"), protected=True) == "ask"


def test_a_deny_rule_about_reading_is_about_every_tool_that_reads() -> None:
    for rule in ("read", "read(docs/*)", "grep(docs/a.md)"):
        given = rules("write", deny=(rule,), mode="bypassPermissions")
        verdict = judge_call("grep", [Access("read", f"{FOLDER}/docs/a.md")], given)
        assert verdict.answer == "deny" and not given.may_search("grep", f"{FOLDER}/docs/a.md")
        assert given.may_search("grep", f"{FOLDER}/src/a.md") == (rule != "read")
    given = rules("write", deny=("grep(docs/a.md)",))
    assert judge_call("read", [Access("read", f"{FOLDER}/docs/a.md")], given).answer == "allow"
    assert given.may_search("glob", f"{FOLDER}/docs/a.md")


def test_deny_and_ask_rules_hold_whatever_the_letter_case_of_a_path() -> None:
    given = replace(rules("read", deny=("read(Docs/*)", "edit(~/.ssh/*)")), home="/Home/Me")
    for path in ("docs/a", "DOCS/a"):
        assert judge_call("read", [Access("read", f"{FOLDER.upper()}/{path}")], given).answer == "deny"
        assert not given.may_search("grep", f"{FOLDER}/{path}")
    assert write("/home/ME/.SSH/id", given, outside=True) == "deny"
    given = replace(rules(mode="bypassPermissions"), ask=parse_rules("read(docs/*)"))
    assert judge_call("read", [Access("read", f"{FOLDER}/DOCS/a")], given).answer == "ask"
    assert write(f"{FOLDER}/DOCS/a", rules("edit(docs/*)")) == "ask", "an allow rule is exact"


def test_a_deny_rule_for_a_whole_tool_holds_where_the_call_accesses_nothing() -> None:
    assert judge_call("recall", [Access("none")], rules(deny=("recall",))).answer == "deny"
    assert judge_call("recall", [Access("none")], rules(deny=("compact", "bash(x)"))).answer == "allow"


def test_a_rule_may_begin_with_the_home_directory() -> None:
    given = replace(rules("read", deny=("read(~/.ssh/*)",)), home="/home/[me]")
    for path, answer in (
        ("/home/[me]/.ssh/id", "deny"),
        ("/home/me/.ssh/id", "ask"),
        (f"{FOLDER}/a", "allow"),
    ):
        access = Access("read", path, outside=not path.startswith(FOLDER))
        assert judge_call("read", [access], given).answer == answer


def test_a_question_says_what_it_is_about_and_what_always_would_allow() -> None:
    place = f"{FOLDER}/a"
    causes: dict[str, Cause] = {
        "it writes a file": "edit",
        "outside the project": "outside",
        "it runs a command": "unproved",
        "it removes the root directory": "irreversible",
    }
    for access, why, prefix in (
        (Access("write", place), "it writes a file", Rule("edit")),
        (Access("write", place, protected=True), "a file there may be run later, or grant permissions", None),
        (Access("write", f"{FOLDER}/.env", protected=True), "it may contain secrets", None),
        (Access("read", place, protected=True), "it may contain secrets", None),
        (Access("read", "/etc/passwd", outside=True), "outside the project", None),
        (Access("read", "/root/.netrc", outside=True, protected=True), "it may contain secrets", None),
        (Access("run", "git status -s"), "it runs a command", Rule("bash", "git status")),
        (Access("run", "rm -rf /"), "it removes the root directory", None),
    ):
        binding = access.protected or "removes" in why
        asked = Verdict("ask", why, prefix, binding=binding, cause=causes.get(why, ""))
        assert judge_call("write", [access], rules()) == asked


def test_bypass_frees_everything_but_ruin() -> None:
    given = rules(mode="bypassPermissions")
    assert run("make", given) == "allow"
    assert write("/etc/hosts", given, outside=True) == "allow"


SYSTEM_FOLDERS = (
    "bin boot dev etc home lib lib64 media mnt opt proc root run sbin srv sys usr var Users System Library"
    " Applications Volumes"
)


def test_removing_a_system_directory_is_irreversible_and_removing_one_within_it_is_not() -> None:
    given = rules(mode="bypassPermissions")
    for name in SYSTEM_FOLDERS.split():
        assert run(f"rm -rf /{name}", given) == run(f"rm -rf /{name}/*", given) == "ask", name
        assert run(f"rm -rf /{name}/share/x", given) == "allow", name


@each_row(
    "command",
    ["rm -rf /", "rm -rf ~", "rm -fr $HOME", 'sudo rm -r "/"', "cd / && rm -rf /*", "rm -rf ${HOME}"],
)
def test_irreversible_effects_need_approval_even_in_bypass(command: str) -> None:
    assert run(command, rules("bash", mode="bypassPermissions")) == "ask"


def test_deny_beats_allow_and_bypass() -> None:
    given = rules("bash(git *)", deny=("bash(git push)",), mode="bypassPermissions")
    assert run("git status", given) == "allow"
    assert run("git push origin", given) == "deny"
    assert run("git status && git push", given) == "deny"


@each_row(
    "command",
    [
        "git status && rm x",
        "git status; rm x",
        "git status | sh",
        "git status & rm x",
        "git status\nrm x",
        "git status $(rm x)",
        "git status `rm x`",
        'git status "$(rm x)"',
        "git log \"it's $(rm x) it's\"",
        "git status > /etc/passwd",
        "git status >> ~/.bashrc",
        "git status <(rm x)",
        "PATH=/tmp git status",
        "env git status",
        "sudo git status",
        "bash -c 'git status'",
        "{ git status; rm x; }",
        "(git status)",
        "git status <<EOF\nx\nEOF",
        "gi\\\nt status; rm x",
        "git status $'\\x3b' rm",
        "${x:-rm} y",
        "git status \x1b[2K",
        "g\u0456t status",
    ],
)
def test_a_rule_for_one_command_allows_no_other(command: str) -> None:
    assert run(command, rules("bash(git status)")) == "ask"


@each_row(
    "command",
    [
        "git status",
        "git status -s",
        "git status 2>&1",
        "git status 2>/dev/null",
        "git status && git status -s",
    ],
)
def test_a_rule_allows_its_command_with_more_words(command: str) -> None:
    assert run(command, rules("bash(git status)")) == "allow"


def test_a_rule_for_several_words_does_not_cover_fewer() -> None:
    assert run("git", rules("bash(git status)")) == "ask"
    assert run("git", rules("bash(git *)")) == "allow"
    assert run("git --exec-path=.", rules("bash(git)")) == "ask"


def test_a_line_that_cannot_be_parsed_is_allowed_or_denied_by_exactly_its_own_text() -> None:
    line = "make > out.txt"
    assert run(f" {line} ", rules(f"bash({line})")) == "allow"
    assert run(f"{line} 2>&1", rules(f"bash({line})")) == "ask"
    assert run(line, rules("bash", deny=(f"bash({line})",))) == "deny"


def test_a_deny_rule_without_a_pattern_or_for_every_command_denies_all_of_its_tool() -> None:
    for deny in ("bash", "bash(*)"):
        assert run("ls", rules("bash", deny=(deny,))) == "deny"
    assert write(f"{FOLDER}/a", rules("write", deny=("write",), mode="bypassPermissions")) == "deny"


def test_a_deny_rule_may_name_a_program_by_its_path_and_sees_through_runners_by_theirs() -> None:
    assert run("./deploy now", rules("bash", deny=("bash(./deploy)",))) == "deny"
    for line in ("/usr/bin/sudo git push", "/usr/bin/env 'git push'", "X=/usr/bin/git git push"):
        assert run(line, rules("bash", deny=("bash(git push)",))) == "deny", line
    for line in ("git log -p push", "git log --grep x push"):
        assert run(line, rules("bash", deny=("bash(git push)",))) == "allow", line


@each_row(
    ("rule", "line", "answer"),
    [
        ("git push origin", "git push origin main", "deny"),
        ("git push origin", "git push --force origin", "deny"),
        ("git push origin", "git push fork", "allow"),
        ("git push", "git -C sub push", "deny"),
        ("git push", "git --no-pager push", "deny"),
        ("git push", "git -C sub -c a=b push", "deny"),
        ("git push", "git --version", "allow"),
        ("git push", "git", "allow"),
        ("*deploy* now", "./deploy.sh now", "deny"),
        ("depl?y", "/opt/bin/deploy", "deny"),
        ("./dep*", "./deploy now", "deny"),
        ("git p*", "git push", "deny"),
        ("git p*", "git log", "allow"),
    ],
)
def test_the_words_of_a_deny_rule_are_globs_and_options_may_stand_between_them(
    rule: str, line: str, answer: str
) -> None:
    assert run(line, rules("bash", deny=(f"bash({rule})",))) == answer


def test_a_longer_word_is_another_command() -> None:
    assert run("git statusx", rules("bash(git status)")) == "ask"
    assert run("gitx status", rules("bash(git)")) == "ask"


RUNNERS = (
    "sudo su doas env bash sh zsh dash ksh fish csh tcsh busybox eval exec command builtin source ."
    " trap xargs parallel find fd entr watch nohup setsid timeout time nice ionice chrt taskset stdbuf"
    " unbuffer script flock strace ltrace gdb lldb chroot unshare nsenter systemd-run ssh runuser at"
    " batch crontab npx bunx uvx pipx corepack if then else elif while until do for ! coproc"
)


@each_row("runner", RUNNERS.split())
def test_what_runs_other_programs_is_never_always_allowed(runner: str) -> None:
    offered = always_rule(f"{runner} x")
    assert offered is None or offered.exact


def test_rules_are_written_as_fingers_know_them() -> None:
    assert [str(rule) for rule in parse_rules("Bash(npm run test:*),Edit write(docs/*)")] == [
        "bash(npm run test)",
        "edit",
        "write(docs/*)",
    ]
    for bad in ("", "what?", "bash(", "bash(git", "edit; write", "frobnicate", "mcp__"):
        with pytest.raises(ValueError, match=r"is not a rule|unknown tool"):
            parse_rules(bad)
    assert parse_rules("bash(make > a\nmake b)") == (Rule("bash", "make > a\nmake b", exact=True),)
    assert parse_rules("mcp__Files__read") == (Rule("mcp__Files__read"),)


def test_an_unknown_tool_of_a_rule_is_answered_with_the_nearest_or_with_all() -> None:
    meant = "unknown tool in the rule 'Bsh(git status)'; did you mean 'bash(git status)'?"
    for text, message in (
        ("Bsh(git status)", meant),
        ("x", "unknown tool in the rule 'x'; the tools are ask_user, "),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            parse_rules(text)


def test_what_reaches_the_network_needs_approval_and_always_allows_that_host_alone() -> None:
    def fetch(host: str, given: PermissionRules) -> Verdict:
        return judge_call("mcp__web__get", [Access("network", host, outside=True)], given)

    asked = Verdict("ask", "it needs network access", Rule("mcp__web__get", "a.example"))
    assert fetch("a.example", PermissionRules()) == asked
    given = rules("mcp__web__get(a.example)")
    assert fetch("a.example", given) == Verdict("allow")
    assert fetch("b.example", given).answer == "ask"


def test_a_place_granted_for_the_session_is_that_place_and_no_pattern() -> None:
    touch = Access("write", "/tmp/a[*]?", outside=True)
    question = PermissionQuestion("write", "", (touch,), "", None, Preview())
    assert approval_choices(question)[1].text == "Yes, and allow write(/tmp/a[*]?) in this session"
    (rule,) = rules_for_session(question, Verdict("ask"))
    assert write(touch.target, rules(str(rule)), outside=True) == "allow"
    assert write("/tmp/ax", rules(str(rule)), outside=True) == "ask"
    assert write("/tmp/a[x]y", rules(str(rule)), outside=True) == "ask"


def test_to_allow_reading_one_secret_allows_no_other() -> None:
    touch = Access("read", f"{FOLDER}/.env", protected=True)
    (rule,) = rules_for_session(PermissionQuestion("read", "", (touch,), "", None, Preview()), Verdict("ask"))
    other = Access("read", f"{FOLDER}/.env.local", protected=True)
    for granted in (rule, *parse_rules("read")):
        assert judge_call("read", [other], rules(str(granted))).answer == "ask"
    assert judge_call("read", [touch], rules(str(rule))).answer == "allow"


def test_a_path_rule_is_a_glob_within_the_project() -> None:
    given = rules("write(docs/*)")
    assert write(f"{FOLDER}/docs/a.md", given) == "allow"
    assert write(f"{FOLDER}/src/a.py", given) == "ask"
    assert write(f"{FOLDER}/docs/a.md", rules(f"write({FOLDER}/docs/*)")) == "allow"
    assert write("/w/there/docs/a.md", replace(given, folder="/w/there")) == "allow"
    at_root = replace(given, folder="/")
    assert write("/docs/a.md", at_root) == "allow" and write("/a/docs/a.md", at_root) == "ask"


def test_the_place_where_a_rule_was_set_does_not_distinguish_rules() -> None:
    assert Rule("bash", "ls", "a file") == Rule("bash", "ls", "a flag")


@given(st.text(alphabet="abc $`\"';&|<>(){}\\\n=*rm-", max_size=30))
def test_whatever_the_line_says_a_rule_covers_every_command_in_it(line: str) -> None:
    found = parse_simple_commands(line)
    if found is not None and run(line, rules("bash(abc)")) == "allow":
        assert all(words[0] == "abc" for words in found)
