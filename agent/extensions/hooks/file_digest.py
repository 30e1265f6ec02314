"""A digest of the project's files that a command line runs: its approval covers only these bytes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from agent import shell


def named_files(line: str, folder: Path, environ: Mapping[str, str], cwd: Path | None = None) -> str:
    """Return a digest of the project's files that a command line names; "" for none.

    `cwd` is the directory that the line runs in, None for the project's.
    Of a file that it only writes, only the real path counts, so that a changed link cannot redirect it.
    """
    for variable in ("${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR"):
        line = line.replace(variable, str(folder))
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    # Operators need no space, and a word may be a line: `bash <a.sh`, `true&&./a.sh`, `sh -c "./a.sh x"`.
    words += [part for word in words for part in re.split(r"[\s<>=;&|()]+", word) if part != word]
    written = _only_written(line)
    words = [word for word in words if word not in written]
    programs = shell.ProjectEnvironment(str(folder), environ).own_programs(words, str(cwd or folder))
    if not written:
        return programs
    places = [os.path.realpath((cwd or folder) / name) for name in sorted(written)]
    return hashlib.sha256(json.dumps([programs, *places]).encode()).hexdigest()


def _only_written(line: str) -> set[str]:
    """Return the files that a line only writes, such as its log. None of them is run.

    The set is empty if it cannot be determined which commands the line runs.
    """
    reading = shell.read_line(line)
    if reading.opaque:
        return set()
    written: set[str] = set()
    named: set[str] = set()
    for command in reading.invocations:
        for redirect in command.redirects:
            (named if "<" in redirect.operator else written).add(redirect.target)
        (written if command.program == "tee" else named).update(command.words[1:])
        named.update(command.words[:1])
    return {name for name in written - named if "\0" not in name}
