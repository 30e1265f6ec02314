"""Find commands that would damage the system: its disks, files, processes or users."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .line_reading import Invocation
from .mass_deletion import MOVERS
from .parsed_text import ANY, STAR, is_open, is_unknown
from .vital_places import Scene, is_device, is_system_file

_FORMATTERS = lazy_pattern(
    r"mkfs(?:\..+)?|mke2fs|mkswap|mkdosfs|mkntfs|newfs(?:_.+)?|fdisk|sfdisk|cfdisk|gdisk|sgdisk|cgdisk|parted"
    r"|partprobe|mkudffs|mkexfatfs|mkreiserfs|bcache-super-show|make-bcache"
)
_VOLUME_COMMANDS = {  # program -> the words that make it destructive; None: always
    "pvcreate": None, "pvremove": None, "vgremove": None, "lvremove": None, "vgreduce": None,
    "mdadm": "--create|-C|--zero-superblock|--stop|-S", "cryptsetup": "luksFormat|luksErase|erase|reencrypt",
    "zpool": "destroy|labelclear|create", "zfs": "destroy", "wipefs": r"--all|-\w*a\w*|--offset|-\w*o.*",
    "blkdiscard": None, "shred": None, "srm": None, "scrub": None, "wipe": None, "nwipe": None, "sfill": None,
    "sswap": None, "sg_format": None, "sdelete": None, "badblocks": r"-\w*[wn]\w*",
    "hdparm": "--security-erase.*|--trim-sector.*|--dco-restore|--make-bad-sector|--write-sector",
    "nvme": "format|sanitize|delete-ns|write-zeroes", "mmc": "erase|format",
    "diskutil": "(?i:erase|secureerase|zero|random|partition|reformat|apfs)\\w*", "asr": "restore",
    "btrfs": "delete", "dmsetup": "remove|remove_all|wipe_table",
}  # fmt: skip
_LISTING_OPTIONS = word_set("-l --list -h --help -V --version --dump -d -p --print print --show-size -J")
_SHUTDOWNS = word_set("shutdown poweroff halt reboot pm-hibernate pm-suspend")
_SHUTDOWN_VERBS = word_set(
    "poweroff reboot halt kexec soft-reboot emergency rescue suspend hibernate hybrid-sleep"
    " suspend-then-hibernate exit poweroff.target reboot.target halt.target rescue.target emergency.target"
)
_ACCOUNT_REMOVERS = word_set("userdel deluser groupdel delgroup rmuser sysadminctl")
_OUTPUT_OPTIONS = {
    "curl": ("o", "--output"),
    "wget": ("O", "--output-document"),
    "sort": ("o", "--output"),
}
_VERBS = {"rm": "removes", "unlink": "removes", "mv": "moves or replaces", "gmv": "moves or replaces"}
EDITORS = word_set("sed gsed perl ruby")  # write to their operands if they edit in place
COPIERS = word_set("cp install ln gcp ginstall rsync scp")  # write to their last operand, as mv does
_MATCHES_ALL = lazy_pattern(rf"\^?[.*{STAR}]*\$?")
_BACKGROUND_LOOP = lazy_pattern(
    r"\b(?:while|until)\s+(?:true|:|false|1|\[\s*1\s*\]|\(\(\s*1\s*\)\))\s*;?\s*do\b[^;\n]*[^&>|\s]\s*&\s*done"
)


class _Write(NamedTuple):
    """A word that names a file which a command writes, removes or replaces."""

    word: str
    verb: str
    appended: bool


def overwritten(scene: Scene) -> str:
    """Return the effect of writing to a device or a system file, or of removing one, "" for none."""
    return next(filter(None, (_damage(scene, write) for write in _writes(scene))), "")


def written_system_file(scene: Scene) -> str:
    """Return the path of a system file that a command writes or removes, "" if there is none."""
    for write in _writes(scene):
        for path in scene.paths(write.word):
            if is_system_file(path, appended=write.appended) and not is_unknown(path):
                return path
    return ""


def _writes(scene: Scene) -> Iterator[_Write]:
    for redirect in scene.command.redirects:
        if redirect.writes:
            yield _Write(redirect.target, "writes", appended=redirect.operator.endswith(">>"))
    appended = scene.program == "tee" and scene.has_flag("a", "--append")
    verb = _VERBS.get(scene.program, "writes")
    for word in _written_words(scene):
        yield _Write(word, verb, appended=appended)


def _damage(scene: Scene, write: _Write) -> str:
    word = write.word
    paths = scene.paths(word) or ([word] if word.startswith("/dev/") else [])
    for path in paths:
        if is_device(path) or (path == "/dev" and is_unknown(word)):
            return f"writes to the device {_shown(path)}"
        if path == "/proc/sysrq-trigger":
            return "stops the machine"
        if is_system_file(path, appended=write.appended):
            return f"{write.verb} the system file {_shown(path)}"
        if path.startswith(("/var/spool/cron/", "/var/at/")):
            return "removes or overwrites a crontab"
    return ""


def _shown(path: str) -> str:
    return path if not is_unknown(path) else path.rpartition("/")[0]


def _written_words(scene: Scene) -> list[str]:
    """Return the files that a command writes, removes or replaces, without redirections."""
    program = scene.program
    arguments = scene.arguments
    if program == "dd":
        return [word[3:] for word in arguments if word.startswith("of=")]
    if program in ("tee", "truncate", "unlink", "rm", "shred", "sponge"):
        return scene.operands(frozenset(("-s", "--size", "-r")))
    if program in COPIERS | MOVERS and not (program == "ln" and not scene.has_flag("f", "--force")):
        return _copied_to(scene, _copied(scene))
    if program in EDITORS and edits_in_place(arguments):
        return [word for word in scene.operands(frozenset(("-e", "-f"))) if word.startswith("/")]
    if option := _OUTPUT_OPTIONS.get(program):
        return list(_values(arguments, *option))
    return []


def edits_in_place(words: Iterable[str]) -> bool:
    """Return whether the words of one of the EDITORS contain -i, alone or in a cluster."""
    return any(re.match(r"-\w*i|--i", word) for word in words)


def _values(arguments: Sequence[str], letter: str, name: str, valued: str = "") -> Iterator[str]:
    """Yield the values of an option in all its forms: `-o x`, `-ox`, `-vox`, `--output=x`, `--out x`.

    `valued` are letters that take a value, so the letters after them are not options.
    """
    cluster = re.compile(rf"-[^\W\d_{valued}]*?{letter}(.*)", re.DOTALL)
    for at, word in enumerate(arguments):
        given, sign, value = word.partition("=")
        following = arguments[at + 1 : at + 2]
        if len(given) > 3 and name.startswith(given):
            yield from [value] if sign else following
        elif found := cluster.fullmatch(word):
            yield from [found[1]] if found[1] else following


def _copied(scene: Scene) -> list[str]:
    """Return the operands of a copy, the target last, even if an option names it."""
    valued = ["-m", "-o", "-g", "-S", "--mode", "--owner", "--group"]
    if scene.program in ("rsync", "scp"):  # whose -t is another option
        return scene.operands(frozenset(valued))
    separate = [word for word in scene.arguments if re.fullmatch(r"-[^\W\d_Smog]*t|--t[a-z-]*", word)]
    operands = scene.operands(frozenset((*valued, *separate)))
    targets = list(_values(scene.arguments, "t", "--target-directory", valued="Smog"))
    return operands + targets[-1:]


def _copied_to(scene: Scene, operands: list[str]) -> list[str]:
    """Return the targets of a copy: the last operand, or names in it if it is a system directory."""
    if len(operands) > 2 and is_open(operands[-1]):  # appended by xargs
        operands = operands[:-1]
    if len(operands) < 2:
        return []
    target = operands[-1]
    moved = operands[:-1] if scene.program in MOVERS else []
    within = [f"{target.rstrip('/')}/{word.rpartition('/')[2]}" for word in operands[:-1]]
    return [target, *moved, *(path for path in within if target.rstrip("/") in _BINARY_FOLDERS)]


_BINARY_FOLDERS = word_set("/etc /bin /sbin /usr/bin /usr/sbin /lib /usr/lib /lib64 /usr/lib64 /boot")


def damages_disk(scene: Scene) -> str:
    """Return the effect of making file systems, partitioning and wiping, "" for none."""
    program = scene.program
    if _FORMATTERS.fullmatch(program):
        operands = scene.operands(word_set("-t -L -U -b -N -m -O -E -i -F -n"))
        on_device = not operands or any(word.startswith("/dev/") or is_unknown(word) for word in operands)
        lists = not _LISTING_OPTIONS.isdisjoint(scene.arguments) and not program.startswith(("mk", "newfs"))
        return "makes a file system or partitions a disk" if on_device and not lists else ""
    if program not in _VOLUME_COMMANDS or scene.arguments[:1] in ((), ("--help",), ("--version",)):
        return ""
    wanted = _VOLUME_COMMANDS[program]
    if wanted is None or any(re.fullmatch(wanted, word) for word in scene.arguments):
        return "destroys or wipes a disk, a volume or a file"
    return ""


def kills_all(scene: Scene) -> str:
    """Return the effect of killing all processes of the machine or of a user, "" for none."""
    program = scene.program
    if program == "kill":
        kills = _kills_every_process(scene)
    elif program in ("pkill", "killall", "skill"):
        options = "-u -U -s -g -G -P -t -y -o -n --euid --uid --signal"
        names = scene.operands(word_set(options))
        by_user = any(re.match(r"-[uU]|--e?uid|--user", word) for word in scene.arguments)
        kills = any(map(_MATCHES_ALL.fullmatch, names)) or (by_user and not names)
    else:
        kills = program in ("killall5", "slay")
    return "kills every process" if kills else ""


def _kills_every_process(scene: Scene) -> bool:
    words = list(scene.arguments)
    if words and words[0] in ("-l", "-L", "--list", "--table", "-0"):
        return False
    if words[:2] in (["-s", "0"], ["-n", "0"]):  # it only tests whether the process exists
        return False
    targets = scene.operands(frozenset(("-s", "-n", "--signal")))
    named = [word for word in words[1:] if word == "-1"] if words[0:1] != ["--"] else words
    if "-1" in named or "1" in targets:
        return True
    return any(word in (ANY,) or is_unknown(word) for word in targets) and _names_all_processes(scene)


def _names_all_processes(scene: Scene) -> bool:
    """Return whether a command of the line lists all processes, and no later one selects some of them."""
    for listing in scene.line:
        if listing.program == "pgrep":
            patterns = [word for word in listing.words[1:] if not word.startswith("-")]
            if any(_MATCHES_ALL.fullmatch(word) for word in patterns):
                return True
        elif _lists_all_processes(listing):
            behind = [each for each in scene.line if _comes_from(each, listing)]
            if not any(map(_chooses_lines, behind)):
                return True
    return False


def _lists_all_processes(command: Invocation) -> bool:
    options = (re.fullmatch(r"-?\w*[eAax]\w*", word) for word in command.words[1:])
    return command.program == "ps" and any(options)


def _comes_from(command: Invocation, source: Invocation) -> bool:
    while command.source is not None:
        command = command.source
        if command is source:
            return True
    return False


def _chooses_lines(command: Invocation) -> bool:
    if command.program in ("grep", "egrep", "fgrep", "rg", "head", "tail", "fzf", "look"):
        return True
    is_language = command.program in ("awk", "gawk", "mawk", "sed", "perl")
    return is_language and any(re.search(r"/.+/|[=~]=|~", word) for word in command.words)


def shuts_down(scene: Scene) -> str:
    """Return the effect of shutting down or restarting, "" for none."""
    program = scene.program
    arguments = scene.arguments
    if {"--help", "--version", "-c", "-k", "--show"} & set(arguments[:1]):
        return ""
    verbs = frozenset(scene.operands())
    if program == "kexec":
        return "restarts the machine" if scene.has_flag("e", "--exec") else ""
    if program in ("systemctl", "loginctl"):
        shuts = not _SHUTDOWN_VERBS.isdisjoint(verbs)
    elif program in ("init", "telinit"):
        shuts = not verbs.isdisjoint(("0", "1", "6", "s", "S"))
    elif program == "osascript":
        script = re.compile(r"tell app.*\b(?:shut ?down|restart)\b", re.IGNORECASE)
        shuts = any(map(script.search, arguments))
    else:
        shuts = program in _SHUTDOWNS
    return "shuts the machine down" if shuts else ""


def removes_accounts(scene: Scene) -> str:
    """Return the effect of removing users, groups or crontabs, "" for none."""
    program = scene.program
    arguments = scene.arguments
    if program == "crontab":
        return "removes a crontab" if _removes_crontab(scene) else ""
    if program in _ACCOUNT_REMOVERS and arguments and arguments[0] not in ("--help", "--version", "-h"):
        adds = program == "sysadminctl" and not any(word.casefold() == "-deleteuser" for word in arguments)
        return "" if adds else "removes a user or a group"
    if program == "gpasswd" and scene.has_flag("dMr", "--delete", "--members", "--remove-password"):
        return "removes a user from a group, or its password"
    if program == "dscl" and any(word in ("-delete", "delete") for word in arguments):
        return "removes a user or a group"
    if program == "pw" and {"userdel", "groupdel"} & set(arguments):
        return "removes a user or a group"
    return ""


def _removes_crontab(scene: Scene) -> bool:
    if any(re.fullmatch(r"-[ie]*r[ie]*", word) for word in scene.arguments):
        return True
    operands = scene.operands(frozenset(("-u",)))
    if operands[:1] == ["/dev/null"]:
        return True
    stdin = scene.command.stdin
    if stdin is None:
        reads_input = operands == ["-"] or (not operands and not scene.options())
        return reads_input and any("<" in each.operator for each in scene.command.redirects)
    return not stdin.strip() and operands in (["-"], [])


def runs_bomb(scene: Scene) -> str:
    """Return the effect of a function that calls itself twice or in the background, "" for none."""
    command = scene.command
    if not command.words or command.words[0] not in command.within:
        return ""
    source = command.source
    doubled = source is not None and source.words[:1] == command.words[:1]
    return "starts an endless number of processes" if doubled or command.joint == "&" else ""


def bombs_by_name(line: str) -> bool:
    """Return whether an endless loop starts processes in the background."""
    return _BACKGROUND_LOOP.search(line[:2_000]) is not None
