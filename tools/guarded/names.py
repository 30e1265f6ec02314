"""Names of files that run later, grant rights or hold secrets: one table for file tools and the sandbox."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from tools.text import word_set
from transcripts.patterns import lazy_bytes_pattern, lazy_pattern

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
ENV_FILE = lazy_pattern(r"\.env(?:\.(?!(?:example|sample|template|dist|defaults)\Z).*)?", re.DOTALL)
MEMORY_NAMES = ("AGENTS.md", "CLAUDE.md")  # of memory files, the preferred first: every session reads them
# Asked about before they are read: secrets, and other sessions. To read the rest is everyday work.
SECRET_FOLDERS = word_set(".makeroom .transcripts .ssh .aws .gnupg .kube .docker")
SECRET_CONFIG_FOLDERS = word_set("makeroom")
OWN_STATE_FOLDER = "makeroom"  # in .local/state: it holds what was approved, and drafts
SECRET_FILES = word_set(
    ".netrc _netrc .git-credentials .npmrc .pypirc id_rsa id_ed25519 id_ecdsa id_dsa id_ecdsa_sk"
    " id_ed25519_sk .envrc .pgpass .my.cnf .mylogin.cnf .htpasswd .vault-token .s3cfg .boto"
    " .dockercfg .databrickscfg .dockerconfigjson application_default_credentials.json"
)
# Of a home, beside the folders in SECRET_FOLDERS.
HOME_SECRETS = [
    ".netrc",
    ".git-credentials",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".s3cfg",
    ".boto",
    ".databrickscfg",
    ".terraform.d",
    ".azure",
    ".oci",
    ".password-store",
    ".mozilla",
    ".thunderbird",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".node_repl_history",
    ".config/makeroom",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/gcloud",
    ".config/op",
    ".config/rclone",
    ".config/doctl",
    ".config/heroku",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/Signal",
    ".config/containers/auth.json",
    ".config/composer/auth.json",
    ".composer/auth.json",
    ".local/share/keyrings",
    ".local/share/fish/fish_history",
    ".local/state/makeroom",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".gem/credentials",
    ".cache/huggingface/token",
    ".huggingface",
    ".kaggle",
    ".fly",
    ".claude",
    ".codex",
    ".gemini",
]
# Stores of keys, and files that people name for what they hold.
SECRET_FORM = lazy_pattern(
    r".+\.(?:p12|pfx|ppk|kdbx|agekey)|(?:.+[-_.])?client_secrets?(?:[-_.].+)?\.json"
    r"|(?:secrets?|credentials?|.+[-_.]credentials)\.(?:ya?ml|json|toml)",
    re.DOTALL,
)
# Files that hold a private key, or what everybody may know: certificates, slides of Keynote.
_MAYBE_KEY = lazy_pattern(
    r".+\.(?:pem|key|p8)|.*(?:service[-_]?account|adminsdk|gcp|gcloud|google).*\.json", re.DOTALL
)
_SECRET_ENDINGS = word_set("p12 pfx ppk kdbx agekey json yaml yml toml pem key p8")  # of the two forms above
_SAID_PUBLIC = lazy_pattern(r"cert|chain|bundle|pub|(?<![a-z])(?:ca|crt|root|dh|dhparams?)(?![a-z])")
# A key in text or in DER, and a file that is nothing but one long word.
_HELD_KEY = lazy_bytes_pattern(rb"BEGIN [A-Z0-9 ]*PRIVATE KEY|\A0[\x81\x82]|\A[!-~]{16,512}\s*\Z")
GITLINK = b"\0\0\xe0\0"  # the mode 0160000 in an index
_MAX_LOOKED_AT_BYTES = 64 * 1024


def is_protected(path: str, kind: Literal["read", "write"]) -> bool:
    """Return whether the user is always asked before this canonical path is used so.

    Judged by name, in any letter case and any part of the path, so that no alias of the file system escapes.
    A file that may hold a private key by its name is looked into before it is read.
    """
    path = path.rstrip("/") if "//" not in path else "/".join(filter(None, path.split("/")))
    if not path:
        return False
    above, _, last = path.rpartition("/")
    if _is_guarded_folder(above, kind):
        return True
    name = plain_name(last)
    if _guards(above.rpartition("/")[2], name, kind):
        return True
    secret = kind == "read" and (SECRET_FORM.fullmatch(name) is not None or holds_key(path))
    files = SECRET_FILES if kind == "read" else GUARDED_FILES
    return secret or name in files or ENV_FILE.fullmatch(name) is not None


@lru_cache(maxsize=1 << 14)
def _is_guarded_folder(path: str, kind: str) -> bool:
    """The same of all that is in a folder: searches ask for thousands of files in few of them."""
    parts = ["", *filter(None, path.split("/"))]
    return any(_guards(above, plain_name(name), kind) for above, name in pairwise(parts))


def _guards(above: str, name: str, kind: str) -> bool:
    """Return whether a plain name is that of a folder whose content is protected; `above` is the
    folder it is in.
    """
    folders = GUARDED_FOLDERS
    settings = GUARDED_CONFIG_FOLDERS
    if kind == "read":
        folders = SECRET_FOLDERS
        settings = SECRET_CONFIG_FOLDERS
    if name in folders:
        return True
    above = plain_name(above)
    return (above == ".config" and name in settings) or (above == "state" and name == OWN_STATE_FOLDER)


def holds_key(path: str) -> bool:
    """Return whether a file is named like one with a private key, and holds one."""
    if not _MAYBE_KEY.fullmatch(plain_name(path.rpartition("/")[2])):
        return False
    return _HELD_KEY.search(beginning(path)) is not None


def may_hold_secret(name: str) -> bool:
    """Return whether it depends on what a file holds, or on this plain name alone, that it is secret."""
    if name.startswith(".env"):
        return ENV_FILE.fullmatch(name) is not None
    ending = name.rpartition(".")[2]  # most names are done with here, of which there may be thousands
    return ending in _SECRET_ENDINGS and any(form.fullmatch(name) for form in (SECRET_FORM, _MAYBE_KEY))


def sounds_secret(name: str) -> bool:
    """Return whether a file that nobody can look into, as in another commit, may hold a secret by
    its name.
    """
    found = plain_name(name)
    by_name = found in SECRET_FILES or any(form.fullmatch(found) for form in (ENV_FILE, SECRET_FORM))
    return by_name or (_MAYBE_KEY.fullmatch(found) is not None and not _SAID_PUBLIC.search(found))


def beginning(path: str, max_bytes: int = _MAX_LOOKED_AT_BYTES) -> bytes:
    """The first bytes of a file, as far as such files are looked into; nothing for what is no file."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(opened, max_bytes) if stat.S_ISREG(os.fstat(opened).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(opened)


