"""The environment of commands: no credentials of ours, what keeps programs from asking, and git in bounds.

transcripts/secrets tells what a credential is, for masking too. git is told to run no program that a
repository's settings name: settings of this form beat those of every file and reach the git processes of
submodules too. No variable keeps git from running textconv programs and filters: a command that could fire
them is not taken for one that only reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from tools.text import word_set
from transcripts.secrets import is_withheld, secret_values

# What would change what a command line means or where it runs: start-up files and options of the shell,
# programs and options that looking programs would take from the environment.
_STEERING = word_set(
    "BASH_ENV ENV SHELLOPTS BASHOPTS CDPATH GLOBIGNORE POSIXLY_CORRECT PWD EXECIGNORE FIGNORE"
    " LESSOPEN LESSCLOSE RIPGREP_CONFIG_PATH GREP_OPTIONS PS_PERSONALITY CMD_ENV GIT_EXTERNAL_DIFF"
)
_PR_SET_DUMPABLE = 4  # linux/prctl.h
_ENV_START_FIELD = 47  # env_start in /proc/<pid>/stat, counted behind the program's name: proc(5)
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_QUIETING: Mapping[str, str] = {
    "TERM": "dumb",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    "SSH_ASKPASS_REQUIRE": "never",  # otherwise ssh opens a window and waits for it
    "DEBIAN_FRONTEND": "noninteractive",
    "MAKEROOM": "1",
    "AGENT": "1",
    "AI_AGENT": "makeroom",
}

# git-config(1), git(1). fsmonitor names a program that `git status` runs; a folder that looks like a bare
# repository may lie in a project and hold settings of its own (git 2.38).
_GIT_SETTINGS = (("core.fsmonitor", "false"), ("core.pager", "cat"), ("safe.bareRepository", "explicit"))
_GIT_VARIABLES: Mapping[str, str] = {
    "GIT_OPTIONAL_LOCKS": "0",  # `git status` and `git diff` do not rewrite the index
    "GIT_NO_LAZY_FETCH": "1",  # to look at a partial clone fetches nothing
    "GIT_TERMINAL_PROMPT": "0",
}


def filter_environment(environ: Mapping[str, str], pass_env: Iterable[str] = ()) -> dict[str, str]:
    """The environment for commands. `pass_env` names variables that a user wants there all the same.

    A variable that repeats the secret of another, alone or within more, is left out too.
    """
    passed = frozenset(pass_env)
    secrets = secret_values(environ)
    kept = {
        name: value
        for name, value in environ.items()
        if name in passed
        or not (name in _STEERING or is_withheld(name, value) or any(map(value.__contains__, secrets)))
    }
    return {"PATH": _DEFAULT_PATH, **kept, **_QUIETING, **hardened_git(kept)}


def hardened_git(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to add to an environment. Settings that it hands to git stay, before ours.

    The form GIT_CONFIG_COUNT is known since git 2.31; a setting that lacks its name or value ends the given
    ones, as git would refuse to run.
    """
    count = environ.get("GIT_CONFIG_COUNT", "")
    given = int(count) if count.isascii() and count.isdigit() and len(count) < 4 else 0
    pairs = ({f"GIT_CONFIG_KEY_{at}", f"GIT_CONFIG_VALUE_{at}"} <= environ.keys() for at in range(given))
    first = next((at for at, whole in enumerate(pairs) if not whole), given)
    added = dict(_GIT_VARIABLES)
    for at, (name, value) in enumerate(_GIT_SETTINGS, first):
        added |= {f"GIT_CONFIG_KEY_{at}": name, f"GIT_CONFIG_VALUE_{at}": value}
    return {**added, "GIT_CONFIG_COUNT": str(first + len(_GIT_SETTINGS))}


def hide_own_environment() -> None:
    """Keep the credentials that we were started with out of /proc/<pid>/environ.

    For where commands share our process numbers. Other processes of the same user cannot read that file any
    more, and for root the values of secrets in it are overwritten; `os.environ` has copies of its own.
    """
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, ValueError, IndexError):
            _overwrite_secrets(*_environment_place())
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _environment_place() -> tuple[int, int]:
    """Return the span in memory of the environment that the program was started with."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[_ENV_START_FIELD]), int(fields[_ENV_START_FIELD + 1])


def _overwrite_secrets(start: int, end: int) -> None:
    import ctypes

    for variable in ctypes.string_at(start, end - start).split(b"\0"):
        name, _, value = variable.partition(b"=")
        if is_withheld(os.fsdecode(name), os.fsdecode(value)):
            ctypes.memset(start + len(name) + 1, 0, len(value))
        start += len(variable) + 1
