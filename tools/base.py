"""The contract of a tool: the value that declares it, how a call's input is read, what a call returns.

To add a tool, write tools/NAME.py with a module-level value `TOOL`, and put NAME into `tools.BUILTIN`.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from tools.files import ExplainedError
from tools.processes import CommandContext
from tools.sandbox import BlockedAccess, UnblockDecision
from transcripts import Block, ChannelBlock, Display, StoredOutput, TextBlock, ToolKind, check_shape
from transcripts.patterns import lazy_pattern
from transcripts.search import Originals
from transcripts.wording import shorten

from .spawning import CallPlace, SpawnRequest, SpawnResult
from .user_questions import AskUser, PlanMode, Preview

SMALL_WINDOW_TOKENS = 16_384  # in a window of at most this size, all tools would take a fifth or more
_TOOL_NAME = lazy_pattern(r"[\w-]+", re.ASCII)
# Other programs' names for our parameters, in lower case and without `_`.
_FOREIGN_PARAMETERS = {
    "file_path": "path filepath filename file targetfile absolutepath notebookpath",
    "old_string": "oldstring oldstr oldtext old search",
    "new_string": "newstring newstr newtext new replace replacement",
    "content": "filetext filecontent filecontents contents text",
    "replace_all": "replaceall allowmultiple",
    "command": "cmd script commandline",
    "job": "bashid shellid jobid taskid",
    "run_in_background": "background isbackground runinbackground",
    "pattern": "regex query",
    "agent": "subagenttype agenttype",
    "name": "skill skillname",
    "focus": "instructions",
}
_OWN_PARAMETERS = {name: own for own, names in _FOREIGN_PARAMETERS.items() for name in names.split()}
_PARAMETER_HINTS = dict.fromkeys(("cwd", "workdir", "dir_path"), "prefix the command with `cd DIR &&`")


class WrongValue(NamedTuple):
    """An invalid value in the input of a call."""

    path: tuple[str | int, ...]  # the name of a parameter, then where within its value
    kind: Literal["missing", "unknown", "wrong"]
    value: object = None
    reason: str = ""  # of a wrong value


class ToolError(ExplainedError):
    """The call cannot be done as asked."""


class UncheckableSchema(ToolError):
    """The schema of a tool is not valid, so the arguments cannot be checked."""


class ToolInterrupted(asyncio.CancelledError):
    """Raised instead of CancelledError by a cancelled tool that has a partial `result`."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__()
        self.result = result


class Access(Struct, frozen=True):
    """One thing that a call would do, as the permission rules judge it.

    kind "read", "write": `target` is the canonical real path. "run": `target` is the command line.
    "network": `target` is the host name. "server": `target` is the name of a tool of an MCP server, which
    may do anything. "none": the call needs no permission; deny rules may name its `target`. `outside` marks a
    path outside the project, `protected` one that always needs approval (see tools/guarded), `missing` one
    to be read that does not exist. `cwd` is the directory that a command would run in.
    """

    kind: Literal["read", "write", "run", "network", "server", "none"]
    target: str = ""
    outside: bool = False
    protected: bool = False
    cwd: str = ""
    missing: bool = False


def no_access(arguments: Any, context: ToolContext) -> tuple[Access, ...]:
    """Return the access of a tool that uses no files, commands or hosts."""
    return (Access("none"),)


class Advice(Struct, frozen=True):
    """A line of a result with advice. `str()` is the line for the model; other readers have other options.

    `fact` is the part for every reader, `subject` the id of the job that the advice is about.
    """

    reason: Literal["job", "editor", "watch"]
    for_model: str
    fact: str = ""
    subject: str = ""

    def __str__(self) -> str:
        return f"[{self.fact}{self.for_model}]"


class ToolResult(Struct, frozen=True):
    """The result of a call: `content` is what the model is sent."""

    content: tuple[Block, ...]
    error: bool = False
    human: Display = field(default=Display())  # for the screen, which does not know the tool
    # For the transcript and compaction: {"path", "sha256", "first", "last", "total"} of a file that was read
    # or written, {"exit": code} of a command.
    about: Mapping[str, Any] = field(default_factory=dict)
    stored: StoredOutput | None = None  # the full output, if it is longer than `content`
    ends_turn: bool = False  # the turn ends with this call
    # The lines of `content` before they are worded for the model, for other readers; None if every reader
    # gets the same.
    parts: tuple[str | Advice, ...] | None = None