def repositories_in_index(data: bytes, hash_bytes: int) -> Iterator[bytes]:
    """The paths, from the checkout, of the other repositories that an index of git holds (as submodules).

    The format is gitformat-index(5), versions 2 to 4. What is broken ends it.
    """
    if GITLINK not in data or data[:4] != b"DIRC":
        return
    version, count = (int.from_bytes(data[at : at + 4], "big") for at in (4, 8))
    at = 12
    path = b""
    with suppress(ValueError, IndexError):
        for _ in range(count):
            flags = at + 40 + hash_bytes
            length = (data[flags] & 0x0F) << 8 | data[flags + 1]  # as git has it: a NUL need not end the path
            start = flags + (4 if data[flags] & 0x40 else 2)
            kept = 0
            if version == 4:  # the path begins as the one before, but for so many bytes
                cut = data[start] & 0x7F
                while data[start] & 0x80:
                    start += 1
                    cut = ((cut + 1) << 7) | (data[start] & 0x7F)
                start = start + 1
                kept = max(0, len(path) - cut)
            end = data.index(0, start) if length == 0xFFF else start + length - kept
            path = path[:kept] + data[start:end]
            if data[at + 24 : at + 28] == GITLINK:
                yield path
            at = end + 1 if version == 4 else at + ((end - at) // 8 + 1) * 8


def plain_name(name: str) -> str:
    """A name as the most tolerant file system takes it: case, width, ignorable characters, trailing dots."""
    if name.isascii():
        return name.lower().rstrip(". ") or name
    folded = unicodedata.normalize("NFKC", name).casefold()
    seen = "".join(char for char in folded if unicodedata.category(char) != "Cf")
    return seen.rstrip(". ") or name
