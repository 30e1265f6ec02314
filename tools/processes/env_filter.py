"""The environment of commands: without our credentials, without prompts, and with git restricted.

transcripts/secrets defines what a credential is, also for masking. git is configured not to run programs that
a repository's settings name. Settings in this form override those of all files, and also apply to the git
processes of submodules. No variable keeps git from running textconv programs and filters, so commands that
could run them do not count as read-only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from tools.text import word_set
from transcripts.secrets import is_withheld, secret_values

# Variables that would change the meaning of a command line or where it runs: start-up files and options of
# the shell, programs and options that read-only commands would take from the environment.
_STEERING = word_set(
    "BASH_ENV ENV SHELLOPTS BASHOPTS CDPATH GLOBIGNORE POSIXLY_CORRECT PWD EXECIGNORE FIGNORE"
    " LESSOPEN LESSCLOSE RIPGREP_CONFIG_PATH GREP_OPTIONS PS_PERSONALITY CMD_ENV GIT_EXTERNAL_DIFF"
)
_ENV_START_FIELD = 47  # env_start in /proc/<pid>/stat, counted after the program's name, see proc(5)
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Requests for news, which would ask the user about a host that the command itself does not need.
_UNASKED: Mapping[str, str] = {
    "NPM_CONFIG_UPDATE_NOTIFIER": "false",
    "NO_UPDATE_NOTIFIER": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "CHECKPOINT_DISABLE": "1",  # terraform and other programs of HashiCorp
}
_QUIETING: Mapping[str, str] = {
    "TERM": "dumb",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    "SSH_ASKPASS_REQUIRE": "never",  # otherwise ssh opens a window and waits for the user
    "DEBIAN_FRONTEND": "noninteractive",
    "MAKEROOM": "1",
    "AGENT": "1",
    "AI_AGENT": "makeroom",
}

# See git-config(1), git(1). fsmonitor names a program that `git status` runs. A project may contain a
# directory that looks like a bare repository and has its own settings (git 2.38).
_GIT_SETTINGS = (("core.fsmonitor", "false"), ("core.pager", "cat"), ("safe.bareRepository", "explicit"))
_GIT_VARIABLES: Mapping[str, str] = {
    "GIT_OPTIONAL_LOCKS": "0",  # keeps `git status` and `git diff` from rewriting the index
    "GIT_NO_LAZY_FETCH": "1",  # reading a partial clone fetches nothing
    "GIT_TERMINAL_PROMPT": "0",
}


def filter_environment(environ: Mapping[str, str], pass_env: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment for commands, including the credentials that `pass_env` names.

    A variable whose value contains the secret of another variable is left out too.
    """
    passed = frozenset(pass_env)
    secrets = secret_values(environ)
    kept = {
        name: value
        for name, value in environ.items()
        if name in passed
        or not (name in _STEERING or is_withheld(name, value) or any(map(value.__contains__, secrets)))
    }
    return {"PATH": _DEFAULT_PATH, **_UNASKED, **kept, **_QUIETING, **hardened_git(kept)}


def hardened_git(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add to an environment. Its own settings for git are kept, before ours.

    git supports GIT_CONFIG_COUNT since 2.31. A setting without a name or value ends the existing ones, since
    git would refuse to run with it.
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
    """Remove the credentials that we were started with from /proc/<pid>/environ.

    This is for systems on which commands share our PID namespace. Other processes of the same user can no
    longer read that file, and secrets in it are overwritten in case of root. `os.environ` has its own copies.
    """
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, ValueError, IndexError):
            _overwrite_secrets(*_environment_place())
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def _environment_place() -> tuple[int, int]:
    """Return the address range of the environment that makeroom was started with."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[_ENV_START_FIELD]), int(fields[_ENV_START_FIELD + 1])


def _overwrite_secrets(start: int, end: int) -> None:
    import ctypes

    for variable in ctypes.string_at(start, end - start).split(b"\0"):
        name, _, value = variable.partition(b"=")
        if is_withheld(os.fsdecode(name), os.fsdecode(value)):
            ctypes.memset(start + len(name) + 1, 0, len(value))
        start += len(variable) + 1
