"""Convert Codex's calls to those of makeroom: commands to `bash`, patches to `edit` and `write`.

A patch names files, and for each file pieces of its text with the lines before and after a change:

    *** Begin Patch
    *** Update File: a.py
    @@ def f():
         x = 1
    -    return 1
    +    return x
    *** End Patch

This becomes an edit of a.py whose old text is the lines without "+", and whose new text is those without "-".
A piece without old text, a deletion and a move have no such edit: they stay calls of `apply_patch`, one per
file.
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from ..messages import ToolUseBlock

_BEGIN = "*** Begin Patch"
_END = "*** End Patch"
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
    patch = _patch(name, use.input, command)
    if patch:
        made = [call for section in _sections(patch) for call in _section_calls(section)]
        if made:
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
    """Return the patch of a call of the tool, or of a command line that starts the program; "" for none."""
    words = arguments.get("command")
    if name == _PATCH_TOOL:
        text = arguments.get("input", arguments.get("patch", ""))
    elif isinstance(words, list) and words[:1] == [_PATCH_TOOL]:
        text = words[-1]
    elif command.lstrip().startswith((_PATCH_TOOL, "cd ")) and f"{_PATCH_TOOL} <<" in command:
        text = command
    else:
        return ""
    _, found, patch = str(text).partition(_BEGIN)
    return patch.partition(f"\n{_END}")[0] if found else ""


def _sections(patch: str) -> Iterator[list[str]]:
    """Yield the lines about each file, the first of which names it."""
    section: list[str] = []
    for line in patch.split("\n"):
        if line.startswith(("*** Add File: ", "*** Delete File: ", "*** Update File: ")):
            if section:
                yield section
            section = [line]
        elif section:
            section.append(line)
    if section:
        yield section


def _section_calls(section: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and input of each call for the changes of one file."""
    action, _, path = section[0].partition(" File: ")
    path = path.strip()
    body = section[1:]
    if action == "*** Add":
        text = "".join(f"{line[1:]}\n" for line in body if line.startswith("+"))
        yield "write", {"file_path": path, "content": text}
        return
    pieces = list(map(_old_and_new, _pieces(body)))
    if action == "*** Update" and all(old for old, _ in pieces):
        for old, new in pieces:
            yield "edit", {"file_path": path, "old_string": old, "new_string": new}
        moves = [line for line in body if line.startswith("*** Move to: ")]
        if not moves:
            return
        section = [section[0], *moves]
    yield _PATCH_TOOL, {"file_path": path, "patch": "\n".join(section)}


def _pieces(body: list[str]) -> Iterator[list[str]]:
    """Yield the lines of each piece of an update, without its heading."""
    piece: list[str] = []
    for line in body:
        if line.startswith("@@"):
            if piece:
                yield piece
            piece = []
        elif not line.startswith("*** "):
            piece.append(line)
    if piece:
        yield piece


def _old_and_new(piece: list[str]) -> tuple[str, str]:
    """Return the text before and after a change; a line without a mark is an unchanged empty line."""
    old = [line[1:] for line in piece if not line.startswith("+")]
    new = [line[1:] for line in piece if not line.startswith("-")]
    return "\n".join(old), "\n".join(new)
