"""Judge calls: return a verdict for the accesses of a call, given the mode and the rules. Pure.

Deny beats ask, and ask beats allow. The order is: deny rules, ask rules, irreversible commands, the sandbox,
allow rules, a question. A sandboxed command needs no approval. Without a sandbox, a line that cannot be
parsed does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from glob import escape
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from agent import shell
from tools.guarded import PathGlobs, is_protected

from .allow_rules import coverage, lasting_rule, opening_rule
from .deny_rules import Denial, denial_of, denial_of_files
from .modes import Mode
from .rule_syntax import EDITING, OPENING, READING, RUNNING, Rule, exact_rule

if TYPE_CHECKING:
    from agent.ports import Cause
    from tools.base import Access

REPLACED = "it runs a program of the project that has changed since you allowed this line outside the sandbox"
NO_SANDBOX = "the settings require a sandbox, and none is available here"
NOT_IN_PLAN_MODE = "plan mode is on, and it allows no changes"
_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


class PermissionRules(Struct, frozen=True):
    """The mode and the rules in force in the project `folder`, which is a real path, as is `home`.

    sandboxed          commands run in a sandbox
    sandbox_read_only  in the sandbox commands can write none of the user's files
    written            places outside the project to which commands in the sandbox may also write
    git_settings_held  they cannot change the settings of the project's repository
    sandbox_required   no command may run without a sandbox
    asks_sandboxed     sandboxed commands need approval too
    asks_edits         edits need approval in the mode acceptEdits too, since the directory is not a project
    ask                rules for calls that need approval each time, in every mode
    withheld           existing paths that `deny` and `ask` are about, each with its rule
    hides_files        the sandbox hides these from commands, or makes them read-only
    secrets            files of the project with secrets, if the sandbox cannot hide files of the project
    real_path          returns the target of a path through links
    opened             for each line that a rule runs outside the sandbox, the project's own programs in it
                       and the files that steer them, since sandboxed commands can replace those
    reading            returns what proves commands read-only; without it none is. It is called for the first
                       command, since a session may never run one
    """

    mode: Mode = "manual"
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    folder: str = ""
    home: str = ""
    sandboxed: bool = False
    sandbox_read_only: bool = False
    written: tuple[str, ...] = ()
    git_settings_held: bool = False
    sandbox_required: bool = False
    asks_sandboxed: bool = False
    asks_edits: bool = False
    ask: tuple[Rule, ...] = ()
    withheld: tuple[tuple[str, Rule], ...] = ()
    real_path: Callable[[str], str] = str
    hides_files: bool = False
    secrets: tuple[str, ...] = ()
    opened: Mapping[str, shell.KnownPrograms] = field(default_factory=dict)
    reading: Callable[[], shell.ReadingJudge] | None = None

    @property
    def judge(self) -> shell.ReadingJudge | None:
        """Return what proves commands read-only; None: nothing does."""
        return None if self.reading is None else self.reading()

    @property
    def may_leave(self) -> bool:
        """Return whether the user may be asked to run a command outside the sandbox."""
        return self.mode in ("manual", "acceptEdits")

    @property
    def accepts_edits(self) -> bool:
        """Return whether a rule allows all edits in the mode that would ask about them."""
        allowed = any(map(_covers_edits, self.allow))
        return self.mode == "manual" and allowed and not any(map(_covers_edits, self.ask))

    def only_reads(self, access: Access) -> bool:
        """Return whether a command is proved read-only, regardless of the rules."""
        return not coverage(access.target, access.cwd or self.folder, (), self.judge).doubt

    def runs_open(self, access: Access) -> bool:
        """Return whether the mode or a rule runs a line outside the sandbox."""
        if self.mode == "bypassPermissions" or not self.sandboxed:
            return True
        return self.opening(access.target) is not None and not self.replacement(access)

    def opening(self, line: str) -> Rule | None:
        """Return the rule that runs exactly this line outside the sandbox, unless a rule denies that."""
        if any(rule.tool == OPENING and rule.is_exactly(line) for rule in self.deny):
            return None
        return next((rule for rule in self.allow if rule.tool == OPENING and rule.is_exactly(line)), None)

    def replacement(self, access: Access) -> str:
        """Return why an `open` rule no longer covers its line, "" if it does."""
        approved = self.opened.get(access.target.strip())
        now = self.known_programs(access) if approved is not None else None
        if approved is None or now is None:
            return ""
        if changed := approved.changed_file(now):
            return f"{changed} has changed since you allowed this line outside the sandbox"
        return REPLACED if now.programs != approved.programs else ""

    def known_programs(self, access: Access) -> shell.KnownPrograms | None:
        """Return what tells the programs of a line what to do; None if files cannot be read."""
        seen = self.standpoint(access)
        return shell.known_programs(access.target, seen) if seen is not None else None

    def noting_programs(self, line: str, folder: str = "") -> PermissionRules:
        """Return the rules with the present state of the project's own programs in a line."""
        judge = self.judge
        if judge is None:
            return self
        places = shell.Places(folder=self.folder, home=self.home, cwd=folder or self.folder)
        seen = shell.Standpoint(places, judge)
        return replace(self, opened={**self.opened, line.strip(): shell.known_programs(line, seen)})

    def may_search(self, tool: str, path: str) -> bool:
        """Return whether the rules let a tool that searches directories show the content of this file.

        A search cannot ask about single files, so it omits those that need approval.
        """
        about = (rule for rule in (*self.deny, *self.ask) if rule.names(tool) or rule.names(READING))
        return not any(rule.pattern is None or self.restricts(rule.pattern, path) for rule in about)

    def restricts(self, pattern: str, path: str) -> bool:
        """Match the glob of a deny or ask rule with a path, in any letter case.

        Where a file system ignores case, other letters name the same file.
        """
        if self.path_matches(pattern, path):
            return True
        folded = PathGlobs(self.folder.casefold(), frozenset({self._from_root(pattern).casefold()}))
        return folded.match(path.casefold())

    def path_matches(self, pattern: str, path: str) -> bool:
        """Match a glob with a path, absolute or relative to the project; `~/` is the home directory."""
        return PathGlobs(self.folder, frozenset({self._from_root(pattern)})).match(path)

    def _from_root(self, pattern: str) -> str:
        """Return the pattern with the home directory in the place of `~`."""
        return f"{escape(self.home)}{pattern[1:]}" if pattern.startswith("~/") else pattern

    def names_line(self, line: str) -> bool:
        """Return whether the user has allowed exactly this line."""
        return any((rule.exact or rule.tool == OPENING) and rule.is_exactly(line) for rule in self.allow)

    def places(self, access: Access) -> shell.Places:
        """Return the directories that matter for judging the line of an access."""
        return shell.Places(folder=self.folder, home=self.home, cwd=access.cwd or self.folder)

    def standpoint(self, access: Access) -> shell.Standpoint | None:
        """Return the standpoint for reading the line of an access; None if files cannot be read."""
        judge = self.judge
        return shell.Standpoint(self.places(access), judge) if judge is not None else None


