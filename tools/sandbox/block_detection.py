"""Detect accesses that the sandbox blocked from the output of a command.

A command cannot distinguish a sandbox from a broken system: it reports that a file system is read-only, that
permission is denied, or that a name cannot be resolved. This counts as blocked if the sandbox forbids the
path or host in the message and the agent itself could access it. Any other failure is the command's own. If
the line succeeded nevertheless, as with `| tail` at its end, the message also has to come from a program in
the line.
"""

# ruff: noqa: PTH110 - unlike os.path, a Path raises errors

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tools.guarded import git_folders
from transcripts.patterns import lazy_pattern

from .blocked_access import BlockedAccess
from .blocked_services import blocked_port, blocked_socket, missing_socket, possible_ports
from .profile import SandboxProfile

MAX_SCANNED_CHARS = 64_000  # of an output, from its end
MAX_SCANNED_LINE_CHARS = 2_000
_LINES_BEFORE = 4
_LINES_AFTER = 3  # after a message without a path, which may contain the path
NO_HOST = "the network"  # the target if the message names no host
_NO_NETWORK = (
    "no network: the sandbox of this system blocks every connection, also to localhost. If the command needs"
    " one, run it again with nothing that hides its exit code and its errors, so that the user can allow it"
)
_KERNEL_PLACES = tuple(map(Path, ("/dev", "/proc", "/sys")))  # not accessible outside the sandbox either

_REFUSED = lazy_pattern(
    r"read-only file system|permission denied|access ?denied|operation not permitted|cross-device link"
    r"|device or resource busy|resource busy or locked|isn't writable|\b(?:EROFS|EACCES|EPERM|EXDEV|EBUSY)\b"
    r"|\((?:os error|errno) (?:30|13|1|18|16)\)",
    re.IGNORECASE,
)
_READ_ONLY = lazy_pattern(r"read-only file system|\bEROFS\b|\((?:os error|errno) 30\)", re.IGNORECASE)
_REMOVES = lazy_pattern(r"\b(?:remove|unlink|rename|delete)\b|^mv: ", re.IGNORECASE)
_MOVED = lazy_pattern(r"cross-device|busy|EXDEV|EBUSY|error (?:18|16)\)", re.IGNORECASE)
_REDIRECTION = lazy_pattern(r"(?:[^\s:]*/)?(?:ba|z|da)?sh: (?:line )?\d+: ")  # a shell about its own `>`
_PATHLESS_OF_GIT = lazy_pattern(r"\berror: unable to create temporary file:")
_UNPACKED = lazy_pattern(r"^error: remote unpack failed: unable to create temporary object directory")
_PUSHED_TO = lazy_pattern(r"To (/.*|\.\.?/.*)")
# A line of a stack trace names code and no path that was blocked: of Python, Node and Ruby.
_FRAME = lazy_pattern(r"\s*File \"[^\"]*\", line \d+|\s*at .*:\d+:\d+\)?\s*$|.*\.rb:\d+:in ")
_LINE_OF_SCRIPT = lazy_pattern(r"^\S+: (?:line )?\d+: ")  # the script itself was not blocked
_QUOTED_NAME = lazy_pattern(r"'([^'\n]+)'|\"([^\"\n]+)\"|`([^`'\n]+)[`']|\u2018([^\u2019\n]+)\u2019")
_BARE = lazy_pattern(r"(?:(?<=[\s:=(,@\[])|^)((?:~|\.{1,2})?/[^\s:;,()'\"`\u2018\u2019]+)")
# A URL, except that of a file or socket.
_PLACE_ON_THE_WEB = lazy_pattern(r"\b(?!unix|file)[a-z][a-z\d+.-]*://[^\s'\"]*", re.IGNORECASE)
_PROGRAM = lazy_pattern(r"(?:[^\s:]*/)?([\w.+-]+)(?:\[\d+\])?: ")
_PLAIN_WORD = lazy_pattern(r"[\w.+-]+")
_NO_PROGRAMS = lazy_pattern(
    r"[\w.]*(?:Error|Exception)|E[A-Z]+|[EWN]|error|fatal|warning|ERROR|WARNING|Errno", re.ASCII
)
_COMMAND_WORD = lazy_pattern(r"(?:\s*(?:cd\s[^;&|]*(?:&&|;)|\w+=\S*\s))*\s*(?:[^\s;&|]*/)?([\w.+-]+)")
# Where programs run whose messages name relative paths: `cd sub && make`, `git -C sub config a b`.
_FOLDER = r"('[^'\n]*'|\"[^\"`$\\\n]*\"|[\w./@+-]+)"
_MOVED_TO = lazy_pattern(rf"\s*cd\s+{_FOLDER}\s*(?:&&|;|\n)")
_GIT_MOVED_TO = lazy_pattern(rf"\bgit\s+-C\s+{_FOLDER}\s")
_QUOTED_WORD = lazy_pattern(r"'[^']*'|\"[^\"`$\\]*\"")
_JOINT = lazy_pattern(r"[;|`(]|\n\s*\S|&&|(?<![<>&])&(?![>&])")  # anything that runs more than one program

