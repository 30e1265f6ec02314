"""Commands about the project: /init, /memory, /diff, /todo, /plan, /tasks, and `!command`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.app import Controller
from agent.checkpoints import differences
from agent.events import CommandOutput, Event, Notice, ToolCallProgress, ToolCallStarted
from agent.formatting import format_duration, todo_mark
from agent.keys import with_keys
from agent.loop import memory_sent_below
from agent.session import (
    cut_after,
    memory_of,
    newest_plan,
    newest_todos,
    note_news,
    system_prompt,
)
from agent.typed_text import unquoted
from compact import joined_text
from tools.base import Advice, ToolCall, ToolError, ToolInterrupted, ToolResult
from tools.files import FileError, one_line_path
from tools.guarded import MEMORY_NAMES
from tools.processes import BackgroundJob, Inbox, command_runner, move_to_background
from transcripts import DataTag, TextBlock, quoted
from transcripts.wording import pluralize, shorten

from .context import system_prompt_rate
from .rewind import checkpoints_of, gaps_of, why_no_files
from .running import usage_notice
from .setting_menus import mode_words

INIT_PROMPT = """\
Study this project and write {name} at its root. The file is for agents that work here: it says what they \
need to know and cannot see at a glance. First read the README, the build and configuration files, the \
tests and the main modules. Then describe in at most 60 lines:

- the purpose of the project
- the commands to build, run, check and test it, including how to run a single test
- the layout of the code, and which parts depend on which
- the conventions of the project
- common mistakes

