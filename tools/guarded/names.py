"""Names of files that run later, grant permissions or contain secrets, for file tools and the sandbox."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Literal

from tools.text import word_set

from .secret_names import ENV_FILE, is_secret_file, plain_name

# Changing these files always needs approval, as they run later, grant permissions or contain secrets.
# Everything below these directories: hooks and settings of git, makeroom, editors and CI; keys.
GUARDED_FOLDERS = word_set(
    ".git .makeroom .transcripts .task_outputs .claude .vscode .idea .fleet .zed .devcontainer .github"
    " .gitlab .circleci .husky .buildkite .ssh .aws .gnupg .kube .docker .cargo .direnv"
    " .cursor .windsurf .codex .gemini .agents .kiro .opencode .roo .hg .jj .mise"
)
GUARDED_CONFIG_FOLDERS = word_set(
    "makeroom fish git systemd autostart gh nvim pip mise hg jj"
)  # directories in .config
GUARDED_FILES = word_set(
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin"
    " .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .xprofile .xinitrc .xsession"
    " .pam_environment .gitconfig .gitmodules .git-credentials .npmrc .yarnrc .yarnrc.yml .pypirc .netrc"
    " .curlrc .wgetrc .envrc .vimrc .exrc .nvimrc .emacs .tmux.conf .screenrc .gdbinit .lldbinit .ripgreprc"
    " .editorconfig .pre-commit-config.yaml .lefthook.yml lefthook.yml .gitlab-ci.yml .travis.yml jenkinsfile"
    " .mcp.json azure-pipelines.yml bitbucket-pipelines.yml appveyor.yml .appveyor.yml .drone.yml .cirrus.yml"
    " authorized_keys crontab sudoers .mise.toml mise.toml .nvim.lua .lvimrc .woodpecker.yml"
    " .bazelrc .rprofile .pdbrc .pnp.cjs .pnp.loader.mjs sitecustomize.py usercustomize.py"
    " .devcontainer.json .hgrc .irbrc .pryrc .iex.exs .ghci .dir-locals.el .mise.local.toml mise.local.toml"
    " .lefthook.yaml lefthook.yaml .lefthook-local.yml lefthook-local.yml .pnpmfile.cjs .aider.conf.yml"
    " opencode.json"
)
# Of memory files, which every session reads; the preferred one first, and the user's own in a checkout.
MEMORY_NAMES = ("AGENTS.md", "CLAUDE.md")
LOCAL_MEMORY_NAME = "CLAUDE.local.md"
# Reading these needs approval: secrets, and other sessions. Other files are read all the time.
SECRET_FOLDERS = word_set(".makeroom .transcripts .ssh .aws .gnupg .kube .docker")
SECRET_CONFIG_FOLDERS = word_set("makeroom")
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
    ".claude.json",  # logins, and the environment of MCP servers
    ".claude.json.backup",
    ".codex",
    ".gemini",
]
# In a git directory: files that name or are programs, or that refer git to another configuration.
GIT_STEERING = ("hooks", "config", "config.worktree", "info/attributes", "commondir")
# The same in directories of Mercurial and Jujutsu, whose other files commands write.
OTHERS_STEERING = {
    ".hg": ("hgrc", "hgrc-not-shared", "requires", "sharedpath"),
    ".jj": ("repo/config.toml", "workspace-config.toml", "repo/store/git/config", "repo/store/git/hooks"),
}
WORKTREES = "/.makeroom/worktrees/"  # contains checkouts of the project, which are projects themselves


def is_protected(path: str, kind: Literal["read", "write"]) -> bool:
    """Return whether this use of a canonical path always needs approval.

    It is judged by name, in any letter case and in any part of the path, so that no alias of the file system
    escapes. The content of a file that may be a private key by its name is checked before it is read.
    """
    path = path.rstrip("/") if "//" not in path else "/".join(filter(None, path.split("/")))
    if not path:
        return False
    above, _, last = path.rpartition("/")
    if _is_guarded_folder(f"{above}/".replace(WORKTREES, "/worktrees/"), kind):
        return True
    name = plain_name(last)
    if _guards(above.rpartition("/")[2], name, kind):
        return True
    if kind == "write":
        return name in GUARDED_FILES or ENV_FILE.fullmatch(name) is not None
    return is_secret_file(path, name)


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
    return (above == ".config" and name in settings) or (above == "state" and name == "makeroom")
