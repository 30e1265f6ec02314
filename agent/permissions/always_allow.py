"""What "always" may be offered for: the first word or two of a command that will do no more than it says.

Nothing is offered that runs what it is given, removes, or sends out; nothing that would cover a whole family
of programs (all of git); nothing whose words could be read as another rule once they are written down.
"""

from __future__ import annotations

import re

from .shell_syntax import simple_commands


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Programs whose second word says what they do.
_TWO_WORDS = _words(
    "git npm pnpm yarn bun cargo go docker podman uv pip poetry make kubectl gh brew apt apt-get"
)
# Programs, builtins and words of the shell that run what they are given: a deny rule looks behind them.
RUNNERS = _words(
    "sudo su doas env bash sh zsh dash ksh fish csh tcsh busybox eval exec command builtin source ."
    " trap xargs parallel find fd entr watch nohup setsid timeout time nice ionice chrt taskset stdbuf"
    " unbuffer script flock strace ltrace gdb lldb chroot unshare nsenter systemd-run ssh su runuser at"
    " batch crontab npx bunx uvx pipx corepack if then else elif while until do for ! coproc"
)
_INTERPRETERS = _words(
    "python node nodejs deno perl ruby php lua tclsh awk gawk mawk sed ed ex vi vim nvim emacs"
    " osascript pwsh java"
)
_HARMFUL = _words(
    "rm rmdir mv dd shred truncate mkfs mount umount kill pkill killall chmod chown chgrp ln tee cp"
)
_SENDING = _words(
    "curl wget nc ncat netcat socat telnet ftp sftp scp rsync ping dig nslookup host openssl http aws"
)
# Builtins that evaluate their arguments, or change what later words mean.
_EVALUATING = _words(
    "test [ [[ printf let read unset declare typeset local export readonly alias set shopt enable"
)
_NEVER = RUNNERS | _INTERPRETERS | _HARMFUL | _SENDING | _EVALUATING
_NEVER_SECOND = _words(
    "run exec x dlx push publish install add i config alias submodule bisect rebase filter-branch"
)
_SCRIPTS = {(name, "run") for name in ("npm", "pnpm", "yarn", "bun")}  # the project's, not any program
_PLAIN = re.compile(r"[A-Za-z][\w.+-]*\Z", re.ASCII)


def safe_prefix(command: str) -> str | None:
    """The words that "always" would allow, or None where anything shorter than once is too much."""
    simple = simple_commands(command)
    if not simple or len(simple) > 1:
        return None
    name, *rest = simple[0]
    if not _PLAIN.match(name) or name in _NEVER or name.rstrip("0123456789.") in _NEVER:
        return None
    if name not in _TWO_WORDS:
        return name
    if not rest or not _PLAIN.match(rest[0]):
        return None
    if rest[0] in _NEVER_SECOND and (name, rest[0]) not in _SCRIPTS and name != "make":
        return None
    return f"{name} {rest[0]}"
