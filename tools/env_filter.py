"""What commands can see of our environment: no credentials, and what keeps programs from asking.

A variable is judged by its name; by its value only where that has a form that only keys have.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping

from .git_environment import hardened_git
from .text_encoding import word_set

# What names a credential, at the end of a word of the name: MYTOKEN, GH_TOKENS, not TOKENIZERS_PARALLELISM.
_SECRET_NAME = re.compile(
    r"^(?:ANTHROPIC|AWS|AZURE|OPENAI)_"
    r"|(?:(?:API|ACCESS|PRIVATE|SIGNING|ENCRYPTION|ACCOUNT|MASTER)_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE"
    r"|CREDENTIAL)S?(?:_|\d|$)"
    r"|^(?:PGPASSFILE|MYSQL_PWD)$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"^(?:sk-(?:ant|proj|live|or)-\S{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|xox[abprs]-\S{10,}|AKIA[A-Z0-9]{16}"
    r"|glpat-\S{16,}|hf_\w{20,})$|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_OWN_PREFIX = "ANTHROPIC_"  # of the names of our own settings
_MIN_SECRET_CHARS = 8  # a shorter value would also be found in innocent variables
# What would change what a command line means or where it runs: start-up files and options of the shell,
# programs and options that looking programs would take from the environment.
_STEERING = word_set(
    "BASH_ENV ENV SHELLOPTS BASHOPTS CDPATH GLOBIGNORE POSIXLY_CORRECT PWD EXECIGNORE FIGNORE"
    " LESSOPEN LESSCLOSE RIPGREP_CONFIG_PATH GREP_OPTIONS PS_PERSONALITY CMD_ENV GIT_EXTERNAL_DIFF"
)
_PR_SET_DUMPABLE = 4  # linux/prctl.h
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


def is_secret(name: str, value: str = "") -> bool:
    """Whether a variable looks like a credential."""
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))


def filter_environment(environ: Mapping[str, str], pass_env: Iterable[str] = ()) -> dict[str, str]:
    """The environment for commands. `pass_env` names variables that a person wants there all the same.

    Where one of our own credentials also stands under another, innocent name, that is left out too.
    """
    passed = frozenset(pass_env)
    settings = ((name, value) for name, value in environ.items() if name.startswith(_OWN_PREFIX))
    keys = {value for name, value in settings if is_secret(name.removeprefix(_OWN_PREFIX), value)}
    own = {value for value in keys if len(value) >= _MIN_SECRET_CHARS}
    kept = {
        name: value
        for name, value in environ.items()
        if name in passed or not (name in _STEERING or is_secret(name, value) or value in own)
    }
    return {"PATH": _DEFAULT_PATH, **kept, **_QUIETING, **hardened_git(kept)}


def hide_own_environment() -> None:
    """Make our /proc/<pid>/environ unreadable for other processes of the same user (but not for root).

    For where commands share our process numbers: the key that we were started with stands there.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
