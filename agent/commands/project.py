"""Commands about the project and what the model is told of it: /init, /memory, /diff."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent.checkpoints.differences import FileDifference, differences
from agent.checkpoints.recorder import Checkpoints
from agent.events import CommandOutput, Notice
from agent.session.system_prompt import MEMORY_NAMES, memory_of, memory_paths, read_memory, system_prompt
from tools.text_encoding import pluralize

if TYPE_CHECKING:
    from agent.app.controller import Controller

INIT = """\
Study this project and write {name} at its root: what every agent that works here must know, and cannot \
see at once. Read the README, the build and configuration files, the tests and the main modules first. \
Then say, in at most 60 lines: what the project is; the commands to build, run, check and test it, also for \
a single test; how the code is laid out and which way the parts depend on each other; the conventions that \
it keeps to; and what is easily done wrong. Only what you have seen in the files, no general advice."""
IMPROVE = "\nThere is {name} already: keep what is still true, correct what is not, and add what is missing."

EACH, WHOLE = 60, 600  # lines of diff shown of a file, and in all


async def init(agent: Controller, argument: str) -> None:
    """Have the model write AGENTS.md, or improve it. It studies the project first; words are passed on."""
    folder = agent.setup.folder
    there = next((name for name in MEMORY_NAMES if (folder / name).is_file()), None)
    name = there or MEMORY_NAMES[0]
    words = INIT.format(name=name) + (IMPROVE.format(name=name) if there else "")
    await agent.prompt(f"{words}\n{argument}" if argument else words)


async def memory(agent: Controller, argument: str) -> None:
    """Show the memory files and what each costs. They are those that this session began with."""
    _, context = agent.in_use
    folder, user_dir = agent.setup.folder, agent.setup.config.user_dir
    used = memory_of(context.settings.system)
    now = memory_of(system_prompt(read_memory(memory_paths(folder, user_dir), user_dir)))
    lines = [
        f"{context.compaction.counter.text(text):>8,} tokens  {path}{_since(text, now.get(path))}"
        for path, text in used.items()
    ]
    lines += [f"     not read  {path}  (made since)" for path in now if path not in used]
    if not lines:
        places = f"{folder} or {user_dir}"
        agent.emit(
            Notice(f"no memory file: put {' or '.join(MEMORY_NAMES)} in {places}, or let /init write one")
        )
        return
    agent.emit(CommandOutput("\n".join(lines)))
    agent.emit(
        Notice("memory files are read when a session begins: /clear begins one with what they say now")
    )


def _since(text: str, now: str | None) -> str:
    if now is None:
        return "  (gone since)"
    return "" if now == text else "  (changed since)"


async def diff(agent: Controller, argument: str) -> None:
    """Show what this session changed in the project. With a path, show that file's changes whole."""
    keeper = agent.in_use[1].checkpoints
    if not isinstance(keeper, Checkpoints):
        agent.emit(Notice("there are no checkpoints of files without a record (--no-session)", "warning"))
        return
    found = await asyncio.to_thread(differences, keeper)
    path = argument.removeprefix("./").rstrip("/")
    shown = [one for one in found if not path or f"{one.path}/".startswith(f"{path}/")]
    if not shown:
        where = f"at {path}" if path else "in the project"
        agent.emit(Notice(f"this session changed nothing {where}"))
        return
    left = WHOLE
    for one in shown:
        left = _show(agent, one, left if path else min(left, EACH), left)
    added, removed = sum(one.added for one in shown), sum(one.removed for one in shown)
    agent.emit(Notice(f"{pluralize(len(shown), 'file')}, +{added} -{removed}"))
    for line in keeper.uncovered():
        agent.emit(Notice(f"not covered: {line}", "warning"))


def _show(agent: Controller, one: FileDifference, most: int, left: int) -> int:
    """Tell of one file in at most `most` lines of diff; returns what is left for the others."""
    agent.emit(CommandOutput(f"{one.how:<8} {one.path}  {one.why or f'+{one.added} -{one.removed}'}"))
    lines = one.text.splitlines()
    if lines and most > 0:
        agent.emit(CommandOutput("\n".join(lines[:most]) + "\n", "diff"))
    if len(lines) > most:
        agent.emit(Notice(f"{pluralize(len(lines) - most, 'more line')}; /diff {one.path} shows all"))
    return left - min(len(lines), most)
