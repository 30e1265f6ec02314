"""Which prefix of a command "always" may allow: its first word or two, where these tell what it does.

Nothing is offered that runs what it is given, removes, or sends data out; nothing that would cover a whole
family of programs (all of git); nothing whose words would be read as another rule once they are stored.
"""

from __future__ import annotations

import re

from tools.text_encoding import word_set

from .shell_syntax import parse_simple_commands

# Programs whose second word says what they do.
_TWO_WORD_PROGRAMS = word_set(
    "git npm pnpm yarn bun cargo go docker podman uv pip poetry make kubectl gh brew apt apt-get"
)
# Programs, builtins and keywords of the shell that run what they are given: a deny rule looks behind them.
RUNNERS = word_set(
    "sudo su doas env bash sh zsh dash ksh fish csh tcsh busybox eval exec command builtin source ."
    " trap xargs parallel find fd entr watch nohup setsid timeout time nice ionice chrt taskset stdbuf"
    " unbuffer script flock strace ltrace gdb lldb chroot unshare nsenter systemd-run ssh su runuser at"
    " batch crontab npx bunx uvx pipx corepack if then else elif while until do for ! coproc"
)
_INTERPRETERS = word_set(
    "python node nodejs deno perl ruby php lua tclsh awk gawk mawk sed ed ex vi vim nvim emacs"
    " osascript pwsh java"
)
_CHANGING = word_set(
    "rm rmdir mv dd shred truncate mkfs mount umount kill pkill killall chmod chown chgrp ln tee cp"
)
_SENDING = word_set(
    "curl wget nc ncat netcat socat telnet ftp sftp scp rsync ping dig nslookup host openssl http aws"
)
# Builtins that evaluate their arguments, or change what later words mean.
_EVALUATING = word_set(
    "test [ [[ printf let read unset declare typeset local export readonly alias set shopt enable"
)
_NEVER_OFFERED = RUNNERS | _INTERPRETERS | _CHANGING | _SENDING | _EVALUATING
_NEVER_OFFERED_SECOND = word_set(
    "run exec x dlx push publish install add i config alias submodule bisect rebase filter-branch"
)
_SCRIPT_RUNNERS = {(name, "run") for name in ("npm", "pnpm", "yarn", "bun")}  # only the project's scripts
_PLAIN_WORD = re.compile(r"[A-Za-z][\w.+-]*\Z", re.ASCII)


def safe_prefix(line: str) -> str | None:
    """The words that "always" may allow, or None where the line may only be allowed once."""
    commands = parse_simple_commands(line)
    if commands is None or len(commands) > 1:
        return None
    program, *arguments = commands[0]
    if not _PLAIN_WORD.match(program) or {program, program.rstrip("0123456789.")} & _NEVER_OFFERED:
        return None
    if program not in _TWO_WORD_PROGRAMS:
        return program
    if not arguments or not _PLAIN_WORD.match(arguments[0]):
        return None
    second = arguments[0]
    if second in _NEVER_OFFERED_SECOND and (program, second) not in _SCRIPT_RUNNERS and program != "make":
        return None
    return f"{program} {second}"
