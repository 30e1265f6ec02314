"""Whether a call may go ahead: what it accesses, the mode and the rules give a verdict. Pure.

Deny beats ask, ask beats allow. The order: deny rules, the destructive commands, rules that allow, the wall,
a question. Within the wall a command needs no question; without one what cannot be parsed is asked about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from glob import escape
from typing import TYPE_CHECKING, Literal

from agent.shell.destructive import ruin_by
from agent.shell.program_names import Standpoint, own_programs_of
from agent.shell.read_only import ReadingJudge
from agent.shell.simple_commands import MAX_PARSED_CHARS
from agent.shell.vital_places import Places
from tools.sandbox.guarded_names import is_protected

from .allow_rules import coverage, lasting_rule
from .deny_rules import Denial, denial_of
from .modes import OUTSIDE, WRITES_A_FILE, Mode
from .rule_syntax import EDITING, OPENING, READING, RUNNING, Rule, exact_rule, is_exactly

if TYPE_CHECKING:
    from tools.base import Access

REPLACED = "it runs a program of the project that has changed since this line was let out of the wall"
NO_WALL = "commands have to be walled in, and there is no wall here"
NOT_IN_PLAN_MODE = "the mode is plan, in which nothing is changed"
_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class PermissionRules:
    """The mode and the rules in force in the project `folder`; it and `home` are real paths.

    `wall` tells whether commands are walled in; with `wall_required` none runs without a wall. With
    `asks_walled` the wall does not save the question. Without `reading` no command is known to only read.
    `opened` has for lines that a rule lets out of the wall what the project's own programs in them were then:
    walled commands can replace those.
    """

    mode: Mode = "manual"
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    folder: str = ""
    home: str = ""
    wall: bool = False
    wall_required: bool = False
    asks_walled: bool = False
    opened: Mapping[str, str] = field(default_factory=dict)
    reading: ReadingJudge | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """allow, ask or deny; `why` is one line for the user (or for the model, when denied).

    prefix  the rule that "always" would add, or None where the call may only be allowed once
    rule    the rule that decided, where one did
    walled  whether a command, once it is allowed, is to run within the wall
    binding  a person has to be asked, whatever a hook allows
    """

    answer: Literal["allow", "ask", "deny"]
    why: str = ""
    prefix: Rule | None = None
    rule: Rule | None = None
    walled: bool = False
    binding: bool = False


def judge_call(tool: str, accesses: Sequence[Access], rules: PermissionRules) -> Verdict:
    """The verdict on one call: the strictest over everything that it accesses."""
    verdict = Verdict("allow")
    for access in accesses:
        found = _judge_access(tool, access, rules)
        stricter = _STRICTNESS[found.answer] - _STRICTNESS[verdict.answer]
        told_more = found.walled or (found.rule is not None and not verdict.walled)
        binding = found.binding or verdict.binding
        if stricter > 0 or (stricter == 0 and told_more):
            verdict = found
        if verdict.answer == "ask" and binding:
            verdict = replace(verdict, binding=True)
    if verdict.answer == "ask" and rules.mode == "dontAsk":
        return Verdict("deny", f"not allowed, and the mode is dontAsk: {verdict.why}")
    return verdict


def reason_of(verdict: Verdict, rules: PermissionRules) -> str:
    """Why the verdict is as it is, in one line, also for what is allowed."""
    if verdict.why:
        return verdict.why
    if verdict.rule is not None:
        return f"the rule {verdict.rule} allows this"
    if rules.mode == "bypassPermissions":
        return "the mode is bypassPermissions"
    return "it runs within the wall" if verdict.walled else "it only reads"


def may_leave(rules: PermissionRules) -> bool:
    """Whether the person may be asked to let a command out of the wall."""
    return rules.mode in ("manual", "acceptEdits")


def only_reads(access: Access, rules: PermissionRules) -> bool:
    """Whether a command is proved to change nothing, whatever the rules allow."""
    return not coverage(access.target, access.cwd or rules.folder, (), rules.reading).doubt


def _judge_access(tool: str, access: Access, rules: PermissionRules) -> Verdict:
    said, denying = _denial(tool, access, rules)
    if said is Denial.YES:
        return Verdict("deny", f"the rule {denying} denies this", rule=denying)
    if access.kind == "none":
        return Verdict("allow")
    if access.kind != "run":
        tools = (tool, EDITING) if access.kind == "write" else (tool,)
        about = [rule for rule in rules.allow if any(map(rule.names, tools))]
        allowed = any(_allows(rule, access, rules) for rule in about)
        in_sight = access.missing and rules.wall and not rules.asks_walled  # a walled `ls` tells it unasked
        return _judge_path(tool, access, rules.mode, allowed or in_sight)
    judge = _judge_look if rules.mode == "plan" else _judge_command
    verdict = judge(access, rules)
    if verdict.answer == "deny" or _ruin(access, rules):
        return verdict
    if said is Denial.MAYBE and not _names_line(rules, access.target):
        why = f"it cannot be told whether it runs what the rule {denying} denies"
        line = exact_rule(RUNNING, access.target) if len(access.target) <= MAX_PARSED_CHARS else None
        return Verdict("ask", why, line, denying, verdict.walled, binding=True)
    return verdict


def _denial(tool: str, access: Access, rules: PermissionRules) -> tuple[Denial, Rule | None]:
    """What the deny rules say about an access. One about edit, read or bash is about every such tool."""
    tools = (tool, {"write": EDITING, "read": READING, "run": RUNNING}.get(access.kind, tool))
    about = [rule for rule in rules.deny if any(map(rule.names, tools))]
    if access.kind == "run":
        return denial_of(about, access.target, standpoint(access, rules))
    for rule in about:
        named = bool(access.target) and _path_matches(rule.pattern or "", access.target, rules)
        if rule.pattern is None or named:
            return Denial.YES, rule
    return Denial.NO, None


def may_search(tool: str, path: str, rules: PermissionRules) -> bool:
    """Whether no rule keeps a tool that searches folders from showing what is in this file."""
    about = (rule for rule in rules.deny if rule.names(tool) or rule.names(READING))
    return not any(rule.pattern is None or _path_matches(rule.pattern, path, rules) for rule in about)


def standpoint(access: Access, rules: PermissionRules) -> Standpoint | None:
    """From where the line of an access is read; None where nothing is known of files."""
    return Standpoint(_places(access, rules), rules.reading) if rules.reading is not None else None


def _places(access: Access, rules: PermissionRules) -> Places:
    return Places(rules.folder, rules.home, access.cwd or rules.folder)


def _names_line(rules: PermissionRules, line: str) -> bool:
    """Whether a person has allowed exactly this line."""
    return any((rule.exact or rule.tool == OPENING) and is_exactly(rule, line) for rule in rules.allow)


def _judge_command(access: Access, rules: PermissionRules) -> Verdict:
    """A rule that allows the line does not open the wall."""
    line = access.target
    opening = _opening(rules, line)
    opened = rules.mode == "bypassPermissions" or opening is not None
    replaced = rules.wall and rules.mode != "bypassPermissions" and opened and _is_replaced(access, rules)
    walled = rules.wall and not opened
    if ruin := _ruin(access, rules):
        return Verdict("ask", f"it {ruin}", walled=walled, binding=True)
    if replaced:
        return Verdict("ask", REPLACED, Rule(OPENING, line.strip()), binding=True)
    if (walled and not rules.asks_walled) or rules.mode == "bypassPermissions":
        return Verdict("allow", walled=walled)
    if rules.wall_required and not rules.wall:
        return Verdict("deny", NO_WALL)
    allow = [rule for rule in rules.allow if rule.tool == RUNNING]
    covered = coverage(line, access.cwd or rules.folder, allow, rules.reading)
    if opened or not covered.doubt:
        return Verdict("allow", rule=opening or covered.rule, walled=walled)
    return Verdict("ask", covered.doubt, lasting_rule(RUNNING, line, covered), walled=walled)


def _judge_look(access: Access, rules: PermissionRules) -> Verdict:
    """In plan mode only what is proved to change nothing runs, whatever rules allow and walls would hold."""
    if rules.wall_required and not rules.wall:
        return Verdict("deny", NO_WALL)
    if only_reads(access, rules):
        return Verdict("allow", walled=rules.wall)
    return Verdict("deny", f"{NOT_IN_PLAN_MODE}: only commands that are sure to only look run")


def _ruin(access: Access, rules: PermissionRules) -> str:
    return ruin_by(access.target, _places(access, rules))


def noting_programs(rules: PermissionRules, line: str, folder: str = "") -> PermissionRules:
    """The rules with what the project's own programs in a line are now, as it is let out of the wall."""
    if rules.reading is None:
        return rules
    now = own_programs_of(line, folder or rules.folder, rules.reading)
    return replace(rules, opened={**rules.opened, line.strip(): now})


