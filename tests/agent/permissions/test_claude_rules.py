"""Rules of Claude Code's settings files: they restrict makeroom at least as much as Claude Code."""

import pytest
from msgspec.structs import replace

from agent.permissions.claude_rules import path_patterns, translate_rule
from agent.permissions.rule_syntax import Rule, UnknownTool, parse_rules
from agent.permissions.rules import PermissionRules, Verdict, judge_call
from tests.tables import each_row
from tools.base import Access

FOLDER = "/w/app"
HOME = "/home/u"


def denying(*texts: str, kind: str = "deny", mode: str = "manual") -> PermissionRules:
    rules = tuple(rule for text in texts for rule in translate_rule(text, FOLDER))
    made = PermissionRules(mode, folder=FOLDER, home=HOME, sandboxed=True)  # type: ignore[arg-type]
    return replace(made, **{kind: rules})


def judged(tool: str, kind: str, target: str, rules: PermissionRules) -> Verdict:
    outside = kind in ("read", "write") and not target.startswith(FOLDER)
    return judge_call(tool, [Access(kind, target, outside=outside)], rules)  # type: ignore[arg-type]


@each_row(
    ("rule", "denied", "others"),
    [
        ("Bash(rm *)", ["rm -rf x", "/bin/rm x", "ls; rm x"], ["rmdir x", "ls"]),
        ("Bash(rm:*)", ["rm -rf x"], ["rmdir x"]),
        (
            "Bash(npm run test:*)",
            ["npm run test", "npm run test -- -u", "npm run test:unit"],
            ["npm run build"],
        ),
        ("Bash(curl http://localhost:*)", ["curl http://localhost:8080/x"], ["curl http://example.com"]),
        ("Bash(git * main)", ["git push origin main", "git merge main"], ["git push origin dev"]),
        ("Bash(*--force*)", ["git push --force-with-lease", "rm --force", "x--force y"], ["git push"]),
        ("Bash(git *--hard*)", ["git reset --hard", "git --hard"], ["git reset"]),
        ("Bash(git*push)", ["git push", "git -C x push origin"], ["git pull"]),
        ("Bash(rm*-rf*)", ["rm -rf x", "rm -v -rf x"], ["rm -f x"]),
        ("Bash(*fork*bomb*)", ["a-fork x bomb-b y", "fork x bomb"], ["fork x"]),
        ("Bash(git push* main)", ["git push main", "git push origin main"], ["git push origin dev"]),
        ("Bash(* --force)", ["git push --force", "npm --force", "sh -c 'git push --force'"], ["git push"]),
        ('Bash(echo "a b":*)', ['echo "a b" c', "echo 'a b'"], ["echo a b", "echo c"]),
        ("Bash(psql -c 'drop table' *)", ["psql -c 'drop table' x"], ["psql -c 'select 1'"]),
        ("Bash", ["ls"], []),
        ("Bash(*)", ["ls"], []),
    ],
)
def test_commands(rule: str, denied: list[str], others: list[str]) -> None:
    rules = denying(rule)
    assert [judged("bash", "run", line, rules).answer for line in denied] == ["deny"] * len(denied)
    assert all(judged("bash", "run", line, rules).answer != "deny" for line in others)


@each_row(
    ("rule", "denied", "others"),
    [
        ("Read(./secrets/**)", ["/w/app/secrets/a", "/w/app/secrets/b/c"], ["/w/app/src/secrets.py"]),
        ("Read(~/.zshrc)", ["/home/u/.zshrc"], ["/w/app/.zshrc"]),
        ("Read(.env)", ["/w/app/.env", "/w/app/sub/.env"], ["/w/app/env"]),
        ("Read(*.pem)", ["/w/app/a.pem", "/w/app/sub/a.pem"], ["/w/app/pem"]),
        ("Read(build/)", ["/w/app/build/x", "/w/app/sub/build/x"], ["/w/app/builder"]),
        ("Read(build/*)", ["/w/app/build/x", "/w/app/sub/build/x"], ["/w/app/builder/x"]),
        ("Read(src/build/*)", ["/w/app/src/build/x"], ["/w/app/sub/src/build/x"]),
        ("Read(src/**/key.txt)", ["/w/app/src/key.txt", "/w/app/src/a/b/key.txt"], ["/w/app/key.txt"]),
        ("Read(**/key.txt)", ["/w/app/key.txt", "/w/app/a/b/key.txt"], ["/w/app/a-key.txt"]),
        ("Read(**/secrets/**)", ["/w/app/secrets/a", "/w/app/b/secrets/c/d"], ["/w/app/secrets.md"]),
        ("Read(a/**/b/**/c)", ["/w/app/a/b/c", "/w/app/a/x/b/y/z/c"], ["/w/app/a/c"]),
        ("Read(**/*.{pem,key})", ["/w/app/a.pem", "/w/app/b/c.key", "/w/app/x.{pem,key}"], ["/w/app/a.pub"]),
        ("Read(.env{,.local})", ["/w/app/.env", "/w/app/b/.env.local"], ["/w/app/.env.example"]),
        (
            "Read({a,{b,c}/**/d}.txt)",
            ["/w/app/a.txt", "/w/app/b/x/d.txt", "/w/app/c/d.txt"],
            ["/w/app/d.txt"],
        ),
        ("Read(//etc/hosts)", ["/etc/hosts"], ["/w/app/etc/hosts"]),
        ("Read(/src/a)", ["/w/app/src/a"], ["/src/a"]),
        ("Read(../shared/**)", ["/w/shared/x"], ["/w/app/shared/x"]),
        ("Read", ["/w/app/x"], []),
        ("Glob(./secrets/**)", ["/w/app/secrets/a"], ["/w/app/a"]),
    ],
)
def test_paths(rule: str, denied: list[str], others: list[str]) -> None:
    rules = denying(rule)
    assert [judged("read", "read", path, rules).answer for path in denied] == ["deny"] * len(denied)
    assert all(judged("read", "read", path, rules).answer != "deny" for path in others)
    assert not any(rules.may_search("grep", path) for path in denied)


