"""Find commands that would remove, move or lock a vital place, directly or through find or a pipe."""

from __future__ import annotations

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .launched_commands import EXEC_OPTIONS
from .line_reading import Invocation
from .parsed_text import SPLIT, STAR, is_open, is_unknown, program_name
from .vital_places import Scene

FINDERS = word_set("find gfind fd fdfind")
MODE_CHANGERS = word_set("chmod chown chgrp setfacl chattr gchmod gchown")
MOVERS = word_set("mv gmv")
REMOVERS = word_set("rm grm unlink shred srm trash trash-put rmtrash gvfs-trash gio rimraf del rd")
_TREE_REMOVERS = REMOVERS - {"gio", "shred"}  # by their operands alone
_REMOVING_VERBS = {  # of programs that do more than remove
    "gio": ("trash", "remove"),
    "kioclient": ("move", "remove"),
    "kioclient5": ("move", "remove"),
}
_FIND_OPTIONS = lazy_pattern("-(?:[EHLPXdfsx]+|O.*|D|-)")  # those before the places; fd runs a command by -x
_FD_OPTIONS = lazy_pattern("-[EHLPdfs]+")
# Tests that select some of the files found. Without any of them, all files below the directory are taken.
_CHOOSING_TESTS = word_set(
    "-name -iname -lname -ilname -path -ipath -wholename -iwholename -regex -iregex -newer -anewer -cnewer"
    " -mtime -mmin -ctime -cmin -atime -amin -empty -size -inum -user -group -uid -gid -nouser -nogroup -perm"
    " -samefile -links -newermt -newerct -newerat -used -fstype"
)
_PASSING_FILTERS = word_set("cat sort tac uniq tee tr nl rev xargs parallel sudo env")
_LOCKING_MODE = lazy_pattern(r"0*[0-3][0-7]{2}|0+|(?:[augo]*)-[rwxXst]*[rx][rwxXst]*|[augo]*=")
_ALL_NAMES = lazy_pattern(f"['\"]?(?:[*.{STAR}]+|)['\"]?")


def deleted_by_rm(scene: Scene) -> str:
    """Return the effect of `rm -r` or `tar --remove-files` on a vital place, "" for none."""
    operands = scene.operands()
    by_verb = operands[:1] and operands[0] in _REMOVING_VERBS.get(scene.program, ())
    if scene.program not in _TREE_REMOVERS and "--remove-files" not in scene.arguments and not by_verb:
        return ""
    recursive = scene.program != "rm" or scene.has_flag("rR", "--recursive")
    if not recursive:
        return ""
    place = next(filter(None, map(scene.vital, operands)), "")
    return f"removes {place}" if place else ""


def deleted_by_find(scene: Scene) -> str:
    """Return the effect of a `find` that removes or locks the files it finds in a vital place."""
    if scene.program not in FINDERS:
        return ""
    deletes = _deletes(scene.arguments)
    if not deletes and not _changes(scene.arguments):
        return ""
    place = _place_found(scene)
    return f"{'removes' if deletes else 'changes permissions below'} {place}" if place else ""


def _executed(arguments: tuple[str, ...]) -> list[str]:
    """Return the words after `-exec` and similar options, including those within scripts."""
    start = next((at for at, word in enumerate(arguments, 1) if word in EXEC_OPTIONS), len(arguments))
    return [program_name(part) for word in arguments[start:] for part in word.split()]


def _deletes(arguments: tuple[str, ...]) -> bool:
    return "-delete" in arguments or not REMOVERS.isdisjoint(_executed(arguments))


def _changes(arguments: tuple[str, ...]) -> bool:
    return not MODE_CHANGERS.isdisjoint(_executed(arguments))


def _place_found(scene: Scene) -> str:
    """Return the vital place whose contents `find` finds: all of them, or some in a system directory."""
    roots, expression = split_find(scene)
    chooses = _chooses(expression)
    for root in roots:
        place = scene.vital(root)
        everywhere = place in ("the root directory", "a system directory")
        if place and (everywhere or not chooses):
            return place
    return ""


def split_find(scene: Scene) -> tuple[list[str], list[str]]:
    """Return the words for the places where `find` starts, and its expression."""
    words = list(scene.arguments)
    options = _FD_OPTIONS if scene.program.startswith("fd") else _FIND_OPTIONS
    start = 0
    while start < len(words) and options.fullmatch(words[start]):
        start += 2 if words[start] == "-D" else 1
    end = next((at for at in range(start, len(words)) if words[at][:1] in ("-", "(", "!")), len(words))
    return words[start:end] or ["."], words[end:]


def _chooses(expression: list[str]) -> bool:
    """Return whether a find expression selects only some of the files, on each of its branches."""
    branches: list[list[str]] = [[]]
    depth = 0
    for word in expression:
        depth += {"(": 1, ")": -1}.get(word, 0)
        if word in ("-o", "-or", ",") and depth == 0:
            branches.append([])
        elif word in ("-o", "-or") and _is_choice(branches[-1]):
            branches[-1] = ["("]  # in parentheses every branch has to select
        else:
            branches[-1].append(word)
    actions = {"-delete", "-exec", "-execdir", "-ok", "-okdir"}
    acting = [branch for branch in branches if actions & set(branch)]
    return all(map(_is_choice, acting or branches))


def _is_choice(words: list[str]) -> bool:
    for at, word in enumerate(words):
        if word in _CHOOSING_TESTS and not (at > 0 and words[at - 1] in ("!", "-not")):
            value = "".join(words[at + 1 : at + 2])
            if not _ALL_NAMES.fullmatch(value) or word == "-empty":
                return True
    return False


