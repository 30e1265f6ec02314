"""Which files must never be changed without asking: what runs later, what grants rights, what holds secrets.

Judged by name, in any letter case and any part of a path, so that no alias of the file system slips by; a
hard link is known by its inode. Which paths are judged, and when, is for paths.py.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Everything below these folders: hooks and settings of git, of this program, of editors and CI, keys.
_FOLDERS = _words(
    ".git .makeroom .transcripts .task_outputs .claude .vscode .idea .fleet .zed .devcontainer .github"
    " .gitlab .circleci .husky .buildkite .ssh .aws .gnupg .kube .docker .cargo .direnv"
)
_BELOW_CONFIG = _words("makeroom fish git systemd autostart gh nvim pip")
_PAIRS = frozenset((".config", name) for name in _BELOW_CONFIG)
_FILES = _words(
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin"
    " .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .xprofile .xinitrc .xsession"
    " .pam_environment .gitconfig .gitmodules .git-credentials .npmrc .yarnrc .yarnrc.yml .pypirc .netrc"
    " .curlrc .wgetrc .envrc .vimrc .exrc .nvimrc .emacs .tmux.conf .screenrc .gdbinit .lldbinit .ripgreprc"
    " .editorconfig .pre-commit-config.yaml .lefthook.yml lefthook.yml .gitlab-ci.yml .travis.yml jenkinsfile"
    " .mcp.json azure-pipelines.yml bitbucket-pipelines.yml appveyor.yml .appveyor.yml .drone.yml .cirrus.yml"
    " authorized_keys crontab sudoers"
)
_HARMLESS = _words(".env.example .env.sample .env.template .env.dist .env.defaults")
# Reading these shows secrets or other sessions; reading the rest is everyday work.
_SECRET_FOLDERS = _words(".makeroom .transcripts .ssh .aws .gnupg .kube .docker")
_SECRET_FILES = _words(".netrc .git-credentials .npmrc .pypirc id_rsa id_ed25519 id_ecdsa id_dsa")
_STARTUP = (".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".zprofile", ".gitconfig")
_MOST = 2_000  # files looked at to find what a hard link is another name of


def is_protected(path: str, kind: str) -> bool:
    """Whether the canonical path always needs the person's word; `kind` is "read" or "write"."""
    parts = [plain(part) for part in path.split("/") if part]
    if kind == "read":
        return _holds_secret(parts)
    if not _FOLDERS.isdisjoint(parts) or not _PAIRS.isdisjoint(pairwise(parts)):
        return True
    name = parts[-1] if parts else ""
    return name in _FILES or _is_env(name)


def is_link_to_protected(path: str, roots: tuple[Path, ...]) -> bool:
    """Whether the file is, by a hard link, also a protected file of the project or the home folder."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    if found.st_nlink < 2:
        return False
    key = (found.st_dev, found.st_ino)
    return any((each.st_dev, each.st_ino) == key for root in roots for each in _guarded(root))


def plain(part: str) -> str:
    """A name as the most forgiving file system takes it: case, width, ignorable characters, trailing dots."""
    if part.isascii():
        return part.lower().rstrip(". ") or part
    folded = unicodedata.normalize("NFKC", part).casefold()
    seen = "".join(char for char in folded if unicodedata.category(char) != "Cf")
    return seen.rstrip(". ") or part


def _holds_secret(parts: list[str]) -> bool:
    if not _SECRET_FOLDERS.isdisjoint(parts) or (".config", "makeroom") in pairwise(parts):
        return True
    return bool(parts) and (parts[-1] in _SECRET_FILES or _is_env(parts[-1]))


def _is_env(name: str) -> bool:
    return name == ".env" or (name.startswith(".env.") and name not in _HARMLESS)


def _guarded(root: Path) -> Iterator[os.stat_result]:
    """The protected files below a root, as far as they can be told apart from others in short time."""
    left = _MOST
    for name in (*_STARTUP, ".ssh/authorized_keys", ".env", ".git/config", ".gitmodules"):
        try:
            yield (root / name).stat()
        except OSError:
            continue
    for name in (".git/hooks", ".git/info", ".makeroom", ".transcripts", ".vscode", ".github", ".husky"):
        for folder, _, files in os.walk(root / name):
            for file in files:
                left -= 1
                if left < 0:
                    return
                try:
                    yield Path(folder, file).lstat()
                except OSError:
                    continue
