"""Find commands of git that cannot work in the sandbox: with ssh remotes, keychains, signatures. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .program_names import GitCall, Standpoint

_REACHING = word_set("push fetch pull clone ls-remote remote submodule")
_SIGNING = word_set("commit merge cherry-pick revert rebase am tag")
_SSH_URL = lazy_pattern(r"(?:git\+)?ssh(?:\+git)?://.*|(?:[\w.-]+@)?[\w.-]+:(?!:)(?!//).*")
_VALUE_OPTIONS = word_set(
    "-o --push-option --repo --receive-pack --exec --depth --deepen -b --branch -j --jobs -c --config"
    " --reference --upload-pack --origin --filter --negotiation-tip --refmap --template --server-option"
    " -s --strategy -X --strategy-option"
)
_KEEPS_APART = word_set(
    "--no-track --no-guess --detach -d --orphan -D --delete -l --list -r -a --merged --contains"
)
_TRUE = ("true", "yes", "on", "1", "")

Settings = Mapping[str, Sequence[str]]  # the values of each setting, the last of which is in force


def need_of_git(call: GitCall, here: str, seen: Standpoint) -> str:
    """Return the reason why a command of git cannot work in the sandbox, "" if none is known.

    Raises NotProved if its settings cannot be read.
    """
    folder = call.folder(here, seen.places.home)
    if call.name not in _REACHING | _SIGNING or folder is None:
        return ""
    settings = {key: list(values) for key, values in seen.files.git_values(folder).items()}
    for option, value in pairwise(call.options):
        if option == "-c":
            key, equals, text = value.partition("=")
            settings.setdefault(key.lower(), []).append(text if equals else "true")
    if call.name in _SIGNING and _signs(call, settings):
        return f"git {call.name} needs your signing key"
    return _need_of_remote(call, settings) if call.name in _REACHING else ""


def renames_branch(call: GitCall) -> bool:
    """Return whether a command of git renames or copies a branch, with the settings of that branch."""
    renaming = r"-[fq]*[mMcC]\w*|--move|--copy"
    return call.name == "branch" and any(re.fullmatch(renaming, word) for word in call.arguments)


def changes_sparseness(call: GitCall) -> bool:
    """Return whether a command of git changes which files are checked out, and with that settings."""
    return call.name == "sparse-checkout" and "".join(call.arguments[:1]) not in ("list", "reapply", "")


def starts_tracking(call: GitCall, folder: str, seen: Standpoint) -> bool:
    """Return whether a command of git makes a branch of the project's repository that tracks another.

    git switches to the branch, or pushes it, before it fails to store that. `folder` is where it runs.
    """
    _, name, arguments = call
    options = [word for word in arguments if word.startswith("-")]
    operands = [word for word in arguments if word and not word.startswith("-")]
    if name == "push":
        return any(re.fullmatch(r"-[fqvn]*u\w*|--set-upstream", word) for word in options)
    if (
        name not in ("checkout", "switch", "branch")
        or _KEEPS_APART.intersection(options)
        or "--" in arguments
    ):
        return False
    refs = _refs(seen)
    values = seen.files.git_values(folder).get("branch.autosetupmerge", ["true"])
    is_new = name == "branch" or any(
        re.fullmatch(r"-[bBcC]|--create|--force-create", each) for each in options
    )
    if is_new:
        start = "".join(operands[1:2])
        tracks = any(re.fullmatch(r"-t|--track(?:=\w+)?", word) for word in options)
        is_remote = f"refs/remotes/{start}" in refs and values[-1].lower() not in ("false", "no", "off", "0")
        return len(operands) == 2 and (tracks or is_remote)
    return len(operands) == 1 and _is_guessed(operands[0], folder, refs, seen)


def _is_guessed(name: str, folder: str, refs: Sequence[str], seen: Standpoint) -> bool:
    """Return whether git takes a name for that of a new branch, as only one remote has such a branch."""
    if any(f"refs/{kind}/{name}" in refs for kind in ("heads", "tags", "remotes")):
        return False
    if name.split("/")[0] in seen.files.file_names(folder):
        return False
    return sum(ref.startswith("refs/remotes/") and ref.split("/", 3)[3:] == [name] for ref in refs) == 1


def _refs(seen: Standpoint) -> list[str]:
    """Return the names of the refs of the project's repository that branches may be made from."""
    git = f"{seen.places.folder}/.git"
    packed = (line.partition(" ")[2] for line in seen.files.text(f"{git}/packed-refs").splitlines())
    found = {line for line in packed if line.startswith("refs/")}
    waiting = ["refs/heads", "refs/remotes", "refs/tags"]
    while waiting and len(found) < 5_000:
        place = waiting.pop()
        found.add(place)
        waiting += (f"{place}/{each}" for each in seen.files.file_names(f"{git}/{place}"))
    return sorted(found)