READ_ONLY = "it is read-only"


def _covers_edits(rule: Rule) -> bool:
    return rule.tool == EDITING and rule.pattern is None and not rule.granted


class Verdict(Struct, frozen=True):
    """The verdict on a call; `why` is one line for the user (or for the model, if the call is denied).

    prefix     the rule that "always" would add, None if the call may only be allowed once
    rule       the rule that decided, if one did
    sandboxed  the command runs in the sandbox if it is allowed
    binding    the user has to be asked, even if a hook allows the call
    once       the user is asked each time, so approval holds for this call only
    cause      the cause of a question, "" if only the reason names it
    """

    answer: Literal["allow", "ask", "deny"]
    why: str = ""
    prefix: Rule | None = None
    rule: Rule | None = None
    sandboxed: bool = False
    binding: bool = False
    once: bool = False
    cause: Cause = ""

    def reason(self, mode: Mode) -> str:
        """Return the reason for the verdict in one line; unlike `why` it is never empty."""
        if self.why:
            return self.why
        if self.rule is not None:
            return f"the rule {self.rule} allows this"
        if mode == "bypassPermissions":
            return "the mode is bypassPermissions"
        return "it runs in the sandbox" if self.sandboxed else READ_ONLY


def judge_call(tool: str, accesses: Sequence[Access], rules: PermissionRules) -> Verdict:
    """Judge one call: return the strictest verdict over all of its accesses."""
    verdict = Verdict("allow")
    for access in accesses:
        found = _judge_access(tool, access, rules)
        stricter = _STRICTNESS[found.answer] - _STRICTNESS[verdict.answer]
        says_more = found.sandboxed or (found.rule is not None and not verdict.sandboxed)
        binding = found.binding or verdict.binding
        if stricter > 0 or (stricter == 0 and says_more):
            verdict = found
        if verdict.answer == "ask":
            once = found.once or verdict.once
            verdict = replace(verdict, binding=binding, once=once, prefix=None if once else verdict.prefix)
    if verdict.answer == "ask" and rules.mode == "dontAsk":
        why = f"it needs approval, and the mode is dontAsk: {verdict.why}"
        return Verdict("deny", why, cause=verdict.cause)
    return verdict


