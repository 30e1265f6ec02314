"""Names of files that run later, grant rights or hold secrets: one table for file tools and the wall."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import Literal

from tools.files.text_encoding import word_set

# Always asked about before they are changed: what runs later, what grants rights, what holds secrets. All
# that is below these folders: hooks and settings of git, of this program, of editors and CI; keys.
GUARDED_FOLDERS = word_set(
    ".git .makeroom .transcripts .task_outputs .claude .vscode .idea .fleet .zed .devcontainer .github"
    " .gitlab .circleci .husky .buildkite .ssh .aws .gnupg .kube .docker .cargo .direnv"
    " .cursor .windsurf .codex .gemini .agents"
)
GUARDED_CONFIG_FOLDERS = word_set("makeroom fish git systemd autostart gh nvim pip")  # folders in .config
GUARDED_FILES = word_set(
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin"
    " .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .xprofile .xinitrc .xsession"
    " .pam_environment .gitconfig .gitmodules .git-credentials .npmrc .yarnrc .yarnrc.yml .pypirc .netrc"
    " .curlrc .wgetrc .envrc .vimrc .exrc .nvimrc .emacs .tmux.conf .screenrc .gdbinit .lldbinit .ripgreprc"
    " .editorconfig .pre-commit-config.yaml .lefthook.yml lefthook.yml .gitlab-ci.yml .travis.yml jenkinsfile"
    " .mcp.json azure-pipelines.yml bitbucket-pipelines.yml appveyor.yml .appveyor.yml .drone.yml .cirrus.yml"
    " authorized_keys crontab sudoers .mise.toml mise.toml .nvim.lua .lvimrc .woodpecker.yml"
    " .bazelrc .rprofile .pdbrc .pnp.cjs .pnp.loader.mjs sitecustomize.py usercustomize.py"
)
ENV_FILE = re.compile(r"\.env(?:\.(?!(?:example|sample|template|dist|defaults)\Z).*)?", re.DOTALL)
MEMORY_NAMES = ("AGENTS.md", "CLAUDE.md")  # of memory files, the preferred first: every session reads them
# Asked about before they are read: secrets, and other sessions. To read the rest is everyday work.
SECRET_FOLDERS = word_set(".makeroom .transcripts .ssh .aws .gnupg .kube .docker")
SECRET_CONFIG_FOLDERS = word_set("makeroom")
OWN_STATE_FOLDER = "makeroom"  # in .local/state: it holds what was approved, and drafts
SECRET_FILES = word_set(".netrc .git-credentials .npmrc .pypirc id_rsa id_ed25519 id_ecdsa id_dsa")


def is_protected(path: str, kind: Literal["read", "write"]) -> bool:
    """Whether a person is always asked before this canonical path is used so.

    Judged by name, in any letter case and any part of the path, so that no alias of the file system escapes.
    """
    folders, settings, files = GUARDED_FOLDERS, GUARDED_CONFIG_FOLDERS, GUARDED_FILES
    if kind == "read":
        folders, settings, files = SECRET_FOLDERS, SECRET_CONFIG_FOLDERS, SECRET_FILES
    parts = [plain_name(part) for part in path.split("/") if part]
    in_settings = any(
        (above == ".config" and name in settings) or (above == "state" and name == OWN_STATE_FOLDER)
        for above, name in pairwise(parts)
    )
    if in_settings or not folders.isdisjoint(parts):
        return True
    return bool(parts) and (parts[-1] in files or ENV_FILE.fullmatch(parts[-1]) is not None)


def plain_name(name: str) -> str:
    """A name as the most tolerant file system takes it: case, width, ignorable characters, trailing dots."""
    if name.isascii():
        return name.lower().rstrip(". ") or name
    folded = unicodedata.normalize("NFKC", name).casefold()
    seen = "".join(char for char in folded if unicodedata.category(char) != "Cf")
    return seen.rstrip(". ") or name
