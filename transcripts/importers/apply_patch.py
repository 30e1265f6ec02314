"""Convert Codex's calls to those of makeroom: commands to `bash`, patches to `edit` and `write`.

A piece of an updated file becomes an edit (see patches.py for the pieces). A piece without old text, a
deletion and a move have no such edit: they stay calls of `apply_patch`, one per file.
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from ..messages import ToolUseBlock
from ..patches import FilePatch, file_patches

_PATCH_TOOL = "apply_patch"
_COMMAND_TOOLS = ("shell", "shell_command", "exec_command", "container.exec", "local_shell")
_OWN_NAMES = {"read_file": "read", "grep_files": "grep"}
_SHELLS = ("bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh")


def own_calls(use: ToolUseBlock) -> list[ToolUseBlock]:
    """Return a call of Codex as calls of makeroom's tools; the first has its id.

    A call of another tool is returned unchanged.
    """
    name = use.name.removeprefix("functions.")
    command = _command(use.input) if name in _COMMAND_TOOLS else ""
    changes = file_patches(_patch(name, use.input, command))
    if made := [call for change in changes for call in _file_calls(change)]:
        return [
            ToolUseBlock(use.id if at == 0 else f"{use.id}.{at}", name=each, input=arguments)
            for at, (each, arguments) in enumerate(made)
        ]
    if command:
        rest = {key: value for key, value in use.input.items() if key not in ("command", "cmd")}
        return [ToolUseBlock(use.id, name="bash", input={"command": command, **rest})]
    return [ToolUseBlock(use.id, name=_OWN_NAMES.get(name, use.name), input=use.input)]


def _command(arguments: Mapping[str, Any]) -> str:
    """Return the command line of a call; a list that only starts a shell is the script for that shell."""
    command = arguments.get("command", arguments.get("cmd"))
    if isinstance(command, str):
        return command
    if not isinstance(command, list):
        return ""
    words = list(map(str, command))
    if len(words) == 3 and words[0] in _SHELLS and words[1] in ("-c", "-lc"):
        return words[2]
    return shlex.join(words)


def _patch(name: str, arguments: Mapping[str, Any], command: str) -> str:
    """Return the text with the patch of a call of the tool, or of a command line that starts it, or ""."""
    words = arguments.get("command")
    if name == _PATCH_TOOL:
        text = arguments.get("input", arguments.get("patch", ""))
    elif isinstance(words, list) and words[:1] == [_PATCH_TOOL]:
        text = words[-1]
    elif command.lstrip().startswith((_PATCH_TOOL, "cd ")) and f"{_PATCH_TOOL} <<" in command:
        text = command
    else:
        return ""
    return str(text)


def _file_calls(change: FilePatch) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and input of each call for the changes of one file."""
    if change.action == "add":
        text = "".join(f"{line[1:]}\n" for line in change.lines if line.startswith("+"))
        yield "write", {"file_path": change.path, "content": text}
        return
    lines = change.lines
    if change.action == "update" and all(hunk.old for hunk in change.hunks):
        for hunk in change.hunks:
            yield "edit", {"file_path": change.path, "old_string": hunk.old, "new_string": hunk.new}
        moves = tuple(line for line in lines if line.startswith("*** Move to: "))
        if not moves:
            return
        lines = (lines[0], *moves)
    yield _PATCH_TOOL, {"file_path": change.path, "patch": "\n".join(lines)}