def text_result(
    text: str,
    *,
    error: bool = False,
    human: Display | None = None,
    about: Mapping[str, Any] = MappingProxyType({}),
    stored: StoredOutput | None = None,
    parts: tuple[str | Advice, ...] | None = None,
    ends_turn: bool = False,
) -> ToolResult:
    """Return a result whose content is one text."""
    return ToolResult(
        (TextBlock(text),),
        error=error,
        human=human or Display(),
        about=about,
        stored=stored,
        parts=parts,
        ends_turn=ends_turn,
    )


def decision_result(text: str, human: Display, about: Mapping[str, Any] = MappingProxyType({})) -> ToolResult:
    """Return a result that states the user's decision; no other text in a result counts as their words."""
    return ToolResult((ChannelBlock(text, in_place=True),), human=human, about=about)


class ToolContext(CommandContext):
    """The context of a session's tools. One value for each session; only tools change its content.

    `in_view` returns whether the result with that seq is still shown unchanged in the conversation.
    `compact` requests a compaction before the next request, given the details to keep, and returns what
    will happen.

    Contract of `spawn`: the nested session has a transcript of its own, linked to the calling one by
    `parent`. It shares the calling session's process supervisor, so its commands end with that session; its
    checkpoints, so that a rewind takes back its changes; and its budget, so that its cost counts there. It
    has no more permissions than the calling session and asks the same approver. Only a few run at once, the
    others wait. Whatever ends it early (a model error, its share of the budget, `max_turns`) is not raised
    but in `SpawnResult.error`; ToolError is raised only if it cannot be started. Cancelling the call
    interrupts the nested session, whose transcript stays valid, and raises CancelledError.
    """

    in_view: Callable[[int], bool] = lambda seq: False
    lookup: Callable[[], Originals] | None = None  # the transcript as it is now; None outside a session
    compact: Callable[[str], Awaitable[str]] | None = None  # None in a session that is not compacted
    page_bytes: Callable[[], int] = lambda: sys.maxsize  # of one page of a tool that pages, by the window
    locks: dict[str, asyncio.Lock] = field(default_factory=dict)  # by real path: one change at a time
    may_read: Callable[[str, str], bool] = lambda tool, path: True  # what searches may see
    servers: Any = None  # the run's agent.extensions.mcp.McpServers; None without any
    skills: Callable[[], Any] | None = None  # returns agent.app.skill_runs.SessionSkills; None without skills
    spawn: Callable[[SpawnRequest], Awaitable[SpawnResult]] | None = None  # None if none can be started
    plan_mode: PlanMode | None = None  # None in a session that cannot plan with the user


class ToolCall(Struct, frozen=True):
    """A running call.

    `progress` takes the newest raw output of long work; it is quick and never raises. `checkpoint` must be
    called in a thread with the real path of a file before that is changed; None without checkpoints.
    If `sandboxed`, everything that the call runs must run in the sandbox; `ask_to_leave` then asks the user
    about a blocked access, and is None if no one can be asked. `ask` asks the user about the call, with its
    preview.
    """

    context: ToolContext
    ident: str = "0.0"  # unique in the session, free for naming files
    progress: Callable[[str], None] = lambda text: None
    checkpoint: Callable[[Path], None] | None = None
    sandboxed: bool = False
    ask_to_leave: Callable[[BlockedAccess], Awaitable[UnblockDecision]] | None = None
    ask: AskUser | None = None
    place: CallPlace = CallPlace()  # in the transcript


# Given the name and the input of a call, returns the tool that it stands for, with the arguments for that
# tool; the call is judged, run and shown under its name. None: the call stands for itself. Raises ToolError.
Resolve = Callable[[str, Mapping[str, Any]], Awaitable["tuple[Tool, Mapping[str, Any]] | None"]]


class ArgumentsModel(Protocol):
    """The contract of a class of parameters; ours are based on tools.parameters.Arguments."""

    @classmethod
    def parameters(cls) -> dict[str, bool]:
        """Return the names of the parameters, and whether each is required."""

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> tuple[Any, list[WrongValue]]:
        """Return the input as an instance, and the problems in it."""

    @classmethod
    def sent_schema(cls, brief: bool = False) -> Mapping[str, Any]:
        """Return the JSON Schema for the model; `brief` omits the parameters that are details."""


class ToolAdvice(NamedTuple):
    """A line at the end of a tool's description if any of the `tools` is offered; `{}` is their names."""

    tools: str
    line: str