def _judge_access(tool: str, access: Access, rules: PermissionRules) -> Verdict:
    verdict = _judge_without_ask_rules(tool, access, rules)
    if not rules.ask or verdict.answer == "deny":
        return verdict
    certainty, rule, _ = _matching(rules.ask, tool, access, rules)
    is_sure = certainty is shell.Certainty.YES
    if certainty is shell.Certainty.NO or (not is_sure and rules.names_line(access.target)):
        return verdict
    why = f"the rule {rule} requires approval" if is_sure else f"the ask rule {rule} may apply to it"
    if verdict.answer == "ask":
        return replace(verdict, why=verdict.why or why, binding=True, once=is_sure)
    prefix = None if is_sure else _exact_rule(access)
    return replace(verdict, answer="ask", why=why, prefix=prefix, rule=rule, binding=True, once=is_sure)


def _exact_rule(access: Access) -> Rule | None:
    """Return the rule for exactly the line of an access, None if it is too long to be read first."""
    line = access.target
    return exact_rule(line) if len(line) <= 10_000 else None  # no one reads a longer line


def _judge_without_ask_rules(tool: str, access: Access, rules: PermissionRules) -> Verdict:
    denial = _matching(rules.deny, tool, access, rules)
    if denial.certainty is shell.Certainty.YES:
        return Verdict("deny", f"the rule {denial.rule} denies this", rule=denial.rule)
    if access.kind == "none":
        return Verdict("allow")
    if access.kind != "run":
        return _judge_path(tool, access, rules)
    judge = _judge_in_plan_mode if rules.mode == "plan" else _judge_command
    verdict = judge(access, rules)
    if verdict.answer == "deny" or _irreversible_effect(access, rules):
        return verdict
    if denial.certainty is shell.Certainty.MAYBE and not rules.names_line(access.target):
        return Verdict(
            "ask",
            denial.doubt,
            prefix=_exact_rule(access),
            rule=denial.rule,
            sandboxed=verdict.sandboxed,
            binding=True,
        )
    return verdict


def _matching(given: Sequence[Rule], tool: str, access: Access, rules: PermissionRules) -> Denial:
    """Match an access with deny or ask rules. One for edit, read or bash is about all tools of that kind."""
    tools = (tool, {"write": EDITING, "read": READING, "run": RUNNING}.get(access.kind, tool))
    about = [rule for rule in given if any(map(rule.names, tools))]
    if access.kind == "run":
        found = denial_of(about, access.target, rules.standpoint(access))
        return (
            found if found.certainty is shell.Certainty.YES else _file_denial(given, access, rules) or found
        )
    for rule in about:
        is_named = bool(access.target) and rules.restricts(rule.pattern or "", access.target)
        if rule.pattern is None or is_named:
            return Denial(shell.Certainty.YES, rule)
    return Denial(shell.Certainty.NO)


def _file_denial(given: Sequence[Rule], access: Access, rules: PermissionRules) -> Denial | None:
    """Match a command with rules about files that no sandbox hides from it; None if no rule applies."""
    if not rules.withheld or (rules.hides_files and not rules.runs_open(access)):
        return None
    seen = rules.standpoint(access)
    withheld = {
        path: rule
        for tool in (EDITING, READING)
        for path, rule in rules.withheld
        if rule.tool == tool and rule in given
    }
    if seen is None or not withheld:
        return None
    found = denial_of_files(
        withheld, access.target, seen, only_reads=rules.only_reads(access), resolve=rules.real_path
    )
    return found if found.certainty is not shell.Certainty.NO else None