# Programs that read every directory and write nothing. Their errors are part of the output, unless named.
_SEARCHING = frozenset(
    ["find", "fd", "fdfind", "grep", "egrep", "fgrep", "rg", "ag", "ack", "ls", "du", "tree"]
)
# Programs that print texts of files, which may be about another network.
_PRINTING = _SEARCHING | {"cat", "head", "tail", "less", "sed", "awk", "jq", "git", "diff"}

_UNREACHED = lazy_pattern(
    r"network is unreachable|no route to host|could not resolve|couldn't resolve|name or service not known"
    r"|temporary failure in name resolution|no such host|nodename nor servname|failed to lookup address"
    r"|getaddrinfo|failed to resolve|name resolution|\b(?:ENETUNREACH|ENOTFOUND|EAI_AGAIN)\b"
    r"|\b403\b.{0,40}\bproxy|proxy.{0,60}\b403\b|tunnel failed|tunnel connection failed",
    re.IGNORECASE,
)
_HOST = r"((?:[A-Za-z\d][A-Za-z\d-]*\.)+[A-Za-z\d-]*[A-Za-z\d])"
_NAMED_HOST = lazy_pattern(
    rf"\b(?:https?|git|ssh|ftp)://(?:[^@/\s]*@)?(?:{_HOST}|(localhost)\b)"
    rf"|\b(?:host|hostname|lookup|ENOTFOUND|EAI_AGAIN|for|resolve)[:=]?\s*['\"(]*{_HOST}(?=[\s'\"):,;]|$)"
    rf"|(?:^|\s){_HOST}: (?:name or|temporary)"
    rf"|\w@{_HOST}:",
    re.IGNORECASE,
)
# A client whose exit code is lost, so that it fails without a word: `curl -s localhost:3000 | jq .`.
_PIPED_CLIENT = lazy_pattern(r"(?:^|[\s(])(?:curl|wget|https?)\s[^|;&\n]*\|")
# Commands that connect to a server, and what they print when they could not.
_AT_START = r"(?:^|[;&|(\n])\s*(?:\w+=\S*\s+)*(?:[^\s;&|]*/)?"
_CLIENT = lazy_pattern(
    rf"{_AT_START}(?:curl|wget|npx|(?:npm|pnpm|yarn)\s+(?:-\S+\s+)*(?:i|install|ci|add|update|view|outdated|audit"
    r"|create|init|exec|dlx)|(?:python[\d.]*\s+-m\s+)?pip[\d.]*\s+(?:install|download|index|wheel)"
    r"|uv\s+(?:pip|add|sync|lock)|cargo\s+(?:add|fetch|install|search|update)|go\s+(?:get|install|mod)"
    r"|gem\s+install|composer\s+\w+|git\s+(?:-\S+\s+)*(?:clone|fetch|pull|push|ls-remote))(?=[\s|;&)]|$)"
)
_SAYS_FAILED = lazy_pattern(
    r"\berror\b|\berr!|\bfailed\b|\bfatal\b|could not|cannot|^\s*[1-9]\d{0,2}\s*$", re.IGNORECASE
)
# Clients that print what they received, and their errors without a name.
_UNNAMED_CLIENT = lazy_pattern(rf"{_AT_START}(?:openssl\s+s_client|nc|ncat|netcat|telnet|socat)\s")
# Programs that show processes and ports, and messages about a process or a server that does not exist.
_LISTING = lazy_pattern(rf"{_AT_START}(?:lsof|fuser|pgrep|pidof|ps)\s")
_LISTING_PORTS = lazy_pattern(rf"{_AT_START}(?:ss|netstat)(?:\s|$)")  # there are always some in the sandbox
_NOT_SEEN = lazy_pattern(
    r"\bkill: .*no such process|no server running on /tmp/|error connecting to /tmp/", re.IGNORECASE
)
_OWN_VIEW = "commands see only the processes, the ports and the /tmp of the sandbox, not those outside"
_LOCAL_HOST = lazy_pattern(r"localhost(?:\.localdomain)?|127\.[\d.]+|0\.0\.0\.0", re.IGNORECASE)