class Tool(Struct, frozen=True):
    """A tool: how it is offered to the model, judged, run and recorded. It consists of plain functions.

    `arguments` is a class as in tools/parameters.py, or a JSON Schema object; `access` and the others get an
    instance of the class, or a dict that fits the schema. It and the description are byte-stable within a
    session: both are part of the prompt that the server caches.

    The executor calls the functions of a tool in this order, for each call:

    title(arguments)              one line for the screen, without the tool's name. Does not raise.
    access(arguments, context)    everything that the call would read, write, run or reach, with canonical
                                  paths. Nothing is done yet. May raise ToolError: the call is refused.
    preview(arguments, context)   only if the user is asked. May raise
                                  ToolError if the call cannot succeed anyway. Default: the title.
    run(arguments, call)          runs the call. Raises ToolError for what the model can fix; an OSError
                                  becomes an error result too, any other exception one that reports a bug in
                                  the tool. When cancelled, it ends everything that it started within 0.3 s
                                  and raises CancelledError, or ToolInterrupted with a partial result.
    record(result, context, seq)  called once the result is recorded, with its seq; also for calls that were
                                  refused or failed. Does not raise.

    All but `run` are called on the event loop's thread, and are quick.
    """

    name: str  # letters, digits, `_` and `-`; permission rules use it
    description: str  # for the model
    arguments: type[ArgumentsModel] | Mapping[str, Any]
    kind: ToolKind  # what kind of work it does, for permissions, compaction and the screen
    title: Callable[[Any], str]
    access: Callable[[Any, ToolContext], tuple[Access, ...]]
    run: Callable[[Any, ToolCall], Awaitable[ToolResult]]
    parallel: bool = False  # whether it may run concurrently with other calls: it changes nothing itself
    acts: bool = False  # whether a parallel tool makes others change something: its start is recorded
    for_agents: bool = True  # whether nested sessions are offered it
    least_window: int = 0  # tokens; in a smaller window it is offered only if the user names it
    deferred: bool = False  # only if the service can search tools: not in the prompt until found
    brief: str = ""  # in a small window it is described by this and the names of its parameters; "": as ever
    advice: tuple[ToolAdvice, ...] = ()
    is_brief: bool = False  # the model is sent the parameters for a small window
    preview: Callable[[Any, ToolContext], Preview] | None = None
    record: Callable[[ToolResult, ToolContext, int], None] | None = None
    resolve: Resolve | None = None
    checked: Mapping[str, Any] | None = None  # the schema for checking arguments; None: `arguments`
    shown_as: Callable[[Any], tuple[str, str]] | None = None  # name and title of a call of another tool

    def __post_init__(self) -> None:
        if not _TOOL_NAME.fullmatch(self.name) or self.kind not in get_args(ToolKind):
            raise ValueError(f"invalid tool: name {self.name!r}, kind {self.kind!r}")

    def in_brief(self) -> Tool:
        """Return the tool as it is offered in a small window."""
        brief = self.brief
        return replace(self, description=brief or self.description, advice=(), is_brief=bool(brief))

    def described(self, offered: Collection[str]) -> str:
        """Return the description, with the advice about those other tools that are offered too."""
        lines = [self.description]
        for advice in self.advice:
            if named := [name for name in advice.tools.split() if name in offered]:
                joined = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
                lines.append(advice.line.format(joined))
        return "\n".join(lines)

    def parameters(self) -> dict[str, bool]:
        """Return the names of the parameters, and whether each is required."""
        if isinstance(self.arguments, Mapping):
            schema = self.arguments if self.checked is None else self.checked
            required = schema.get("required", ())
            return {name: name in required for name in schema.get("properties", ())}
        return self.arguments.parameters()

    def heading(self, given: Mapping[str, Any]) -> tuple[str, str]:
        """Return the name and the title that the screen shows for a call. Raises ToolError."""
        arguments = self.parse(given)
        return self.shown_as(arguments) if self.shown_as is not None else (self.name, self.title(arguments))

    def parse(self, given: Mapping[str, Any]) -> Any:
        """Return the input of a call as the arguments of its tool. Raises ToolError with a line per problem.

        Harmless mistakes are understood: "5" counts as 5, a value that was encoded as JSON is decoded, and ""
        for an optional parameter that takes no text as nothing: some models fill in every parameter.
        """
        arguments, problems = _validated(self, dict(given))
        if not problems:
            return arguments
        decoded = dict(given)
        for name in {str(problem.path[0]) for problem in problems if problem.path}:
            if decoded.get(name) == "" and not self.parameters().get(name, True):
                del decoded[name]
            elif isinstance(decoded.get(name), str):
                with suppress(ValueError, RecursionError):
                    value = json.loads(decoded[name])
                    check_shape(value)
                    decoded[name] = value
        arguments, others = _validated(self, decoded)
        if not others:
            return arguments
        described = (f"{name} (required)" if needed else name for name, needed in self.parameters().items())
        problem_lines = dict.fromkeys(_problem_line(self, problem) for problem in problems)
        lines = [f"{self.name} could not be called:", *problem_lines]
        raise ToolError("\n".join([*lines, f"Its parameters are: {', '.join(described)}."]))

    def with_own_names(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the input of a call with other programs' names for our parameters replaced by ours.

        Call this before anything judges the input, since hooks and rules look for our names.
        """
        if isinstance(self.arguments, Mapping):
            return given
        parameters = self.parameters()
        names: dict[str, str] = {}
        for name in given:
            own = _OWN_PARAMETERS.get(name.replace("_", "").lower(), name) if name not in parameters else name
            taken = own in given or own in names.values()
            names[name] = own if own in parameters and not taken else name
        return {names[name]: value for name, value in given.items()}


def _validated(tool: Tool, given: dict[str, Any]) -> tuple[Any, list[WrongValue]]:
    """Return the arguments, and what is wrong with the input."""
    if isinstance(tool.arguments, Mapping):
        schema = tool.arguments if tool.checked is None else tool.checked
        return given, list(_schema_problems(tool, schema, given))
    return tool.arguments.checked(given)


def _problem_line(tool: Tool, wrong: WrongValue) -> str:
    """Return the line for the model about a wrong value."""
    name = ".".join(map(str, wrong.path)) or "the input"
    if wrong.kind == "missing":
        return f"The required parameter `{name}` is missing."
    if wrong.kind == "unknown":
        near = get_close_matches(name, tool.parameters(), 1) if len(wrong.path) == 1 else []
        hint = f" Did you mean `{near[0]}`?" if near else ""
        if name in _PARAMETER_HINTS and tool.name == "bash":
            hint = f" To run it in another directory, {_PARAMETER_HINTS[name]}."
        return f"An unexpected parameter `{name}` was provided.{hint}"
    return f"The parameter `{name}` is {shorten(repr(wrong.value), 80)}: {wrong.reason}."


def is_usable_schema(schema: Mapping[str, Any]) -> bool:
    """Return whether it is a valid JSON Schema, by which arguments can be checked."""
    import jsonschema  # 100 ms, and the built-in tools do not need it

    try:
        jsonschema.Draft202012Validator.check_schema(dict(schema))
    except (jsonschema.SchemaError, RecursionError, OverflowError):  # of a pattern's repetitions
        return False
    return True


def _schema_problems(tool: Tool, schema: Mapping[str, Any], given: dict[str, Any]) -> Iterator[WrongValue]:
    """Find the values that violate the JSON Schema. Raises UncheckableSchema if the schema is unusable."""
    import jsonschema  # 100 ms, and the built-in tools do not need it
    import referencing

    kind: Any = jsonschema.Draft202012Validator
    if isinstance(schema.get("$schema"), str):
        kind = jsonschema.validators.validator_for(schema, kind)
    problems: list[Any]
    try:
        kind.check_schema(dict(schema))
        # An empty registry: a reference to another document is an error, not a request to a server.
        problems = list(kind(dict(schema), registry=referencing.Registry()).iter_errors(given))
    except (jsonschema.SchemaError, referencing.exceptions.Unresolvable, RecursionError) as error:
        reason = str(getattr(error, "message", error)).splitlines()[0][:200]
        problem = f"{tool.name} declares a parameter schema that cannot be used: {reason}"
        raise UncheckableSchema(problem) from error
    for problem in problems:
        path = tuple(problem.absolute_path)
        value = problem.instance
        if problem.validator == "required":
            absent = (name for name in problem.validator_value if name not in value)
            yield from (WrongValue((*path, name), "missing") for name in absent)
        elif problem.validator == "additionalProperties" and isinstance(value, Mapping):
            extra = (name for name in value if name not in problem.schema.get("properties", ()))
            yield from (WrongValue((*path, name), "unknown") for name in extra)
        else:
            yield WrongValue(path, kind="wrong", value=value, reason=problem.message)