def _judge_command(access: Access, rules: PermissionRules) -> Verdict:
    """Judge a command line. Only `open` rules run it outside the sandbox, other allow rules do not."""
    line = access.target
    bypasses = rules.mode == "bypassPermissions"
    opening = rules.opening(line)
    is_open = bypasses or opening is not None
    sandboxed = rules.sandboxed and not is_open
    needed = _outside_need(access, rules) if sandboxed else ""
    if effect := _irreversible_effect(access, rules):
        why = f"it {effect}, and runs outside the sandbox: {needed}" if needed else f"it {effect}"
        return Verdict("ask", why, sandboxed=sandboxed and not needed, binding=True, cause="irreversible")
    if sandboxed and (harmless := _harmless_outside(access, rules, needed)):
        return Verdict("allow", harmless)
    if needed:
        warning = outside_warning(access, rules)
        why = ", and ".join(filter(None, (f"it cannot work in the sandbox: {needed}", warning)))
        return Verdict("ask", why, prefix=opening_rule(line), binding=True)
    replaced = rules.replacement(access) if rules.sandboxed and opening is not None and not bypasses else ""
    if replaced:
        return Verdict("ask", why=replaced, prefix=Rule(OPENING, line.strip()), binding=True)
    secret = _named_secret(access, rules) if sandboxed and rules.secrets else ""
    if bypasses or (sandboxed and not (secret or rules.asks_sandboxed)):
        return Verdict("allow", sandboxed=sandboxed)
    if rules.sandbox_required and not rules.sandboxed:
        return Verdict("deny", NO_SANDBOX)
    allow = [rule for rule in rules.allow if rule.tool == RUNNING]
    covered = coverage(line, access.cwd or rules.folder, allow, rules.judge)
    if is_open or not covered.doubt:
        return Verdict("allow", rule=opening or covered.rule, sandboxed=sandboxed)
    return Verdict(
        "ask",
        why=f"it names {secret}, which may contain secrets" if secret else covered.doubt,
        prefix=lasting_rule(line, covered),
        sandboxed=sandboxed,
        cause="unproved",
    )


def _judge_in_plan_mode(access: Access, rules: PermissionRules) -> Verdict:
    """Allow commands that are proved read-only or contained by the sandbox, regardless of allow rules."""
    if rules.sandbox_required and not rules.sandboxed:
        return Verdict("deny", NO_SANDBOX)
    is_held = rules.sandboxed and rules.sandbox_read_only and not rules.asks_sandboxed
    if (is_held and not _irreversible_effect(access, rules)) or rules.only_reads(access):
        return Verdict("allow", sandboxed=rules.sandboxed)
    return Verdict("deny", f"{NOT_IN_PLAN_MODE}: only commands known to be read-only may run")


def _outside_need(access: Access, rules: PermissionRules) -> str:
    """Return the reason why a line cannot work in the sandbox, "" if none is known."""
    seen = rules.standpoint(access)
    if seen is None:
        return ""
    needed = shell.outside_need(access.target, seen)
    if not needed and rules.git_settings_held:
        needed = shell.git_settings_need(access.target, seen)
    # A directory that the user has opened in the sandbox may contain the system file.
    return needed or ("" if rules.written else shell.system_file_need(access.target, seen))


def _named_secret(access: Access, rules: PermissionRules) -> str:
    """Return a file with secrets that a line names and the sandbox cannot hide, "" if there is none."""
    named = shell.files_named_in(access.target, rules.places(access), rules.secrets, rules.real_path)
    path = next((path for path, certainty in named if certainty is shell.Certainty.YES), "")
    return path.removeprefix(f"{rules.folder}/")