def _signs(call: GitCall, settings: Settings) -> bool:
    options = call.arguments[: call.arguments.index("--")] if "--" in call.arguments else call.arguments
    if any(word in ("--no-gpg-sign", "--no-sign", "--abort", "--quit", "--dry-run") for word in options):
        return False
    if call.name == "tag":
        return _signs_tag(options, settings)
    signed = any(re.match(r"-S|--gpg-sign", word) for word in options)
    return signed or _is_on("commit.gpgsign", settings)


def _signs_tag(options: Sequence[str], settings: Settings) -> bool:
    def has(pattern: str) -> bool:
        return any(re.match(pattern, word) for word in options)

    if not options or has(r"-[ldvn]|--(?:list|delete|verify)"):
        return False
    forced = has(r"-[amF]|--(?:annotate|message|file)") and _is_on("tag.forcesignannotated", settings)
    return has(r"-[su]|--(?:sign|local-user)") or forced or _is_on("tag.gpgsign", settings)


def _is_on(key: str, settings: Settings) -> bool:
    values = settings.get(key, ())
    return bool(values) and values[-1].lower() in _TRUE


def _need_of_remote(call: GitCall, settings: Settings) -> str:
    _, name, arguments = call
    if any(word in ("--dry-run", "-h", "--help") for word in arguments) and name != "push":
        return ""
    shown = f"git {name}"
    for url in _urls(call, settings):
        if _SSH_URL.fullmatch(url):
            return f"{shown} needs a direct network connection and your SSH keys ({url[:80]})"
        if url.startswith("git://"):
            return f"{shown} needs a direct network connection ({url[:80]})"
        if name == "push" and url.startswith("https://") and _has_helper(settings):
            return f"{shown} needs your git credentials ({url[:80]})"
    return ""


def _has_helper(settings: Settings) -> bool:
    keys = (key for key in settings if re.fullmatch(r"credential\.(?:.*\.)?helper", key))
    return any(settings[key][-1] for key in keys)


def _urls(call: GitCall, settings: Settings) -> Iterator[str]:
    """Yield the URLs that a command of git connects to, rewritten by its settings."""
    _, name, arguments = call
    words = _operands(arguments)
    if name == "submodule":
        if words[:1] in (["update"], ["add"]):
            named = [
                values[-1] for key, values in settings.items() if re.fullmatch(r"submodule\..*\.url", key)
            ]
            yield from (_rewritten(url, name, settings) for url in (*named, *words[1:2]))
        return
    if name == "remote":
        if words[:1] not in (["update"], ["show"], ["prune"]) or (len(words) == 1 and words != ["update"]):
            return
        words = words[1:]
    if "--all" in arguments and name in ("fetch", "pull"):
        names = _remotes(settings)
    else:
        names = words[:1] or ([] if name == "clone" else [_usual_remote(name, settings)])
    for each in names:
        urls = settings.get(f"remote.{each}.url", [each])
        if name == "push":
            urls = settings.get(f"remote.{each}.pushurl", urls)
        yield from (_rewritten(url, name, settings) for url in urls)


def _operands(arguments: Sequence[str]) -> list[str]:
    found: list[str] = []
    is_value = False
    for word in arguments:
        if is_value:
            is_value = False
        elif word in _VALUE_OPTIONS:
            is_value = True
        elif not word.startswith("-"):
            found.append(word)
    return found


def _usual_remote(name: str, settings: Settings) -> str:
    """Return the remote that git uses if none is named, which is nearly always `origin`."""
    pushed = settings.get("remote.pushdefault", [])
    if name == "push" and pushed:
        return pushed[-1]
    remotes = _remotes(settings)
    return remotes[0] if len(remotes) == 1 else "origin"


def _remotes(settings: Settings) -> list[str]:
    """Return the names of the remotes that have a URL."""
    return [key[7:-4] for key in settings if re.fullmatch(r"remote\..*\.url", key)]


def _rewritten(url: str, name: str, settings: Settings) -> str:
    """Return a URL as `url.BASE.insteadOf` and `pushInsteadOf` rewrite it."""
    kinds = ("pushinsteadof", "insteadof") if name == "push" else ("insteadof",)
    for kind in kinds:
        for key, values in settings.items():
            if key.startswith("url.") and key.endswith(f".{kind}"):
                base = key[4 : -len(kind) - 1]
                for start in values:
                    if start and url.startswith(start):
                        return base + url[len(start) :]
    return url
