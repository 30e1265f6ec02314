"""Choose the environment of a command: what it inherits, without credentials, and what keeps it from asking.

Pure. Values are never looked at to decide, but for the few forms that only a key has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

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
# Start-up files and options that would change what a command line means, or where it runs.
_STEERS_SHELL = frozenset(
    ("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "CDPATH", "GLOBIGNORE", "POSIXLY_CORRECT")
)

QUIET: Mapping[str, str] = {
    "TERM": "dumb",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    "SSH_ASKPASS_REQUIRE": "never",  # else ssh opens a window and waits for it
    "DEBIAN_FRONTEND": "noninteractive",
    "MAKEROOM": "1",
    "AGENT": "1",
}


def is_secret(name: str, value: str = "") -> bool:
    """Whether a variable looks like a credential."""
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))


def filter_environment(environ: Mapping[str, str], passed: Iterable[str] = ()) -> dict[str, str]:
    """The environment for commands. `passed` names variables that a person wants there all the same.

    A value that an own credential also has under another, innocent name goes with it.
    """
    allowed = frozenset(passed)
    secrets = {
        value
        for name, value in environ.items()
        if name.startswith("ANTHROPIC_") and is_secret(name[10:], value)
    }
    kept = {
        name: value
        for name, value in environ.items()
        if name in allowed
        or not (name in _STEERS_SHELL or is_secret(name, value) or (len(value) > 7 and value in secrets))
    }
    kept.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return {**kept, **QUIET}