def outside_warning(access: Access, rules: PermissionRules) -> str:
    """Return a warning about what a line runs that sandboxed commands may have made, "" without one.

    That is a program of the project, run by its name alone: `.venv/bin` is often the first directory on PATH.
    And it is what settings and hooks of another repository below the project name.
    """
    seen = rules.standpoint(access)
    if seen is None:
        return ""
    program = shell.own_program(access.target, seen).removeprefix(f"{rules.folder}/")
    made = shell.acted_on(access.target, seen)
    warnings = [f"it runs {program} of the project"] if program else []
    warnings += [f"it acts on what commands may have written to {made}"] if made else []
    return ", and ".join(warnings)


def _harmless_outside(access: Access, rules: PermissionRules, needed: str) -> str:
    """Return why a line that cannot work in the sandbox may run outside without a question, "" if it may not.

    needed: the reason why it cannot work, if it has been found
    """
    seen = rules.standpoint(access)
    judge = rules.judge
    if seen is None or judge is None or not rules.may_leave:
        return ""
    if needed:
        reads = not rules.written and shell.reads_outside(access.target, seen, judge)
        return "it only reads, and cannot work in the sandbox" if reads else ""
    may_write = rules.git_settings_held and not rules.asks_sandboxed
    if may_write and shell.adds_plain_settings(access.target, seen, judge, rules.written):
        return "it only adds plain settings of git, which the sandbox blocks"
    return ""


def _irreversible_effect(access: Access, rules: PermissionRules) -> str:
    return shell.irreversible_effect(access.target, rules.places(access))


def _judge_path(tool: str, access: Access, rules: PermissionRules) -> Verdict:
    """Judge any access other than a command. No rule allows writing to a protected path."""
    mode = rules.mode
    if mode == "plan" and access.kind == "write":
        return Verdict("deny", NOT_IN_PLAN_MODE)
    inside = not access.outside and not access.protected
    if mode == "bypassPermissions" or (access.kind == "read" and inside):
        return Verdict("allow")
    if access.protected and access.kind == "write":
        return Verdict("ask", _guarded_for(access), binding=True)
    accepts = mode == "acceptEdits" and not rules.asks_edits
    if _is_allowed(tool, access, rules) or (inside and access.kind == "write" and accepts):
        return Verdict("allow")
    if access.kind in ("network", "server"):
        return _judge_service(tool, access, mode)
    if inside:
        return Verdict("ask", why="it writes a file", cause="edit", prefix=Rule(EDITING))
    if access.protected:
        return Verdict("ask", _guarded_for(access), binding=True)
    return Verdict("ask", "outside the project", cause="outside")


def _judge_service(tool: str, access: Access, mode: Mode) -> Verdict:
    if access.kind == "server":
        if mode == "plan":
            return Verdict("deny", f"{NOT_IN_PLAN_MODE}: only servers that a rule allows may be used")
        return Verdict("ask", why="MCP servers run outside the sandbox", prefix=Rule(tool))
    return Verdict("ask", why="it needs network access", prefix=Rule(tool, access.target))


def _is_allowed(tool: str, access: Access, rules: PermissionRules) -> bool:
    """Return whether a rule allows an access, or a sandboxed `ls` would show the same without approval."""
    if access.missing and rules.sandboxed and not rules.asks_sandboxed:
        return True
    tools = (tool, EDITING) if access.kind == "write" else (tool,)
    return any(any(map(rule.names, tools)) and _allows(rule, access, rules) for rule in rules.allow)


def _allows(rule: Rule, access: Access, rules: PermissionRules) -> bool:
    """Return whether a rule covers an access: outside the project only if it names a path there.

    `edit(*.json)` is about the project, `edit(~/notes/*.json)` is not. `read(*)` names nothing, as `read`.
    """
    pattern = rule.pattern or ""
    names_nothing = re.search(r"\w", pattern) is None
    if (names_nothing or rule.granted) and (access.outside or access.protected):
        return False
    if access.outside and access.kind in ("read", "write") and not pattern.startswith(("/", "~/")):
        return False
    return rule.pattern is None or rules.path_matches(rule.pattern, access.target)


def _guarded_for(access: Access) -> str:
    """Return the reason why a protected path needs approval."""
    if access.kind == "read" or is_protected(access.target, "read"):
        return "it may contain secrets"
    return "a file there may be run later, or grant permissions"