ForbiddenAction = Literal["read", "write"]  # "read": writing too


class SandboxedRun(Struct, frozen=True):
    """A command that ran in the sandbox.

    line      its command line, run in the directory `cwd`
    output    the end of its output
    private   the directories for its temporary files
    hosts     the hosts that the network proxy refused during the run
    unreached why it could not reach hosts that are allowed
    loopback  it has a loopback interface, so the sandbox does not block localhost
    failed    its exit code is not 0
    published  the ports that servers in the sandbox serve, so that something listens there outside as well
    """

    line: str
    cwd: Path
    output: str
    profile: SandboxProfile
    private: Path | None = None
    hosts: Sequence[str] = ()
    unreached: Sequence[str] = ()
    loopback: bool = True
    failed: bool = True
    published: Collection[int] = ()


def find_blocked_access(run: SandboxedRun) -> BlockedAccess | None:
    """Return the first access of a command that the sandbox blocked; None if it failed for another reason."""
    text = run.output[-MAX_SCANNED_CHARS:]
    lines = [line[:MAX_SCANNED_LINE_CHARS] for line in text.splitlines()]
    last_lines = [line for line in lines if line.strip()][-4:]
    if not run.failed:
        words = set(_PLAIN_WORD.findall(run.line))
        is_client = _UNNAMED_CLIENT.search(run.line) is not None
        lines = [
            line
            if _is_message_of(run.line, words, line.strip()) or (is_client and _UNREACHED.search(line))
            else ""
            for line in lines
        ]
    found = _refused_service(run, lines) or _refused_path(run, lines)
    if found is None or (found.action == "read" and Path(found.target).name not in run.line):
        found = _refused_host(run, lines) or found  # many programs continue without their settings files
    return replace(found, output="\n".join(last_lines)) if found is not None else None


def unnamed_refusal(run: SandboxedRun) -> str:
    """Return the reason why a command may have been refused something that it does not name."""
    if run.loopback and (_lists_own_view(run) or _NOT_SEEN.search(run.output)):
        return _OWN_VIEW
    if "dmesg: read kernel buffer failed" in run.output:
        return "commands cannot read the log of the kernel in the sandbox"
    messages = run.output[-MAX_SCANNED_CHARS:].splitlines() if run.failed else []
    if missing := missing_socket(messages, run.profile.hidden, run.cwd):
        return f"{missing} is hidden in the sandbox, but nothing is there outside either"
    for path, line in _paths_in_refusals(run, messages):
        if _READ_ONLY.search(line) and forbidden_action(run.profile, path, run.private) == "write":
            return f"{path} is read-only in the sandbox, and this user may not write it outside either"
    if not run.loopback:
        return _NO_NETWORK if _lacked_network(run) else ""
    found = possible_ports(messages)
    ports = [port for port in found if port not in run.published]
    if not ports:
        return ""
    shown = ", ".join(map(str, ports[:8]))
    return (
        "connection refused: localhost in the sandbox is not the one outside, where servers listen on"
        f" {shown}. If the command needs one of them, run it again with the address in its line, such as"
        f" `COMMAND # localhost:{ports[0]}`, so that the user can allow it"
    )


def _lacked_network(run: SandboxedRun) -> bool:
    """Return whether a command whose exit code tells nothing may have failed without a network."""
    lines = list(filter(str.strip, run.output[-MAX_SCANNED_CHARS:].splitlines()))
    if _CLIENT.search(run.line) is not None:
        return (
            run.failed
            or not lines
            or any(_SAYS_FAILED.search(each) or _UNREACHED.search(each) for each in lines)
        )
    return _first_program(run.line) not in _PRINTING and any(map(_UNREACHED.search, lines))


def _lists_own_view(run: SandboxedRun) -> bool:
    """Return whether a command listed only what is in the sandbox, or nothing."""
    listing = _LISTING_PORTS.search(run.line) or (not run.output.strip() and _LISTING.search(run.line))
    return bool(listing)