def _is_replaced(access: Access, rules: PermissionRules) -> bool:
    """Whether programs of the project in an open line are not what they were when it was let out."""
    known = rules.opened.get(access.target.strip())
    if known is None or rules.reading is None:
        return False
    return own_programs_of(access.target, access.cwd or rules.folder, rules.reading) != known


def runs_open(access: Access, rules: PermissionRules) -> bool:
    """Whether a line is run outside of the wall by the mode or a rule."""
    if rules.mode == "bypassPermissions" or not rules.wall:
        return True
    return _opening(rules, access.target) is not None and not _is_replaced(access, rules)


def _opening(rules: PermissionRules, line: str) -> Rule | None:
    """The rule that lets exactly this line out of the wall, where none keeps it in."""
    kept_in = any(rule.tool == OPENING and is_exactly(rule, line) for rule in rules.deny)
    opening = (rule for rule in rules.allow if rule.tool == OPENING and is_exactly(rule, line))
    return None if kept_in else next(opening, None)


def _judge_path(tool: str, access: Access, mode: Mode, allowed: bool) -> Verdict:
    """`allowed` tells that a rule allows it, which never holds for writing to a protected place."""
    if mode == "plan" and access.kind == "write":
        return Verdict("deny", NOT_IN_PLAN_MODE)
    inside = not access.outside and not access.protected
    if mode == "bypassPermissions" or (access.kind == "read" and inside):
        return Verdict("allow")
    if access.protected and access.kind == "write":
        return Verdict("ask", _guarded_for(access), binding=True)
    if allowed or (inside and access.kind == "write" and mode == "acceptEdits"):
        return Verdict("allow")
    if access.kind in ("network", "server") and mode == "plan":
        return Verdict("deny", f"{NOT_IN_PLAN_MODE}: of servers only what a rule allows is used")
    if access.kind == "server":
        return Verdict("ask", "a server can do anything", Rule(tool))
    if access.kind == "network":
        return Verdict("ask", "it reaches the network", Rule(tool, access.target))
    if inside:
        return Verdict("ask", WRITES_A_FILE, Rule(EDITING))
    if access.protected:
        return Verdict("ask", _guarded_for(access), binding=True)
    return Verdict("ask", OUTSIDE)


def _guarded_for(access: Access) -> str:
    """Why a protected place is asked about."""
    if access.kind == "read" or is_protected(access.target, "read"):
        return "it may hold secrets"
    return "what stands there may run later, or grant rights"


def _allows(rule: Rule, access: Access, rules: PermissionRules) -> bool:
    if (rule.pattern is None or rule.granted) and (access.outside or access.protected):
        return False
    if rule.pattern is None:
        return True
    return _path_matches(rule.pattern, access.target, rules)


def _path_matches(pattern: str, path: str, rules: PermissionRules) -> bool:
    """Whether a glob matches a path, as a whole or relative to the project; `~/` is the home folder."""
    if pattern.startswith("~/"):
        return fnmatchcase(path, f"{escape(rules.home)}{pattern[1:]}")
    relative = path.removeprefix(rules.folder.rstrip("/") + "/")
    return fnmatchcase(path, pattern) or fnmatchcase(relative, pattern)
