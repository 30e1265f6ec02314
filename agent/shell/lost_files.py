"""Find the files that a line may delete or overwrite and no checkpoint contains.

Checkpoints leave some directories out (`.git`, `node_modules`, ...), and some files are too large for them.
Before a command may destroy such files the user is asked. A line is compared with them by its words:

    rm -rf build *.log          removes what these words match, and everything below
    find . -name '*.js' -delete  removes files at any depth below `.`
    grep -rl x . | xargs sed -i s/x/y/  writes such files
    echo x >node_modules/a/b    writes a file
    git clean -fdx              removes untracked directories at any depth

Caches are not protected, since programs recreate them. A directory of dependencies that a manifest beside it
can rebuild may be removed as a whole by a line that names it, or by a package manager. What a program of the
project does is unknown. The lines of its makefiles, packages and shell scripts (project_scripts.py) are
judged by what they name: a script that removes its temporary file, `rm -f "$tmp"`, is no reason to ask about
`make test`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tools.text import word_set
from transcripts import RECORD_FOLDERS
from transcripts.patterns import lazy_pattern

from .destructive import may_overwrite
from .launched_commands import EXEC_OPTIONS
from .launcher_arguments import option_values
from .line_reading import Invocation, LineReading, read_line
from .mass_deletion import FINDERS, MODE_CHANGERS, MOVERS, REMOVERS, split_find
from .output_files import output_words
from .parsed_text import ANY, STAR, is_unknown
from .program_names import GitCall
from .system_damage import COPIERS, EDITORS, edits_in_place
from .vital_places import Places, Scene, name_fits, scenes

_CACHES = word_set(
    "__pycache__ .tox .nox .mypy_cache .pytest_cache .ruff_cache .hypothesis .cache .gradle .DS_Store"
)
_REPOSITORIES = word_set(".git .hg .svn .jj")
_WRITERS = word_set("tee truncate sponge dd patch ed ex gzip gunzip xz unxz bzip2 zstd")
_SEARCHERS = word_set("grep egrep fgrep ggrep")
_ATTRIBUTE_CHANGERS = MODE_CHANGERS | {"setfattr"}
_MANAGERS = word_set("npm yarn pnpm venv virtualenv uv poetry pipenv")
_REMOVING_VERBS = word_set("ci install i add prune update up uninstall remove rm dedupe clean-install")
_CHANGERS = REMOVERS | MOVERS | _ATTRIBUTE_CHANGERS | _WRITERS
_DELETING_CODE = lazy_pattern(
    r"\b(?:rmtree|rm_rf|rm_r|rmSync|rmdirSync|removeSync|remove_tree|rimraf|removedirs|deltree|unlink|unlinkSync"
    r"|remove|rmdir|rm|delete|clean|rename|move|f?truncate|(?:create|write|append)(?:File|Stream|WriteStream)(?:Sync)?"
    r"|copy(?:2|file|fileobj|tree|FileSync|File)?|cpSync|renameSync|extract(?:all)?|unpack_archive"
    r"|write_text|write_bytes|open)\b|-delete\b"
)
_WALKING_CODE = lazy_pattern(r"\b(?:walk|rglob|glob|iterdir|listdir|scandir|readdirSync|find)\b")
# Suffixes of names that git itself never gives to a file.
_SAFE_SUFFIX = lazy_pattern(r"\*\.(?!pack|idx|rev|sample|lock|bitmap|graph|keep|mtimes)\w+~?|\*~")


class UncoveredFiles(Struct, frozen=True):
    """The paths without a checkpoint, relative to the project.

    folders      directories whose contents are left out
    rebuildable  those of them that a manifest beside them can rebuild
    files        files that are not stored
    held         those of them that outlive their deletion, but not what is written to them
    others       absolute directories outside the project where commands may write, and so may remove
    read_only    absolute places where the sandbox lets nothing be written, so that nothing is lost
    """

    folders: Sequence[str] = ()
    rebuildable: Collection[str] = ()
    files: Sequence[str] = ()
    others: Sequence[str] = ()
    held: Collection[str] = ()
    read_only: Sequence[str] = ()


class _Target(NamedTuple):
    """A path that a command changes, with globs as marks; "" for any path.

    below    everything below it changes too
    removed  it is removed or moved away, not written
    named    the line names the whole path, to remove it
    """

    path: str
    below: bool = False
    removed: bool = False
    named: bool = False


def lost_paths(line: str, places: Places, uncovered: UncoveredFiles, of_script: bool = False) -> list[str]:
    """Return the paths without a checkpoint that a line, or one of a script, may delete or overwrite."""
    folders = [name for name in uncovered.folders if posixpath.basename(name) not in _CACHES]
    lost: dict[str, None] = {}
    reading = read_line(line)
    commands = list(scenes(reading.invocations, places, unset_is_unknown=True))
    is_steered = _is_git_steered(reading)
    for scene in commands:
        for target in (target for each in _possible(scene, places, folders) for target in _targets(each)):
            if target.path or target.below or not of_script:
                lost |= dict.fromkeys(_matched(target, places, folders, uncovered))
        lost |= dict.fromkeys(_found(scene, places, folders, is_steered))
    hidden = line.splitlines() if of_script else [line]
    for text in (*reading.code, *(hidden if reading.opaque else [])):
        lost |= dict.fromkeys(_named_in(text, folders))
    if uncovered.files and may_overwrite(line):
        all_named = not (reading.opaque or reading.code) and all(map(_is_known, commands))
        lost |= dict.fromkeys([] if all_named else uncovered.files)
    return list(lost)


def changed_repositories(line: str, places: Places, repositories: Sequence[str]) -> list[str]:
    """Return those of the git repositories whose refs a line may change.

    They are named by their directories relative to the project, "" being the one that the project belongs to.
    """
    reading = read_line(line)
    found = scenes(reading.invocations, places, unset_is_unknown=True)
    commands = [scene for scene in found if scene.command.words]
    is_hidden = reading.opaque or any("git" in code for code in reading.code)
    if is_hidden or not all(scene.program for scene in commands):
        return list(repositories)
    calls = [scene for scene in commands if scene.program == "git"]
    if calls and _is_git_steered(reading):
        return list(repositories)
    return [name for name in repositories if any(_may_change(scene, places, name) for scene in calls)]


def _is_git_steered(reading: LineReading) -> bool:
    """Return whether variables of the line make git work in another repository or working tree."""
    words = (word for command in reading.invocations for word in command.words if "=" in word)
    names = {*reading.assigned, *(word.partition("=")[0] for word in words)}
    return not names.isdisjoint(("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"))


def _possible(scene: Scene, places: Places, folders: Sequence[str]) -> Iterator[Scene]:
    """Yield a command in each directory that matters, if the one that it runs in is unknown."""
    if scene.here is not None:
        yield scene
        return
    # A command may run in each of them if its directory is unknown.
    above = {posixpath.dirname(name) for name in folders[:200]}
    for name in sorted({"", *above}):
        yield replace(scene, here=posixpath.join(places.folder, name).rstrip("/"))


def _may_change(scene: Scene, places: Places, repository: str) -> bool:
    """Return whether a command of git may change a repository, if it works in its directory."""
    call = GitCall.of(scene.command.words)
    reaches_others = call.name == "submodule" or "--recurse-submodules" in scene.arguments
    reaches_others = reaches_others or any(
        option.startswith(("--git-dir", "--work-tree")) for option in call.options
    )
    folder = call.folder(scene.here, places.home)
    if not repository or reaches_others or folder is None:
        return True
    place = f"{places.folder}/{repository}"
    return any(f"{path}/".startswith(f"{place}/") for path in scene.paths(folder))


def _targets(scene: Scene) -> Iterator[_Target]:
    """Yield the paths that a command changes and its words name."""
    for redirect in scene.command.redirects:
        if redirect.writes and redirect.target != "/dev/null":
            yield from _each(scene, [redirect.target], below=False)
    yield from _each(scene, output_words(scene), below=False)
    program = scene.program
    operands = scene.operands()
    if program in REMOVERS or "--remove-files" in scene.arguments:
        recursive = program not in ("rm", "grm", "unlink") or scene.has_flag("rR", "--recursive")
        yield from _each(scene, operands, below=recursive, named=True)
    elif program in MOVERS:
        for target in _each(scene, operands[:-1], below=True):
            yield target._replace(removed=True)
        yield from _each(scene, operands[-1:], below=False)
    elif program in COPIERS:
        deletes = any(option.startswith("--del") for option in scene.options())
        yield from _each(scene, operands[-1:], below=deletes)
    elif program in _WRITERS or (program in EDITORS and edits_in_place(scene.arguments)):
        values = [word.removeprefix("of=") for word in operands if program != "dd" or word.startswith("of=")]
        yield from _each(scene, values, below=False)
    elif program in _MANAGERS:
        yield from _each(scene, _rebuilt_folders(scene), below=True, named=True)
    elif program in _ATTRIBUTE_CHANGERS:
        yield from _each(scene, operands, below=scene.has_flag("R", "--recursive"))


def _rebuilt_folders(scene: Scene) -> Sequence[str]:
    """Return the directories in which a package manager removes what it has not put there."""
    names_place = frozenset(("--prefix", "--cwd", "-C", "--dir"))
    operands = scene.operands(names_place)
    verb = "".join(operands[:1])
    if scene.program in ("venv", "virtualenv"):
        return operands if "--clear" in scene.arguments else ()
    if scene.program == "uv":
        return [*operands[1:], ".venv"] if verb == "venv" else ()
    if scene.program in ("poetry", "pipenv"):
        return (".venv",) if operands[:2] == ["env", "remove"] or "--rm" in scene.arguments else ()
    places = option_values(list(scene.command.words), names_place)
    removes = verb in _REMOVING_VERBS and not scene.has_flag("g", "--global", "--dry-run")
    return (posixpath.join(next(places, "."), "node_modules"),) if removes else ()


def _each(scene: Scene, words: Iterable[str], below: bool, named: bool = False) -> Iterator[_Target]:
    by_find = _is_run_by_find(scene)
    for word in words:
        paths = scene.paths(word)
        yield from (_Target(path, below=below, removed=named, named=named) for path in paths)
        if not paths and named and is_unknown(word) and not by_find:
            yield _Target("", below=below)


def _is_run_by_find(scene: Scene) -> bool:
    """Return whether the files of a command are those that a `find` in the line finds."""
    finders = (each for each in scene.line if each.program in FINDERS)
    return scene.command.level > 0 and any(word in EXEC_OPTIONS for each in finders for word in each.words)


def _found(scene: Scene, places: Places, folders: Sequence[str], is_steered: bool) -> Iterator[str]:
    """Yield the directories in which a command deletes the files that it finds."""
    words = scene.arguments
    program = scene.program
    if program == "git":
        yield from _found_by_git(replace(scene, here=None) if is_steered else scene, places, folders)
    elif program in FINDERS and ("-delete" in words or _changes_found(words) or _feeds_changes(scene)):
        yield from _found_by_find(scene, places, folders)
    elif program in _SEARCHERS and scene.has_flag("rR", "--recursive") and _feeds_changes(scene):
        yield from _found_by_grep(scene, places, folders)


def _changes_found(words: Sequence[str]) -> bool:
    """Return whether a command, or the one that `-exec` or xargs runs, changes files that it is given."""
    in_place = edits_in_place(words)
    into_found = ("{}", ";") in pairwise(words) or ("{}", "+") in pairwise(words)
    return any(
        word in _CHANGERS or (word in EDITORS and in_place) or (word in COPIERS and into_found)
        for word in words
    )


def _feeds_changes(scene: Scene) -> bool:
    """Return whether a command that changes files gets their names from this one, by xargs or `$(...)`."""
    printing = scene.command
    for each in scene.line:
        if _changes_found(each.words):
            is_word = each.shells < printing.shells and any(map(is_unknown, each.words))
            if is_word or (each.level > 0 and printing in _sources(each)):
                return True
    return False


def _sources(command: Invocation) -> Iterator[Invocation]:
    while command.source is not None:
        command = command.source
        yield command


def _found_by_git(scene: Scene, places: Places, folders: Sequence[str]) -> Iterator[str]:
    program = scene.command.words[0]
    call = GitCall.of(scene.command.words)
    command = replace(scene.command, words=(program, call.name, *call.arguments))
    inner = replace(scene, command=command, here=call.folder(scene.here, places.home))
    operands = inner.operands()
    yield from _lost_state_of_git(operands)
    moves_head = operands[:1] in (["checkout"], ["switch"]) and "--" not in inner.arguments
    if moves_head and inner.has_flag("f", "--force", "--discard-changes"):
        yield "staged changes"  # HEAD stays where it was moved to, and so does the index
    if operands[:1] == ["am"] and "--skip" in inner.arguments:
        yield "the patch that is skipped"
    if operands[:1] == ["clean"] and not inner.has_flag("n", "--dry-run"):
        trees = option_values([program, *call.options], frozenset({"--work-tree"}))
        elsewhere = (replace(inner, here=next(iter(inner.paths(tree)), None)) for tree in trees)
        yield from _cleaned_by_git([inner, *elsewhere], places, folders)
    if operands[:1] == ["stash"] and operands[1:2] in ([], ["push"], ["save"]) and _stash_loses_files(inner):
        yield from (name for name in folders if posixpath.basename(name) not in _REPOSITORIES)


def _lost_state_of_git(operands: Sequence[str]) -> Iterator[str]:
    """Yield phrases for what a command of git removes from the repository, and no checkpoint contains."""
    name, *rest = [*operands, ""]
    if name == "worktree":
        # Its HEAD and index are in the repository, and so is its place.
        if rest[0] in ("remove", "move"):
            named = rest[1:-1] if rest[0] == "remove" else rest[1:2]
            yield from ("a worktree" if is_unknown(word) else word for word in named)
        elif rest[0] == "prune":
            yield "worktrees whose directories are missing"
    elif name == "rerere" and rest[0] in ("clear", "forget", "gc"):
        yield "recorded resolutions of conflicts"


def _stash_loses_files(stash: Scene) -> bool:
    """Return whether `git stash` moves untracked files away, and the line itself may drop the entry.

    Ignored files include whole directories of packages, which a user would miss until the entry is applied.
    """
    if stash.has_flag("a", "--all"):
        return True
    dropping = ({"stash", "drop"}, {"stash", "clear"}, {"reflog", "delete"}, {"reflog", "expire"})
    drops = any(words <= {*each.words} for each in stash.line for words in dropping)
    return drops and stash.has_flag("u", "--include-untracked")


def _cleaned_by_git(possible: Sequence[Scene], places: Places, folders: Sequence[str]) -> Iterator[str]:
    """Yield the directories that `git clean` deletes, in the current directory or in a working tree."""
    clean = possible[0]
    named = clean.operands()[1:]
    if not named and not clean.has_flag("d"):
        return
    forced = sum(
        "--force".startswith(each) if each[1] == "-" else each.count("f") for each in clean.options()
    )
    # The operands of `-e` are excluded, and a pattern may match at any depth.
    if clean.has_flag("e", "--exclude") or any(re.search(r"[*?[\\]", word) for word in named):
        named = ["."]
    words = [ANY if word.startswith(":") else word for word in named or ["."]]  # `:/` is the top
    found = [scene.paths(word) for scene in possible for word in words]
    cleans_ignored = clean.has_flag("x") or clean.has_flag("X")
    for name in folders:
        if posixpath.basename(name) in RECORD_FOLDERS and not cleans_ignored:
            continue  # they contain a .gitignore for all that is in them
        is_repository = posixpath.basename(name) in _REPOSITORIES
        place = f"{places.folder}/{name}"
        is_own = any(scene.here == posixpath.dirname(place) for scene in possible)
        if is_repository and ("/" not in name or forced < 2 or is_own):
            continue
        if any(not paths or any(_overlap(path, place, below=True) for path in paths) for paths in found):
            yield name


def _found_by_find(scene: Scene, places: Places, folders: Sequence[str]) -> Iterator[str]:
    words = scene.arguments
    names = [value.replace(STAR, "*") for test, value in pairwise(words) if test in ("-name", "-iname")]
    only_caches = bool(names) and all(
        name in _CACHES or re.fullmatch(r"\*\.py(?:c|o|\[co\])", name) for name in names
    )
    patterns = [value for test, value in pairwise(words) if test in ("-path", "-name")]
    excludes = any(word in ("-prune", "-not", "!") for word in words)
    paths = [path for root in split_find(scene)[0] for path in scene.paths(root)]
    for name in folders:
        base = posixpath.basename(name)
        excluded = excludes and any(base in value for value in patterns)
        safe = base == ".git" and bool(names) and all(map(_SAFE_SUFFIX.fullmatch, names))
        if only_caches or excluded or safe:
            continue
        if any(_overlap(path, f"{places.folder}/{name}", below=True) for path in paths):
            yield name


def _found_by_grep(scene: Scene, places: Places, folders: Sequence[str]) -> Iterator[str]:
    """Yield the directories that a recursive search enters."""
    excluded = {word.partition("=")[2].strip("/") for word in scene.options() if "exclude-dir=" in word}
    patterns = word_set("-e -f --regexp --file")
    given = any(word.partition("=")[0] in patterns for word in scene.options())
    roots = scene.operands(patterns)[0 if given else 1 :] or ["."]
    paths = [path for root in roots for path in scene.paths(root)]
    for name in folders:
        if posixpath.basename(name) not in {*excluded, *_REPOSITORIES} and any(
            _overlap(path, f"{places.folder}/{name}", below=True) for path in paths
        ):
            yield name


def _matched(
    target: _Target, places: Places, folders: Sequence[str], uncovered: UncoveredFiles
) -> Iterator[str]:
    if target.path and any(f"{target.path}/".startswith(f"{place}/") for place in uncovered.read_only):
        return
    for name in folders:
        place = f"{places.folder}/{name}"
        is_rebuilt = target.named and target.path == place and name in uncovered.rebuildable
        if not target.path or (_overlap(target.path, place, target.below) and not is_rebuilt):
            yield name
    for name in uncovered.files:
        is_kept = target.removed and name in uncovered.held
        if target.path and _overlap(target.path, f"{places.folder}/{name}", target.below) and not is_kept:
            yield name
    for place in uncovered.others:
        if target.path and target.removed and _overlap(target.path, place, target.below):
            yield target.path if target.path.startswith(place) else place


def _overlap(pattern: str, place: str, below: bool) -> bool:
    """Return whether a path with glob marks is a place or in it, or contains it and goes `below`."""
    parts = pattern.strip("/").split("/")
    wanted = place.strip("/").split("/")
    if len(parts) < len(wanted) and not below:
        return False
    if pattern == "/":
        return True
    return all(name_fits(part, name) for part, name in zip(parts, wanted, strict=False))


def _is_known(scene: Scene) -> bool:
    """Return whether the words of a command name every file that it may overwrite."""
    program = scene.program
    if not program:
        return False
    operands = scene.operands()
    if program in ("git", "tar", "unzip", "7z", "patch", "split", "csplit", "xargs"):
        return False
    if program in FINDERS:
        return bool(operands) and all(map(scene.paths, operands[:1]))
    if _is_run_by_find(scene):
        return True
    words = [*operands, *(redirect.target for redirect in scene.command.redirects)]
    return not any(is_unknown(word) and not scene.paths(word) for word in words)


def _named_in(text: str, folders: Sequence[str]) -> Iterator[str]:
    """Yield the directories in which code may delete files: those it names, and all if it lists any."""
    if _DELETING_CODE.search(text) is None:
        return
    walks = _WALKING_CODE.search(text) is not None
    removes = re.search(r"rmtree|unlink|remove|rmSync|rm_rf|-delete|\brm\b", text) is not None
    for name in folders:
        is_named = re.search(rf"(?<![\w.-]){re.escape(posixpath.basename(name))}(?![\w.-])", text) is not None
        if is_named or (walks and removes):
            yield name