def forbidden_action(
    profile: SandboxProfile, path: Path, private: Path | None = None
) -> ForbiddenAction | None:
    """Return the action that the sandbox forbids at a real path, None for none."""
    if _is_within(path, (*profile.hidden, *profile.records)):
        return "read"
    if _is_within(path, profile.read_only):
        return "write"
    own = (profile.folder,) if profile.project_writable else ()
    if _is_within(path, (*own, *profile.writable)):
        return None
    layers = (*profile.caches, *([private] if private else []), *_KERNEL_PLACES)
    return None if _is_within(path, layers) and not _is_within(path, profile.shown) else "write"


def _is_within(path: Path, places: Sequence[Path]) -> bool:
    return any(map(path.is_relative_to, places))


def _refused_service(run: SandboxedRun, lines: Sequence[str]) -> BlockedAccess | None:
    """Return the service of this machine, outside the sandbox, that a command could not connect to."""
    target = blocked_socket(run.line, lines, run.profile.hidden, run.cwd)
    is_silent = not run.output.strip() and _PIPED_CLIENT.search(run.line) is not None
    says_anything = run.failed or any(map(str.strip, lines))
    port = blocked_port(run.line, lines) if target is None and (says_anything or is_silent) else None
    if port is not None and port not in run.published:
        target = f"localhost:{port}"
    if target is None:
        return None
    return BlockedAccess("reach", target=target, program=_program("", run.line))


def _refused_path(run: SandboxedRun, lines: Sequence[str]) -> BlockedAccess | None:
    for path, line in _paths_in_refusals(run, lines):
        if (action := _refused_action(run, path, line)) is None:
            continue
        program = _program(line, run.line)
        searching = (program or _first_program(run.line)) in _SEARCHING
        if not searching or (action == "read" and path.name in run.line):
            folder = str(run.profile.folder)
            return BlockedAccess(action, target=str(path), program=program, folder=folder)
    return None