Write only what you have seen in the files. Give no general advice."""
IMPROVE_PROMPT = "\n{name} exists already: keep what is true, correct the rest, and add what is missing."
NO_REPLY = 0  # the number of the reply that a command of the user belongs to, for the screen


async def init_project(controller: Controller, argument: str) -> None:
    """Run /init."""
    folder = controller.setup.folder
    existing = next((name for name in MEMORY_NAMES if (folder / name).is_file()), None)
    name = existing or MEMORY_NAMES[0]
    prompt = INIT_PROMPT.format(name=name) + (IMPROVE_PROMPT.format(name=name) if existing else "")
    await controller.prompt(f"{prompt}\n{argument}" if argument else prompt)


async def show_memory(controller: Controller, argument: str) -> Event | None:
    """Run /memory."""
    session, context = controller.in_use
    folder = controller.setup.folder
    places = controller.services.memory
    used = memory_of(context.settings.system)
    now = memory_of(system_prompt(places.find(), ()))
    rate = system_prompt_rate(session, context)

    def size(text: str) -> str:
        return f"{round(context.compaction.counter.text(text) * rate):>8,} tokens"

    lines = []
    for path, text in used.items():
        note = ""
        if path not in now:
            note = "  (deleted since)"
        elif now[path] != text:
            note = "  (changed since)"
        chars = cut_after(text)
        cut = f"  (only the first {chars:,} characters)" if chars is not None else ""
        lines.append(f"{size(text)}  {path}{cut}{note}")
    for name, sent in memory_sent_below(session).items():
        shown = os.path.relpath(sent.beside, folder) if sent.beside else "a prompt"
        lines.append(f"{size(sent.text)}  {name}  (loaded with {shown})")
    lines += [f"     not read  {path}  (created since)" for path in now if path not in used]
    for other, why in places.passed_over({**used, **now}).items():
        lines.append(f"     not read  {other}  ({why})")
    if not lines:
        names = " or ".join(MEMORY_NAMES)
        where = f"{folder} or {places.user_dir}"
        return Notice(f"no memory files; create {names} in {where}, or run /init")
    controller.emit(CommandOutput("\n".join(lines)))
    return Notice("memory files are read when a session starts; run /clear to start a new one")


async def show_diff(controller: Controller, argument: str) -> Event | None:
    """Run /diff."""
    checkpoints = checkpoints_of(controller)
    why = why_no_files(controller)
    if checkpoints is None or why:
        return Notice(why, "warning")
    checkpoints.use_git(controller.in_use.context.tool_context)
    await asyncio.to_thread(checkpoints.catch_up)
    found = await asyncio.to_thread(differences, checkpoints)
    path = unquoted(argument).removeprefix("./").rstrip("/")
    shown = [one for one in found if not path or f"{one.path}/".startswith(f"{path}/")]
    gaps = [Notice(f"not covered: {gap}", "warning") for gap in gaps_of(controller)]
    if not shown:
        where = f" to {path}" if path else ""
        controller.emit(Notice(f"no changes{where} recorded in this session"))
    left = 600  # lines
    heads: list[str] = []
    for one in shown:
        figures = one.why or f"+{one.added} -{one.removed}"
        heads.append(f"{one.how:<8} {one_line_path(one.path)}  {figures}")
        lines = one.text.splitlines() if path or one.how != "deleted" else []  # a line is enough for each
        if not lines and one is not shown[-1]:
            continue
        controller.emit(CommandOutput("\n".join(heads)))
        heads = []
        allowed = left if path else min(left, 60)  # one of several files may not use all lines
        if lines[:allowed]:
            controller.emit(CommandOutput("\n".join(lines[:allowed]) + "\n", "diff"))
        if hidden := lines[allowed:]:
            more = pluralize(len(hidden), "more line")
            name = one_line_path(one.path)
            controller.emit(Notice(f"{more}; run /diff {name} to see them"))
        left -= len(lines[:allowed])
    own = [one for one in shown if one.how != "theirs"]
    added = sum(one.added for one in own)
    removed = sum(one.removed for one in own)
    if shown:
        controller.emit(Notice(f"{pluralize(len(own), 'file')}, +{added} -{removed}"))
    for gap in gaps:
        controller.emit(gap)
    return None


async def run_own_command(controller: Controller, line: str) -> Event | None:
    """Run a command line of the user without asking; one that begins with `!!` is not shown to the model."""
    private = line.startswith("!!")
    command = line.lstrip("!").strip()
    session, context = controller.in_use
    tool = context.tools["bash"]
    if not command:
        return Notice("usage: !COMMAND")
    number = controller.own_commands = controller.own_commands + 1

    def show(text: str) -> None:
        controller.emit(ToolCallProgress(NO_REPLY, block=number, text=text))

    def finish(result: ToolResult) -> CommandOutput:
        text = joined_text(result.content)
        if not private:
            framed = quoted(f"$ {command}\n{text}", DataTag.OWN_COMMAND)
            context.tool_context.inbox.post(TextBlock(framed), since=session.folded.last_reply_seq)
            note_news(session, context.tool_context.inbox)
        if (id := result.about.get("job")) and private:  # the model is not notified of its end either
            command_runner(context.tool_context).jobs[id].inbox = Inbox()
        lines = [_line_for_user(part, controller.setup.key_names) for part in result.parts or ()]
        return CommandOutput("\n".join(lines) or text)

    controller.emit(ToolCallStarted(NO_REPLY, block=number, name=tool.name, title=command))
    call = ToolCall(context.tool_context, f"own.{number}", progress=show)
    try:
        return finish(await tool.run(tool.parse({"command": command}), call))
    except (FileError, ToolError) as error:
        return Notice(str(error), "error")
    except ToolInterrupted as interrupted:
        controller.emit(finish(interrupted.result))
        raise


def _line_for_user(part: str | Advice, keys: Mapping[str, str]) -> str:
    """Format a part of a result for the user who typed the command."""
    match part:
        case Advice("job", fact=fact, subject=id):
            return f"[{fact}/tasks lists it, /tasks kill {id} ends it]"
        case Advice("editor", fact=fact):
            advice = "run it in another terminal; {editor} opens the prompt in your editor"
            return f"[{fact}{with_keys(advice, keys)}]"
        case _:
            return str(part)


async def show_todos(controller: Controller, argument: str) -> Event | None:
    """Run /todo."""
    session, _ = controller.in_use
    _, todos = newest_todos(session.folded) or (0, ())
    if not todos:
        return Notice("the to-do list is empty; the model keeps one for work with several steps")
    return CommandOutput("\n".join(f"{todo_mark(item.status)} {item.content}" for item in todos))


async def plan(controller: Controller, argument: str) -> Event | None:
    """Run /plan."""
    session, context = controller.in_use
    if argument == "off":
        if not context.permissions.planning:
            return Notice("plan mode is not on")
        mode = context.permissions.before_plan
        context.permissions.set_mode(mode)
        words = mode_words(mode, context.permissions.rules.sandboxed)
        return Notice(f"plan mode is off; {mode} mode {words}")
    if context.permissions.planning and not argument:
        _, newest = newest_plan(session.folded) or (0, "")
        return CommandOutput(newest, "markdown") if newest else Notice("no plan yet")
    context.permissions.set_mode("plan")
    if argument:
        await controller.prompt(argument)
        return None
    text = "plan mode is on: nothing changes until you approve a plan; {mode} leaves it"
    return Notice(with_keys(text, controller.setup.key_names))


async def background(controller: Controller, argument: str) -> Event | None:
    """Run /background."""
    if not move_to_background(command_runner(controller.in_use.context.tool_context)):
        return Notice("no command is running")
    return None


async def show_tasks(controller: Controller, argument: str) -> Event | None:
    """Run /tasks."""
    _, context = controller.in_use
    runner = command_runner(context.tool_context)
    verb, _, id = argument.partition(" ")
    if verb == "kill":
        job = runner.jobs.get(id.strip())
        if job is None or job.ended is not None:
            running = ", ".join(job.id for job in runner.running) or "none"
            return usage_notice("tasks", f"{id.strip()!r} is not a running command; running: {running}")
        await runner.stop(job)
        return None  # the user and the model are notified of its end, as of any other
    if argument:
        return usage_notice("tasks", f"unknown argument {argument!r}")
    if not runner.jobs:
        return Notice("no background commands yet")
    folder = context.tool_context.folder
    now = asyncio.get_running_loop().time()
    lines = [_job_lines(job, await job.ports(), folder, now) for job in runner.jobs.values()]
    return CommandOutput("\n".join(lines))


def _job_lines(job: BackgroundJob, ports: Sequence[int], folder: Path, now: float) -> str:
    shown = shorten(" ".join(job.line.split()), 60)
    took = format_duration((job.ended or now) - job.began)
    stored = job.spool.stored(folder)
    output = f"{pluralize(stored.size, 'byte')} in {stored.path}" if stored else "none yet"
    listens = f"; listens on port {' and '.join(map(str, ports))} (see /publish)" if ports else ""
    return f"{job.id}  {shown}\n    {job.state}, {took}; output: {output}{listens}"
