"""Bash itself as the judge: what a line really runs, and whether it leaves a trace."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agent.shell.simple_commands import JoinedCommand, Words

BASH = "/bin/bash"
# Each line of the file $1, ended by NUL, is run by its own shell in the directory $2; $AT is its number.
_DRIVER = """
AT=0; export AT
while IFS= read -r -d "" line; do
    (cd "$2" && exec /bin/bash --norc -c "$line") </dev/null
    AT=$((AT+1))
done <"$1"
"""
# What bash calls for a command that is not found, as no program is: it tells the words that it was given. In
# one line: bash writes line by line, and the commands of a pipe write at once.
_TELLING = r"""
command_not_found_handle() {
    printf -v said '%s\x1f' "$@"
    echo -n "${said//$'\n'/$'\x1d'}"$'\x1e' >>"$LOG/$AT"
    return ${FAIL-0}
}
"""


def run_lines(place: Path, lines: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
    """Run each line as commands are run, one after the other."""
    given = place / "lines"
    given.write_bytes(b"".join(line.encode() + b"\0" for line in lines))
    subprocess.run(
        [BASH, "--norc", "-c", _DRIVER, "driver", str(given), str(folder)],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=900,
        check=True,
    )


def commands_run(place: Path, lines: Sequence[str], *, fail: bool = False) -> list[list[Words]]:
    """The words of each command that bash runs for each line, where no program exists, sorted.

    The only file there is `.in`. Every command succeeds, or with `fail` none does.
    """
    log, empty = place / "log", place / "empty"
    for folder in (log, empty):
        folder.mkdir(parents=True)
    (empty / ".in").touch()
    (place / "telling").write_text(_TELLING)
    environ = {"BASH_ENV": str(place / "telling"), "LOG": str(log), "PATH": "/nowhere", "LC_ALL": "C.UTF-8"}
    run_lines(place, lines, empty, environ | ({"FAIL": "1"} if fail else {}))
    found = []
    for at in range(len(lines)):
        text = (log / str(at)).read_text("utf-8") if (log / str(at)).exists() else ""
        text = text.replace("\x1d", "\n")
        found.append(sorted(call.split("\x1f")[:-1] for call in text.split("\x1e")[:-1]))
    return found


def expected_commands(joined: Iterable[JoinedCommand], *, fail: bool = False) -> list[Words]:
    """The commands of a line that a shell runs where every one succeeds, or none, sorted."""
    runs, found = True, []
    for joint, words, _ in joined:
        if joint in ("&&", "||"):
            runs = (joint == "||") is fail  # the status is that of the last command that ran
        elif joint in (";", "\n"):
            runs = True
        if runs:
            found.append([str(word) for word in words])
    return sorted(found)


def fingerprint(place: Path) -> dict[str, str]:
    """All that is below a directory: kind, mode, time of change and content of each entry."""
    found = {}
    for path in sorted(place.rglob("*")):
        about = path.lstat()
        content = ""
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.is_dir():
            content = "folder"
        found[str(path.relative_to(place))] = f"{about.st_mode:o} {about.st_mtime_ns} {content}"
    return found


def shims(folder: Path, log: Path, names: Iterable[str], system: str = "/usr/bin") -> None:
    """Programs that report their own call, then run the system's program of that name, if there is one."""
    folder.mkdir()
    log.mkdir()
    for name in names:
        real = Path(system, name)
        then = f'exec {real} "$@"' if real.exists() else "exec /bin/cat >/dev/null"
        (folder / name).write_text(f"#!/bin/sh\necho {name} >>{log}/$AT\n{then}\n")
        (folder / name).chmod(0o755)