def _paths_in_refusals(run: SandboxedRun, lines: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Yield the real paths in messages about a refused access, each with its message."""
    found = [at for at, line in enumerate(lines) if _REFUSED.search(line) or _UNPACKED.search(line)]
    # Git deleted the branch all the same.
    found = [at for at in found if "warning: Update of config-file failed" not in lines[at + 1 : at + 2]]
    folders = _working_folders(run)
    for at in found[:50]:
        named = [*_objects_of_git(lines, at, folders[0]), *_named_paths(lines, at)]
        itself = _REMOVES.search(lines[at]) is not None
        for path in (_real_path(name, folder, itself) for name in named for folder in folders):
            if path is not None:
                yield path, lines[at]


def _working_folders(run: SandboxedRun) -> list[Path]:
    """Return the directories in which the programs of a command may have run, the likeliest first."""
    folders = [run.cwd]
    for moved in (_MOVED_TO.match(run.line), _GIT_MOVED_TO.search(run.line)):
        if moved is not None:
            folders.insert(0, folders[0] / moved[1].strip("'\""))
    return folders


def _objects_of_git(lines: Sequence[str], at: int, cwd: Path) -> list[str]:
    """Return the path that git could not write, for a message of git without a path."""
    if _UNPACKED.search(lines[at]):  # by a push to a directory, which a later line names
        pushed = (_PUSHED_TO.match(line) for line in lines[at + 1 : at + 1 + _LINES_AFTER])
        return [match[1] for match in pushed if match is not None]
    found = git_folders(os.path.realpath(cwd)) if _PATHLESS_OF_GIT.search(lines[at]) else None
    return [f"{found.shared}/objects"] if found is not None else []


def _named_paths(lines: Sequence[str], at: int) -> Iterator[str]:
    """Return the paths that the message in a line may mean, the likeliest first."""
    line = lines[at]
    match = _REFUSED.search(line)
    if match is None:
        return
    before = _PLACE_ON_THE_WEB.sub("", line[: match.start()]).rstrip()
    after = _PLACE_ON_THE_WEB.sub("", line[match.end() :])
    chunk = before.removesuffix(":").rpartition(": ")[2].strip() if before.endswith(":") else ""
    is_quoted = re.search(r"\B['\"]|[`\u2018]", chunk)  # not the apostrophe of "couldn't"
    named = [] if is_quoted else chunk.split()[-1:]
    behind = _quoted(after)
    # Of `rename 'a' -> 'b'` or `symlink 'a' -> 'b'`, the second is written, and the first may be any text.
    named += [*(reversed(behind) if " -> " in after else behind), *reversed(_quoted(before))]
    named += [*_BARE.findall(after), *reversed(_BARE.findall(before))]
    yield from named
    if not any("/" in name for name in named):
        above = lines[max(0, at - _LINES_BEFORE) : at]
        below = lines[at + 1 : at + 1 + _LINES_AFTER]
        around = (text for text in (*reversed(above), *below) if not _FRAME.match(text))
        for other in (_PLACE_ON_THE_WEB.sub("", _LINE_OF_SCRIPT.sub("", text)) for text in around):
            yield from (*_quoted(other), *_BARE.findall(other))


def _quoted(text: str) -> list[str]:
    return [next(filter(None, groups)) for groups in _QUOTED_NAME.findall(text)]


def _real_path(name: str, cwd: Path, itself: bool) -> Path | None:
    """Return the path that a name leads to, or with `itself` that of a link at its end."""
    with suppress(OSError, ValueError, RuntimeError):  # unknown user, a NUL, circular links
        path = cwd / Path(name.strip()).expanduser()
        return Path(os.path.realpath(path.parent), path.name) if itself else Path(os.path.realpath(path))
    return None


def _refused_action(run: SandboxedRun, path: Path, message: str) -> ForbiddenAction | None:
    """Return the action at a path that the sandbox forbids and the agent itself could perform."""
    moved = bool(_MOVED.search(message))  # the path itself was to be moved
    made = ">" in run.line and bool(_REDIRECTION.match(message.strip())) and not os.path.lexists(path)
    profile = run.profile
    if _is_within(path, profile.records):
        return None  # our own files are hidden outside the sandbox, too
    action = forbidden_action(profile, path, run.private)
    if action is None and moved:
        kept = (*profile.read_only, *profile.hidden)
        action = "write" if any(place.is_relative_to(path) for place in kept) else None
    if action == "read" and not made:
        return action if os.access(path, os.R_OK) else None
    existing = next((place for place in (path, *path.parents) if os.path.exists(place)), path)
    return "write" if action is not None and os.access(existing, os.W_OK) else None


def _program(message: str, line: str) -> str:
    """Return the blocked program: the one in its message, else the program of a single-command line."""
    word = _COMMAND_WORD.match(line)
    alone = word is not None and not _JOINT.search(_QUOTED_WORD.sub("", line[word.end() :]))
    return _speaker(message.strip(), line) or (word[1] if word is not None and alone else "")


def _first_program(line: str) -> str:
    word = _COMMAND_WORD.match(line)
    return word[1] if word is not None else ""


def _speaker(message: str, line: str) -> str:
    """Return the program whose name a message begins with, git by its own messages, "" for none."""
    match = _PROGRAM.match(message)
    if match is None:
        return ""
    if match[1] in ("error", "fatal"):
        return "git" if re.search(r"\bgit\b", line) else ""
    return "" if _NO_PROGRAMS.fullmatch(match[1]) else match[1]


def _is_message_of(command: str, words: Collection[str], line: str) -> bool:
    """Return whether an output line is a message of the shell or of a program among the command's words."""
    return _speaker(line, command) in words or (">" in command and _REDIRECTION.match(line) is not None)


def _refused_host(run: SandboxedRun, lines: Sequence[str]) -> BlockedAccess | None:
    found = [at for at, line in enumerate(lines) if _UNREACHED.search(line)]
    message = lines[found[0]] if found else ""
    if run.hosts:
        return BlockedAccess("reach", target=run.hosts[0], program=_program(message, run.line))
    # Without any network, a client that prints nothing (`curl -s`, `wget -q`) has failed for that reason too.
    is_silent = run.failed and not run.loopback and not any(map(str.strip, lines))
    if not (found or (is_silent and _NAMED_HOST.search(run.line))) or run.unreached:
        return None
    above = lines[max(0, found[0] - _LINES_BEFORE) : found[0]] if found else []
    hosts = [host for text in (message, *reversed(above), run.line) for host in _named_hosts(text)]
    if hosts and _LOCAL_HOST.fullmatch(hosts[0]) and run.loopback:
        return None
    return BlockedAccess(
        "reach", target=hosts[0].lower() if hosts else NO_HOST, program=_program(message, run.line)
    )


def _named_hosts(text: str) -> list[str]:
    return [next(filter(None, groups)) for groups in _NAMED_HOST.findall(text[:MAX_SCANNED_LINE_CHARS])]