def deleted_by_pipe(scene: Scene) -> str:
    """Return the effect if all names of a vital place reach a remover through a pipe, a loop or a file."""
    if scene.program not in REMOVERS or not any(is_open(word.lstrip("/")) for word in scene.operands()):
        return ""
    sources = _name_sources(scene)
    file = _file_of_names(scene) if scene.has_flag("rR", "--recursive") else ""
    if file:
        writers = [each for each in scene.line if _writes_to(each, file)]
        sources += writers or _within_substitutions(scene)
        if not writers and not is_unknown(file) and scene.command.level > 0:
            return f"removes all files listed in {file}"
    for source in sources:
        if place := _place_listed(Scene(source, here=scene.here, places=scene.places, line=scene.line)):
            return f"removes {place}"
    return ""


def _writes_to(command: Invocation, file: str) -> bool:
    return any(each.operator == ">" and each.target == file for each in command.redirects)


def _file_of_names(scene: Scene) -> str:
    """Return the file, or the mark of a `<(...)`, that lists the files to remove; "" if there is none."""
    launched = scene.command.level > 0
    feeders = (
        each
        for each in scene.line
        if each.words[:1] == ("xargs",) and launched and each.level == scene.command.level - 1
    )
    for feeder in feeders:
        for at, word in enumerate(feeder.words):
            if word == "-a" or word.startswith("--arg-file="):
                return word.partition("=")[2] or "".join(feeder.words[at + 1 : at + 2])
        first = _first_of_pipe(feeder.source) if feeder.source is not None else feeder
        if first is not None and first.words[0] == "cat" and len(first.words) > 1:
            return first.words[-1]
        if first is feeder and (named := _redirected(feeder)):
            return named
    if any(each.words[:1] in (("read",), ("mapfile",), ("readarray",)) for each in scene.line):
        return next(filter(None, map(_redirected, scene.line)), "") if not launched else ""
    return ""


def _redirected(command: Invocation) -> str:
    targets = (each.target for each in command.redirects if each.operator == "<")
    return next((target for target in targets if not target.startswith("/dev/")), "")


def _within_substitutions(scene: Scene) -> list[Invocation]:
    """Return the commands whose output a substitution passes to the shell of this command."""
    deeper = len(scene.command.shells)
    last = [each for each in scene.line if len(each.shells) > deeper and each.words]
    inner = [each.source for each in last]
    ends = (each for each in last if not any(each is source for source in inner))
    return [first for each in ends if (first := _first_of_pipe(each)) is not None]


def _name_sources(scene: Scene) -> list[Invocation]:
    """Return the commands whose output names the files to remove, through xargs or `while read`."""
    found = [scene.command.source] if scene.command.level > 0 or scene.command.words[-1] == SPLIT else []
    readers = (
        each for each in scene.line if each.words and each.words[0] in ("read", "mapfile", "readarray")
    )
    found += (each.source for each in readers)
    return [first for each in found if each is not None and (first := _first_of_pipe(each)) is not None]


def _first_of_pipe(command: Invocation) -> Invocation | None:
    """Return the first command of a pipe; None if a later one selects some of the names."""
    while command.source is not None:
        if not command.words or program_name(command.words[0]) not in _PASSING_FILTERS:
            return None
        command = command.source
    return command


def _place_listed(scene: Scene) -> str:
    """Return the vital place of which a command prints all names, "" if there is none."""
    operands = scene.operands()
    if scene.program in FINDERS:
        return _place_found(scene)
    if scene.program in ("ls", "dir", "gls"):
        return next(filter(None, map(scene.vital, operands or ["."])), "")
    if scene.program in ("echo", "printf"):
        return next((scene.vital(word) for word in operands if STAR in word and scene.vital(word)), "")
    lists_all = operands == ["ls-files"] and not scene.has_flag("omd", "--others", "--deleted")
    return "the project" if scene.program == "git" and lists_all else ""


def deleted_by_rsync(scene: Scene) -> str:
    """Return the effect of `rsync --delete` on a vital place."""
    if scene.program != "rsync" or not any(option.startswith("--del") for option in scene.options()):
        return ""
    place = scene.vital((scene.operands() or [""])[-1].rstrip("/") or "/")
    return f"removes the files from {place} that another directory does not have" if place else ""


def moved_place(scene: Scene) -> str:
    """Return the effect of `mv` on a vital place."""
    if scene.program not in MOVERS:
        return ""
    targets = frozenset(("-t", "--target-directory", "-S", "--suffix"))
    operands = scene.operands(targets)
    has_target = any(option.startswith(("-t", "--target-directory")) for option in scene.options())
    if operands[-1:] == ["/dev/null"]:
        return "moves files over /dev/null"
    for word in operands if has_target else operands[:-1]:
        place = scene.vital(word)
        contents = is_unknown(word)  # `mv * DIRECTORY` is common in a project
        if place and not (contents and place in ("the project", "the current directory")):
            return f"moves {place}"
    return ""


def place_with_new_rights(scene: Scene) -> str:
    """Return the effect of changing permissions or owner of a vital place and everything in it."""
    if scene.program not in MODE_CHANGERS or not scene.has_flag("R", "--recursive"):
        return ""
    operands = scene.operands()
    reference = any(option.startswith("--reference") for option in scene.options())
    modes = [word for word in scene.arguments if _LOCKING_MODE.fullmatch(word)]
    first_is_place = (
        reference or scene.program in ("chattr", "setfacl") or any(mode.startswith("-") for mode in modes)
    )
    words = operands if first_is_place else operands[1:]
    for word in words:
        place = scene.vital(word)
        own = place in ("the project", "the current directory", "the repository's .git")
        if (
            place
            and not (own and not (modes and scene.program == "chmod"))
            and "/usr/local" not in scene.paths(word)
        ):
            return f"changes the permissions or the owner of {place}"
    return ""
