"""Find lines that cannot work in the sandbox but only read: the state of services, containers, a cluster.

`docker ps`, `systemctl status`, `journalctl -n 50` or `crontab -l` need a socket or a file that the sandbox
hides, and change nothing. They run outside of it without a question, if each command of the line is proved
read-only or is one of these, with options that are known to only select and print. The proof fails

- for options that name another machine, settings file or command: `docker -H`, `journalctl --file`
- for commands that are made to print secrets: `kubectl get secrets`, `docker inspect`, `kubectl describe`
- for commands that read the project's files outside the sandbox: errors of `docker compose` quote `env_file`s
- if a variable or a writable directory could let a sandboxed command choose the settings, which name programs
  that run, or the program: `KUBECONFIG=./kubeconfig`, a home directory within the project, a directory of the
  project on PATH
- if it reads files, which a command in the background could exchange for links: `docker ps | grep -f names`

Pure: files are accessed through a port.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .option_syntax import NotProved, Options, split_arguments
from .program_names import Standpoint
from .read_only import ReadingJudge
from .simple_commands import Glob, Words

_PLAIN = lazy_pattern(r"[A-Za-z0-9_][\w.@:=,/+ -]*", re.ASCII)


class _Reader(Struct, frozen=True):
    """The arguments that a subcommand may be given: options, and operands that match a pattern."""

    options: Options
    operands: str = ""


_LISTED = Options("aq", valued="fn", words="all quiet filter= format= no-trunc last= latest size digests")
_NAMES = r"[A-Za-z0-9_][\w.@:-]*"
_FORMATTED = Options(valued="f", words="format=")
_DOCKER: Mapping[str, _Reader] = {
    "ps": _Reader(_LISTED | Options("ls")),
    "container ls": _Reader(_LISTED | Options("ls")),
    "images": _Reader(_LISTED, operands=r"[a-z0-9][\w./:-]*"),
    "image ls": _Reader(_LISTED, operands=r"[a-z0-9][\w./:-]*"),
    "network ls": _Reader(_LISTED),
    "volume ls": _Reader(_LISTED),
    "info": _Reader(_FORMATTED),
    "version": _Reader(_FORMATTED),
    "port": _Reader(Options(), operands=_NAMES),
    "logs": _Reader(Options("t", valued="n", words="tail= since= until= timestamps"), operands=_NAMES),
}
_UNITS = Options(
    "alr",
    valued="nt",
    words="user system all full no-pager lines= type= state= failed no-legend plain reverse output= quiet",
)
_SYSTEMCTL: Mapping[str, _Reader] = {
    name: _Reader(_UNITS, operands=_NAMES)
    for name in word_set(
        "status is-active is-enabled is-failed list-units list-timers list-unit-files list-sockets"
    )
}
_JOURNAL = Options(
    "bekqrx",
    valued="nopuSU",
    words="user system lines= no-pager output= priority= since= until= boot=? dmesg quiet reverse catalog"
    " unit= user-unit= grep= identifier= no-hostname utc",
)
_KINDS = word_set(
    "pod pods po deployment deployments deploy service services svc node nodes no namespace namespaces ns"
    " event events ev ingress ingresses ing job jobs cronjob cronjobs cj replicaset replicasets rs"
    " statefulset statefulsets sts daemonset daemonsets ds hpa"
)
_SELECTED = Options(
    "A",
    valued="nlo",
    words="all-namespaces namespace= selector= output= show-labels no-headers field-selector= sort-by=",
)
# Programs that print their input, with the number of operands before the names of files.
_FILTERS: Mapping[str, int] = {
    **dict.fromkeys(word_set("head tail wc sort uniq cat cut"), 0),
    "tr": 2,
    **dict.fromkeys(word_set("grep egrep fgrep jq"), 1),
}
# Variables that choose settings or plugins, and so programs that run.
_STEERING: Mapping[str, Sequence[str]] = {
    "docker": ("DOCKER_CONFIG", "DOCKER_CLI_PLUGIN_EXTRA_DIRS"),
    "kubectl": ("KUBECONFIG", "KUBERC", "KUBECTL_EXTERNAL_DIFF"),
    "systemctl": (),
    "journalctl": (),
    "crontab": (),
}


def reads_outside(line: str, seen: Standpoint, judge: ReadingJudge) -> bool:
    """Return whether each command of a line only reads, in the project or from a service outside of it."""
    here = seen.places.cwd or seen.places.folder
    if not may_run_outside(seen):
        return False
    judged = judge.judge(line, here)
    return judged is not None and all(
        not command.is_trap
        and (_reads_service(command.words, here, seen) if command.doubt else _filters(command.words))
        for command in judged
    )


def may_run_outside(seen: Standpoint) -> bool:
    """Return whether no sandboxed command chooses the programs and settings of lines outside the sandbox."""
    places = seen.places
    here = places.cwd or places.folder
    if f"{places.home}/".startswith(f"{places.folder}/") or not places.home:
        return False
    path = seen.files.variable("PATH").split(":")
    return all(entry.startswith("/") and seen.files.is_outside(entry, here) for entry in path)


def _filters(words: Words) -> bool:
    """Return whether a command that is proved read-only reads no files."""
    operands = [word for word in words[1:] if not word.startswith("-") and not word.isdigit()]
    if words[0].endswith("grep") and any(re.match("-.*[rRfe]", word) for word in words[1:]):
        return False  # it may search the directory, or take no operand as the pattern
    return words[0] in _FILTERS and len(operands) <= _FILTERS[words[0]]


def _reads_service(words: Words, here: str, seen: Standpoint) -> bool:
    program = words[0]
    steering = _STEERING.get(program)
    if steering is None or any(isinstance(word, Glob) for word in words):
        return False
    if not seen.is_untouched(program, here, steering):
        return False
    try:
        return _only_selects(program, words[1:])
    except NotProved:
        return False


def _only_selects(program: str, arguments: Sequence[str]) -> bool:
    """Return whether the arguments only select what is printed. Raises NotProved."""
    if program == "crontab":
        return list(arguments) == ["-l"]
    if program == "journalctl":
        return not split_arguments(arguments, _JOURNAL).operands
    if program == "kubectl":
        return _gets_no_secrets(arguments)
    if program == "systemctl":
        split = split_arguments(arguments, _UNITS)
        reader = _SYSTEMCTL.get("".join(split.operands[:1]) or "list-units")
        return reader is not None and _fit(split.operands[1:], reader)
    for count in (2, 1):
        if reader := _DOCKER.get(" ".join(arguments[:count])):
            return _fit(split_arguments(arguments[count:], reader.options).operands, reader)
    return False


def _fit(operands: Sequence[str], reader: _Reader) -> bool:
    return all(reader.operands and re.fullmatch(reader.operands, word) for word in operands)


def _gets_no_secrets(arguments: Sequence[str]) -> bool:
    """Return whether kubectl lists objects that contain no secrets, in a table or by their names."""
    if arguments[:1] in (["version"], ["cluster-info"]) and len(arguments) == 1:
        return True
    if arguments[:1] != ["get"]:
        return False
    split = split_arguments(arguments[1:], _SELECTED)
    is_short = all(value in ("wide", "name") for value in split.values("o", "output"))
    kinds, *names = split.operands or [""]
    kinds = kinds.partition("/")[0]
    return is_short and _KINDS.issuperset(kinds.split(",")) and all(map(_PLAIN.fullmatch, names))
