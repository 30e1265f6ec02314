"""What commands can see of our environment: no credentials, and what keeps programs from asking.

What a credential is stands in transcripts/secret_forms.py, for masking too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from transcripts.secret_forms import is_withheld, secret_values

from .git_environment import hardened_git
from .text_encoding import word_set

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
}


def filter_environment(environ: Mapping[str, str], pass_env: Iterable[str] = ()) -> dict[str, str]:
    """The environment for commands. `pass_env` names variables that a person wants there all the same.

    A variable that repeats the secret of another, alone or within more, is left out too.
    """
    passed, secrets = frozenset(pass_env), secret_values(environ)
    kept = {
        name: value
        for name, value in environ.items()
        if name in passed
        or not (name in _STEERING or is_withheld(name, value) or any(map(value.__contains__, secrets)))
    }
    return {"PATH": _DEFAULT_PATH, **kept, **_QUIETING, **hardened_git(kept)}


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
    """Where the environment that we were started with lies in memory: from, to."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[_ENV_START_FIELD]), int(fields[_ENV_START_FIELD + 1])


def _overwrite_secrets(start: int, end: int) -> None:
    import ctypes

    for variable in ctypes.string_at(start, end - start).split(b"\0"):
        name, _, value = variable.partition(b"=")
        if is_withheld(os.fsdecode(name), os.fsdecode(value)):
            ctypes.memset(start + len(name) + 1, 0, len(value))
        start += len(variable) + 1
