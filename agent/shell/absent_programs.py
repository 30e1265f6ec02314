"""Find programs that a command line needs and that do not exist, such as the script of a hook."""

# ruff: noqa: PTH110, PTH118 - unlike os.path, a Path raises errors

from __future__ import annotations

import os
from collections.abc import Mapping

from .line_reading import read_line
from .parsed_text import HOME, is_unknown
from .program_files import ProjectPrograms
from .read_only import is_builtin


def missing_programs(line: str, folder: str, environ: Mapping[str, str]) -> list[str]:
    """Return the programs and scripts that a line runs from `folder` and that do not exist.

    Those that depend on conditions or on unknown text are left out.
    """
    reading = read_line(line)
    commands = reading.invocations
    if reading.opaque or any(command.program in ("cd", "pushd") for command in commands):
        return []
    programs = ProjectPrograms(folder, environ)
    functions = {name for command in commands for name in command.within}
    missing = []
    joint = ""
    for command in commands:
        is_conditional = joint in ("&&", "||") or not command.sure
        joint = command.joint
        name = command.words[0] if command.words else ""
        if is_conditional or not name or is_unknown(name) or is_builtin(name) or name in functions:
            continue
        path = name.replace(HOME, environ.get("HOME", ""))
        found = os.path.exists(os.path.join(folder, path)) if "/" in path else programs.program(path, folder)
        if not found:
            missing.append(path)
    return list(dict.fromkeys(missing))