def test_edits_servers_and_hosts() -> None:
    assert judged("write", "write", "/w/app/a", denying("Edit")).answer == "deny"
    assert judged("edit", "write", "/w/app/docs/a", denying("Write(docs/**)")).answer == "deny"
    tool = "mcp__files__remove"
    for text in (tool, "mcp__files", "mcp__files__*"):
        assert judged(tool, "server", "", denying(text)).answer == "deny"
        assert judged("mcp__other__remove", "server", "", denying(text)).answer == "ask"
    hosts = translate_rule("WebFetch(domain:example.com)", FOLDER)
    assert hosts == (Rule("web_fetch", "example.com"), Rule("net", "example.com"))
    assert translate_rule("WebFetch(domain:*)", FOLDER) == (Rule("web_fetch"),)
    with pytest.raises(UnknownTool, match="NotebookRemix"):
        translate_rule("NotebookRemix", FOLDER)


def test_what_has_no_counterpart_is_reported() -> None:
    for text in (
        "Read(!x)",
        "Bash(echo '*' *)",
        "Bash(a && b:*)",
        "Agent(Explore)",
        "Read(/)",
        "!",
        "WebFetch(domain:*.x.com)",
    ):
        with pytest.raises(ValueError, match=r"."):
            translate_rule(text, FOLDER)
    with pytest.raises(ValueError, match="more than 500 paths"):
        path_patterns("{a,b,c}{a,b,c}{a,b,c}{a,b,c}{a,b,c}{a,b,c}", FOLDER)


def test_denial_names_the_rule_as_it_was_written() -> None:
    verdict = judged("read", "read", "/w/app/sub/.env", denying("Read(.env)"))
    assert verdict.why == "the rule Read(.env) denies this"


@each_row("mode", ["manual", "acceptEdits", "bypassPermissions"])
def test_an_ask_rule_asks_each_time_in_every_mode(mode: str) -> None:
    rules = denying("Bash(git push *)", "Edit(./migrations/**)", kind="ask", mode=mode)
    rules = replace(rules, allow=parse_rules("bash(git push), edit(migrations/**), open(git push)"))
    for tool, kind, target in (("bash", "run", "git push"), ("edit", "write", "/w/app/migrations/1.sql")):
        verdict = judged(tool, kind, target, rules)
        assert (verdict.answer, verdict.binding, verdict.once, verdict.prefix) == ("ask", True, True, None)
    assert judged("bash", "run", "git push", rules).why == "the rule Bash(git push *) requires approval"
    assert judged("bash", "run", "git status", rules).answer == "allow"
    assert judged("bash", "run", "git push", replace(rules, mode="dontAsk")).answer == "deny"
    assert judged("bash", "run", "git push", replace(rules, deny=(Rule("bash"),))).answer == "deny"


def test_an_ask_rule_that_may_apply_asks_until_the_line_is_allowed() -> None:
    rules = denying("Bash(git push *)", kind="ask")
    line = "$TOOL push"
    verdict = judged("bash", "run", line, rules)
    assert (verdict.answer, verdict.once, str(verdict.prefix)) == ("ask", False, f"bash(={line})")
    assert verdict.prefix is not None
    assert judged("bash", "run", line, replace(rules, allow=(verdict.prefix,))).answer == "allow"
