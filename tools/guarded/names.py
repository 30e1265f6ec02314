"""Names of files that run later, grant permissions or contain secrets, for file tools and the sandbox."""

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

# Changing these files always needs approval, as they run later, grant permissions or contain secrets.
# Everything below these directories: hooks and settings of git, makeroom, editors and CI; keys.
GUARDED_FOLDERS = word_set(
    ".git .makeroom .transcripts .task_outputs .claude .vscode .idea .fleet .zed .devcontainer .github"
    " .gitlab .circleci .husky .buildkite .ssh .aws .gnupg .kube .docker .cargo .direnv"
    " .cursor .windsurf .codex .gemini .agents"
)
GUARDED_CONFIG_FOLDERS = word_set("makeroom fish git systemd autostart gh nvim pip")  # directories in .config
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
MEMORY_NAMES = (
    "AGENTS.md",
    "CLAUDE.md",
)  # of memory files, which every session reads; the preferred one first
# Reading these needs approval: secrets, and other sessions. Other files are read all the time.
SECRET_FOLDERS = word_set(".makeroom .transcripts .ssh .aws .gnupg .kube .docker")
SECRET_CONFIG_FOLDERS = word_set("makeroom")
OWN_STATE_FOLDER = "makeroom"  # in .local/state: approvals and drafts
SECRET_FILES = word_set(
    ".netrc _netrc .git-credentials .npmrc .pypirc id_rsa id_ed25519 id_ecdsa id_dsa id_ecdsa_sk"
    " id_ed25519_sk .envrc .pgpass .my.cnf .mylogin.cnf .htpasswd .vault-token .s3cfg .boto"
    " .dockercfg .databrickscfg .dockerconfigjson application_default_credentials.json"
)
# In a home directory, in addition to SECRET_FOLDERS.
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
# Key stores, and files named after their contents.
SECRET_FORM = lazy_pattern(
    r".+\.(?:p12|pfx|ppk|kdbx|agekey)|(?:.+[-_.])?client_secrets?(?:[-_.].+)?\.json"
    r"|(?:secrets?|credentials?|.+[-_.]credentials)\.(?:ya?ml|json|toml)",
    re.DOTALL,
)
# Files that contain a private key, or public data: certificates, Keynote slides.
_MAYBE_KEY = lazy_pattern(
    r".+\.(?:pem|key|p8)|.*(?:service[-_]?account|adminsdk|gcp|gcloud|google).*\.json", re.DOTALL
)
_SECRET_ENDINGS = word_set("p12 pfx ppk kdbx agekey json yaml yml toml pem key p8")  # of the two forms above
_SAID_PUBLIC = lazy_pattern(r"cert|chain|bundle|pub|(?<![a-z])(?:ca|crt|root|dh|dhparams?)(?![a-z])")
# A key as text or in DER, and a file that consists of one long word.
_HELD_KEY = lazy_bytes_pattern(rb"BEGIN [A-Z0-9 ]*PRIVATE KEY|\A0[\x81\x82]|\A[!-~]{16,512}\s*\Z")
GITLINK = b"\0\0\xe0\0"  # the mode 0160000 in an index
_MAX_LOOKED_AT_BYTES = 64 * 1024


def is_protected(path: str, kind: Literal["read", "write"]) -> bool:
    """Return whether this use of a canonical path always needs approval.

    It is judged by name, in any letter case and in any part of the path, so that no alias of the file system
    escapes. The content of a file that may be a private key by its name is checked before it is read.
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
    """Return the same for all files in a directory, since searches check thousands of them."""
    parts = ["", *filter(None, path.split("/"))]
    return any(_guards(above, plain_name(name), kind) for above, name in pairwise(parts))


def _guards(above: str, name: str, kind: str) -> bool:
    """Return whether a plain name in the directory `above` is that of a directory with protected content."""
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
    """Return whether a file is named like a private key, and contains one."""
    if not _MAYBE_KEY.fullmatch(plain_name(path.rpartition("/")[2])):
        return False
    return _HELD_KEY.search(beginning(path)) is not None


def may_hold_secret(name: str) -> bool:
    """Return whether a plain name may be that of a secret, regardless of its directory."""
    if name.startswith(".env"):
        return ENV_FILE.fullmatch(name) is not None
    ending = name.rpartition(".")[2]  # decides for most of possibly thousands of names
    return ending in _SECRET_ENDINGS and any(form.fullmatch(name) for form in (SECRET_FORM, _MAYBE_KEY))


def sounds_secret(name: str) -> bool:
    """Return whether a file that cannot be read, as in another commit, may be a secret by its name."""
    found = plain_name(name)
    by_name = found in SECRET_FILES or any(form.fullmatch(found) for form in (ENV_FILE, SECRET_FORM))
    return by_name or (_MAYBE_KEY.fullmatch(found) is not None and not _SAID_PUBLIC.search(found))


def beginning(path: str, max_bytes: int = _MAX_LOOKED_AT_BYTES) -> bytes:
    """Return the first bytes of a file, as many as are checked; b"" if it is not a regular file."""
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
    """Return the paths of the other repositories in a git index (submodules), relative to the checkout.

    The format is gitformat-index(5), versions 2 to 4. Reading stops at invalid data.
    """
    if GITLINK not in data or data[:4] != b"DIRC":
        return
    version, count = (int.from_bytes(data[at : at + 4], "big") for at in (4, 8))
    at = 12
    path = b""
    with suppress(ValueError, IndexError):
        for _ in range(count):
            flags = at + 40 + hash_bytes
            length = (data[flags] & 0x0F) << 8 | data[flags + 1]  # as in git, a path need not end with a NUL
            start = flags + (4 if data[flags] & 0x40 else 2)
            kept = 0
            if version == 4:  # the path begins like the previous one without that many bytes
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
    """Return a name as the most tolerant file system treats it: case, width, ignorables, trailing dots."""
    if name.isascii():
        return name.lower().rstrip(". ") or name
    folded = unicodedata.normalize("NFKC", name).casefold()
    seen = "".join(char for char in folded if unicodedata.category(char) != "Cf")
    return seen.rstrip(". ") or name
