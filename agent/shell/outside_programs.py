"""Find the programs in a line that cannot work in the sandbox, whatever paths and hosts it allows.

Some programs need what no rule for a path or a host gives them: a direct network connection, more
privileges, the socket of a service, or keys that commands must not read. Their error messages do not say so.
Asking before they run spares a failed first run, which may have had effects: for `git push` with an ssh
remote, the reason is "git push needs a direct network connection and your SSH keys".

Only a command that is certain to need that counts: `ssh -V`, `docker --version` and `git push ../other.git`
do not. A system file that the user may write is a need, too. What is missing here is found when the sandbox
blocks it. Pure: files are accessed through a port.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .line_reading import Invocation, read_line
from .option_syntax import NotProved
from .outside_git import changes_sparseness, need_of_git, renames_branch, starts_tracking
from .program_names import GitCall, Standpoint
from .system_damage import written_system_file
from .vital_places import scenes

_CONNECTION = "a direct network connection"
_SSH = f"{_CONNECTION} and your SSH keys"
_PRIVILEGES = "more privileges"
_CONTAINERS = "the socket of the container engine"
_KEYCHAIN = "your keychain"
_CLOUD = "your cloud credentials"
_REGISTRY = "your registry credentials"
_DESKTOP = "your desktop"
_CLIPBOARD = word_set("xclip xsel wl-copy wl-paste pbcopy pbpaste")
_HARMLESS = word_set("help version completion --help -h --version -V -v")

# Programs that need this for all that they do, except to print help.
_ALWAYS: Mapping[str, str] = {
    **dict.fromkeys(word_set("ssh scp sftp autossh mosh sshfs ssh-copy-id"), _SSH),
    **dict.fromkeys(word_set("ssh-keyscan dig nslookup traceroute tracepath mtr telnet whois"), _CONNECTION),
    **dict.fromkeys(word_set("sudo doas su pkexec"), _PRIVILEGES),
    **dict.fromkeys(word_set("docker docker-compose podman podman-compose nerdctl buildah"), _CONTAINERS),
    **dict.fromkeys(word_set("gh glab hub"), "your login and the network"),
    "ssh-add": "your SSH agent",
    **dict.fromkeys(
        word_set("systemctl loginctl timedatectl busctl systemd-run hostnamectl"), "the D-Bus socket"
    ),
    "journalctl": "the system journal",
    **dict.fromkeys(word_set("secret-tool keyring pass kwallet-query"), _KEYCHAIN),
    **dict.fromkeys(word_set("aws gcloud gsutil az kubectl"), _CLOUD),
    "crontab": "your crontab",
    **dict.fromkeys(word_set("open xdg-open notify-send osascript code"), _DESKTOP),
    **dict.fromkeys(_CLIPBOARD, _DESKTOP),
}
# Subcommands that need this; the program's others work in the sandbox.
_SUBCOMMANDS: Mapping[str, tuple[frozenset[str], str]] = {
    **dict.fromkeys(
        ("npm", "pnpm", "yarn"),
        (
            word_set("publish unpublish whoami login logout adduser token owner access deprecate dist-tag"),
            _REGISTRY,
        ),
    ),
    "cargo": (word_set("publish login logout yank owner"), _REGISTRY),
    "twine": (word_set("upload"), _REGISTRY),
    "poetry": (word_set("publish"), _REGISTRY),
    "uv": (word_set("publish"), _REGISTRY),
    "hatch": (word_set("publish"), _REGISTRY),
    "gem": (word_set("push yank signin owner"), _REGISTRY),
}
# Programs that change the packages of the system, which only root may do, in the sandbox or not.
_PACKAGES = word_set("apt apt-get aptitude dnf yum microdnf apk zypper")
_INSTALLING = word_set(
    "update install add remove del purge upgrade dist-upgrade full-upgrade autoremove reinstall"
)
# Words that make a program of `_ALWAYS` do something that works in the sandbox.
_WORKING: Mapping[str, frozenset[str]] = {
    "ssh": word_set("-V -Q -G"),
    "docker": word_set("context version") | {"compose config"},  # `docker compose version` as well
    "docker-compose": word_set("config"),
    "kubectl": word_set("kustomize"),
    "aws": word_set("configure"),
    "journalctl": word_set("--file --directory -D"),
}
_GPG_WORKING = word_set("--dearmor --enarmor --print-md --gen-random --list-packets --homedir")
_LOCAL = lazy_pattern(r"localhost|127\.[\d.]+|::1|0\.0\.0\.0|/.*", re.IGNORECASE)
_REMOTE_PATH = lazy_pattern(r"(?:[\w.-]+@)?[\w.-]+:.*|rsync://.*")


def outside_need(line: str, seen: Standpoint) -> str:
    """Return the reason why a command of a line cannot work in the sandbox; "" if none is known."""
    missing: int | None = None  # the level of a launcher that does not exist and so runs nothing
    for scene in scenes(read_line(line).invocations, seen.places):
        command = scene.command
        here = scene.here or seen.places.cwd
        if not command.sure or not command.words or (missing is not None and command.level > missing):
            continue
        missing = None
        try:
            needed = _need(command, here, seen)
        except NotProved:
            continue  # settings of git that cannot be read do not show that it needs anything
        if needed and _runs_installed(command, here, seen):
            return needed
        if needed:
            missing = command.level
    return ""


def system_file_need(line: str, seen: Standpoint) -> str:
    """Return the reason why a line that writes system files, as the user may, cannot work in the sandbox."""
    for scene in scenes(read_line(line).invocations, seen.places):
        path = written_system_file(scene) if scene.command.sure else ""
        if path and (seen.files.may_write(path) or seen.files.may_write(posixpath.dirname(path))):
            return f"the sandbox blocks writes to {path}"
    return ""


def git_settings_need(line: str, seen: Standpoint) -> str:
    """Return the reason why a line cannot work that renames a branch of the project's repository.

    The sandbox keeps its settings read-only, and git would rename the branch before it fails. The same holds
    for a line that copies one, for one that makes a branch which tracks another, and for sparse checkouts.
    """
    every = list(scenes(read_line(line).invocations, seen.places))
    git = [scene.command.words for scene in every if scene.program == "git"]
    makes_repository = any(not {"init", "clone"}.isdisjoint(words) for words in git)
    for scene in every:
        if not (scene.command.sure and scene.program == "git"):
            continue
        call = GitCall.of(scene.command.words)
        folder = call.folder(scene.here, seen.places.home)
        changes_settings = renames_branch(call) or changes_sparseness(call)
        if folder is None or not (changes_settings or _tracks(call, folder, seen)):
            continue
        is_project = posixpath.normpath(folder) == seen.places.folder
        if is_project or (not makes_repository and _is_in_own_repository(folder, seen)):
            return f"git {call.name} has to change .git/config"
    return ""


def _tracks(call: GitCall, folder: str, seen: Standpoint) -> bool:
    try:
        return starts_tracking(call, folder, seen)
    except NotProved:
        return False  # settings of git that cannot be read do not show anything


def _is_in_own_repository(folder: str, seen: Standpoint) -> bool:
    """Return whether an existing directory below the project belongs to the project's repository."""
    place = posixpath.normpath(folder)
    if not seen.files.file_names(place):
        return False
    while place.startswith(f"{seen.places.folder}/"):
        if ".git" in seen.files.file_names(place):
            return False
        place = posixpath.dirname(place)
    return place == seen.places.folder


def _runs_installed(command: Invocation, here: str, seen: Standpoint) -> bool:
    """Return whether the program exists and is not one of the project, which may do anything else."""
    word = command.words[0]
    if "/" in word and not word.startswith("/"):
        return False
    path = seen.files.program(word, here)
    return path is not None and not path.startswith(f"{seen.places.folder}/")


def _need(command: Invocation, here: str, seen: Standpoint) -> str:
    program = command.program
    arguments = command.words[1:]
    if program == "git":
        return need_of_git(GitCall.of(command.words), here, seen)
    if program in _ALWAYS:
        working = _WORKING.get(program, frozenset())
        begun = (*arguments[:2], " ".join(arguments[:2]))
        idle = not arguments or arguments[0] in _HARMLESS or not working.isdisjoint(begun)
        idle = idle or "--help" in arguments[:2]
        return "" if idle and not _runs_bare(program, arguments) else f"{program} needs {_ALWAYS[program]}"
    if program in _SUBCOMMANDS:
        names, needed = _SUBCOMMANDS[program]
        name = next((word for word in arguments if not word.startswith("-")), "")
        return f"{program} {name} needs {needed}" if name in names else ""
    if program in _PACKAGES:
        name = next((word for word in arguments if not word.startswith("-")), "")
        installs = name in _INSTALLING and seen.files.may_write("/usr/lib")
        return f"{program} {name} needs to write system directories" if installs else ""
    judge = _BY_ARGUMENTS.get(program)
    needed = judge(arguments) if judge is not None else ""
    return f"{program} needs {needed}" if needed else ""


def _runs_bare(program: str, arguments: Sequence[str]) -> bool:
    """Return whether the program does its work without arguments."""
    bare = ("su", "systemctl", "journalctl", "loginctl", "timedatectl", "pass", *_CLIPBOARD)
    return not arguments and program in bare


def _need_of_gpg(arguments: Sequence[str]) -> str:
    is_idle = not arguments or arguments[0] in _HARMLESS or not _GPG_WORKING.isdisjoint(arguments)
    return "" if is_idle else "your GnuPG keys"


def _need_of_copy(arguments: Sequence[str]) -> str:
    remote = any(_REMOTE_PATH.fullmatch(word) for word in arguments if not word.startswith("-"))
    return _SSH if remote else ""


def _need_of_client(arguments: Sequence[str]) -> str:
    """Return the need of a client of a database, whose server is on another machine."""
    for at, word in enumerate(arguments):
        option, equals, value = word.partition("=")
        if option in ("-h", "--host"):
            value = value if equals else "".join(arguments[at + 1 : at + 2])
        elif word.startswith("-h") and len(word) > 2:
            value = word[2:]
        else:
            url = re.match(r"[a-z][a-z+\d]*://(?:[^@/\s]*@)?\[?([\w.:-]*?)\]?(?::\d+)?(?:[/?]|\Z)", word)
            value = url[1] if url is not None else ""
        if value and value.isprintable() and not _LOCAL.fullmatch(value):
            return _CONNECTION
    return ""


def _need_of_ping(arguments: Sequence[str]) -> str:
    hosts = [word for word in arguments if not word.startswith("-") and not word.isdigit()]
    return _CONNECTION if hosts and not all(map(_LOCAL.fullmatch, hosts)) else ""


def _need_of_security(arguments: Sequence[str]) -> str:
    return _KEYCHAIN if arguments and arguments[0] not in ("help", "-h") else ""


_BY_ARGUMENTS: Mapping[str, Callable[[Sequence[str]], str]] = {
    "gpg": _need_of_gpg,
    "gpg2": _need_of_gpg,
    "rsync": _need_of_copy,
    **dict.fromkeys(
        ("psql", "pg_dump", "pg_restore", "mysql", "mysqldump", "redis-cli", "mongosh"), _need_of_client
    ),
    "ping": _need_of_ping,
    "security": _need_of_security,
}
