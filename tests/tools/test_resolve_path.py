"""Paths are judged by what they really name, and what was judged is what is opened."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

import pytest

from tests.narrowing import block_text, present
from tests.tables import each_row
from tools.base import ToolCall, ToolError
from tools.files import FileError
from tools.files.opening import safe_open
from tools.files.paths import canonical_path, expanded_path
from tools.files.writing import WriteRequest, atomic_write
from tools.guarded.names import is_protected

from .file_session import NOBODY, TOOLS, FileSession, child
from .tool_run import run_tool


@pytest.fixture
def files(tmp_path: Path) -> FileSession:
    (tmp_path / "app").mkdir()
    (tmp_path / "outside").mkdir()
    return FileSession(tmp_path / "app")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "outside"


@pytest.mark.parametrize("tool", ["read", "write", "edit"])
def test_a_link_to_a_file_outside_is_judged_by_its_target(files: FileSession, outside: Path, tool: str):
    secret = outside / "secret"
    secret.write_text("x")
    files.path("l").symlink_to(secret)
    access = files.judge(tool, "l")
    assert access.outside and access.target == str(secret)


def test_a_new_file_below_a_linked_directory_is_outside(files: FileSession, outside: Path):
    files.path("d").symlink_to(outside)
    access = files.judge("write", "d/deep/new")
    assert access.outside and access.target == str(outside / "deep/new")


def test_a_dangling_link_is_judged_by_where_it_would_create(files: FileSession, outside: Path):
    files.path("l").symlink_to(outside / "none")
    access = files.judge("write", "l")
    assert access.outside and access.target == str(outside / "none")
    assert files.path("l").is_symlink()


def test_a_loop_of_links_is_a_clear_error(files: FileSession):
    files.path("a").symlink_to("b")
    files.path("b").symlink_to("a")
    for tool, more in (("read", {}), ("write", {"content": "x"})):
        assert "symbolic links form a loop" in files.refused(tool, file_path="a/f", **more)


def test_a_prefix_sibling_is_outside(files: FileSession, tmp_path: Path):
    evil = tmp_path / "app-evil"
    evil.mkdir()
    (evil / "f").write_text("x")
    assert files.judge("read", str(evil / "f")).outside
    assert files.judge("read", "../app-evil/f").outside
    assert not files.judge("read", str(files.folder / "f")).outside


@pytest.mark.parametrize(
    ("text", "real"),
    [
        ("./a/../f", "app/f"),
        ("a//b/./f", "app/a/b/f"),
        ("f/.", "app/f"),
        ("./../f", "f"),
        ("a/../../f", "f"),
        ("sub/../../app/f", "app/f"),
        ("..", "."),
        ("//tmp/../etc/f", "/etc/f"),
    ],
)
def test_dots_and_slashes_are_resolved_first(files: FileSession, tmp_path: Path, text: str, real: str):
    wanted = real if real.startswith("/") else os.path.normpath(tmp_path.resolve() / real)
    access = files.judge("write", text)
    assert access.target == wanted
    assert access.outside == (not wanted.startswith(str(files.folder)))


def test_dots_after_a_link_leave_from_its_target(files: FileSession, outside: Path):
    (outside / "deep").mkdir()
    files.path("d").symlink_to(outside / "deep")
    assert files.judge("write", "d/../f").target == str(outside / "f")


def test_a_tilde_is_expanded_once_and_the_rest_is_literal(files: FileSession):
    home = files.context.environ["HOME"]
    assert files.judge("read", "~/f").target == f"{home}/f"
    assert files.judge("read", "a/~/f").target == f"{files.folder}/a/~/f"
    assert files.judge("read", "$HOME/f").target == f"{files.folder}/$HOME/f"
    assert files.judge("read", "~nobody-of-that-name/f").target == f"{files.folder}/~nobody-of-that-name/f"
    assert expanded_path("~root/f") == str(Path("~root/f").expanduser()) != "~root/f"
    assert "The path is empty." in files.refused("read", file_path=" ")
    given = TOOLS["read"].parse({"file_path": "~/f"})
    assert TOOLS["read"].title(given) == str(Path("~/f").expanduser())


@pytest.mark.skipif(not Path("/proc/self/root").exists(), reason="there is no /proc on this system")
def test_the_links_of_proc_are_seen_through_or_refused(files: FileSession, outside: Path):
    secret = outside / "secret"
    secret.write_text("x")
    assert files.judge("read", f"/proc/self/root{secret}").target == str(secret)
    assert files.judge("read", f"/proc/self/root{secret}").outside
    assert files.judge("read", "/proc/self/cwd/../f").target == os.path.normpath(f"{Path.cwd()}/../f")
    descriptor = os.open(secret, os.O_RDONLY)
    try:
        for path in (
            f"/dev/fd/{descriptor}",
            f"/proc/self/fd/{descriptor}",
            f"/proc/{os.getpid()}/fd/{descriptor}",
        ):
            assert "not a file on disk" in files.refused("read", file_path=path)
    finally:
        os.close(descriptor)


SWAP = """
import os, select, sys
folder, secret = sys.argv[1:]
os.chdir(folder)
while not select.select([0], [], [], 0)[0]:
    os.link("plain", "p.new")
    os.symlink(secret, "l.new")
    os.replace("l.new", "f")
    os.replace("p.new", "f")
"""
GIVEN = {
    "read": {},
    "write": {"content": "mine\n"},
    "edit": {"old_string": "plain", "new_string": "plain too"},
}


async def call_unless_outside(files: FileSession, name: str) -> bool:
    """Judge and run one call as the executor does; whether it was done."""
    arguments = TOOLS[name].parse({"file_path": "f", **GIVEN[name]})
    (access,) = TOOLS[name].access(arguments, files.context)
    if access.outside:  # the user would be asked
        return False
    try:
        result = await TOOLS[name].run(arguments, ToolCall(files.context))
    except (FileError, ToolError):
        return False
    assert "secret" not in block_text(result.content[0])
    return True


def flip(files: FileSession, outside: Path, rounds: int) -> None:
    """Call the tools while `f` is now a file of the project, now a link to one outside."""
    secret = outside / "secret"
    secret.write_text("secret\n")
    files.path("f").write_text("plain\n")
    files.path("plain").write_text("plain\n")  # by links: a fresh file put in place waits for the disk

    async def calls() -> list[bool]:
        names = ("read", "read", "edit", "write")
        return [await call_unless_outside(files, names[round % 4]) for round in range(rounds)]

    command = [sys.executable, "-c", SWAP, str(files.folder), str(secret)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as swapper:
        done = asyncio.run(calls())
        swapper.communicate(b"stop", timeout=60)
    assert swapper.returncode == 0
    assert secret.read_text() == "secret\n"
    assert any(done) and not all(done)


def test_a_file_swapped_for_a_link_never_leads_outside(files: FileSession, outside: Path):
    flip(files, outside, 300)


@pytest.mark.sweep
def test_a_file_swapped_for_a_link_ten_thousand_times(files: FileSession, outside: Path):
    flip(files, outside, 10_000)


def test_opening_refuses_links_in_any_part_and_takes_plain_paths(files: FileSession, outside: Path):
    (outside / "secret").write_text("x")
    files.put("a/b/f", b"inner")
    files.path("a/l").symlink_to(outside)
    files.path("a/inner").symlink_to("b")
    os.close(safe_open(str(files.path("a/b/f")), os.O_RDONLY))
    os.close(safe_open("/", os.O_RDONLY | os.O_DIRECTORY))
    for bad in ("a/l/secret", "a/l", "a/inner/f"):
        with pytest.raises(OSError):
            safe_open(str(files.path(bad)), os.O_RDONLY)
    journals = files.path("journals")
    for bad in ("a/l/made/f", "a/inner/made/f"):
        with pytest.raises(OSError):
            atomic_write(WriteRequest(str(files.path(bad)), b"x", None, journals))
    assert not (outside / "made").exists() and not files.path("a/b/made").exists()


def test_a_directory_that_may_not_be_read_is_passed_through(tmp_path: Path):
    """As a home of another user often is; root may read all, so this is another user's process."""
    folder = Path(tempfile.mkdtemp()).resolve()
    try:
        (folder / "inner").mkdir()
        (folder / "inner" / "f").write_text("x\n")
        folder.chmod(0o711)
        user = NOBODY if os.geteuid() == 0 else None
        out = child(f"print(files.do('read', file_path='{folder}/inner/f'))", folder / "inner", user)
    finally:
        shutil.rmtree(folder)
    assert out == "1\tx\n"


@pytest.mark.parametrize("tool", ["edit", "write"])
def test_what_was_approved_is_what_is_changed(files: FileSession, tool: str):
    files.seen("f", b"one\ntwo\n")
    given = {"file_path": "f"}
    given |= {"old_string": "two", "new_string": "2"} if tool == "edit" else {"content": "new\n"}
    arguments = TOOLS[tool].parse(given)
    shown = present(TOOLS[tool].preview)(arguments, files.context)
    assert "-two" in shown.diff
    files.put("f", b"ONE\ntwo\n")  # while the user reads
    with pytest.raises((FileError, ToolError), match="modified since read"):
        asyncio.run(run_tool(TOOLS[tool], arguments, ToolCall(files.context)))
    assert files.path("f").read_bytes() == b"ONE\ntwo\n"


def test_a_file_that_appears_during_the_approval_is_not_overwritten(files: FileSession):
    arguments = TOOLS["write"].parse({"file_path": "f", "content": "mine"})
    present(TOOLS["write"].preview)(arguments, files.context)
    files.put("f", b"theirs")
    with pytest.raises((FileError, ToolError), match="read"):
        asyncio.run(run_tool(TOOLS["write"], arguments, ToolCall(files.context)))
    assert files.path("f").read_bytes() == b"theirs"


def test_a_touch_is_not_a_change_and_a_change_is(files: FileSession):
    path = files.seen("f", b"one\ntwo\n")
    os.utime(path, (1, 1))
    files.edit("f", "two", "2")
    assert path.read_bytes() == b"one\n2\n"
    path.write_bytes(b"ONE\n2\n")
    assert "changed on disk" in files.edit("f", "2", "two")  # elsewhere: applied, and said
    path.write_bytes(b"ONE\n2\nthree\n")
    assert "changed on disk" in files.refused("edit", file_path="f", old_string="two", new_string="2")
    path.write_bytes(b"four\n")
    stale = files.refused("write", file_path="f", content="all new")
    assert stale.startswith("File has been modified since read, either by the user or by a linter.")
    assert path.read_bytes() == b"four\n"


def test_strange_names_are_shown_escaped(files: FileSession):
    for name in ("a\nb", "a\x1b[2Jb", "a\u202eb", "n" * 255):
        files.do("write", file_path=name, content="x")
        assert files.path(name).read_text() == "x"
        given = TOOLS["read"].parse({"file_path": name})
        title = TOOLS["read"].title(given)
        assert not any(char in title for char in "\n\x1b\u202e")
    assert "too long" in files.refused("write", file_path="n" * 256, content="x")
    assert "too long" in files.refused("read", file_path="d/" * 2100 + "f")


def test_a_NUL_byte_is_refused(files: FileSession):
    files.put("a", b"x")
    for tool, more in (("read", {}), ("write", {"content": "x"})):
        assert "NUL" in files.refused(tool, file_path="a\0b", **more)


@pytest.mark.parametrize("name", [".GIT/hooks/pre-commit", ".Git/config", ".Env", ".BashRC", ".MakeRoom/x"])
def test_protected_names_count_in_any_letter_case(files: FileSession, name: str):
    assert files.judge("write", name).protected


def test_protected_names_count_with_what_file_systems_ignore(files: FileSession):
    assert files.judge("write", ".g\u200cit/config").protected
    assert files.judge("write", ".git./config").protected
    assert files.judge("write", "\uff0egit/config").protected  # a full-width dot


def test_a_hard_link_to_a_file_with_secrets_is_protected_by_any_name(files: FileSession):
    os.link(files.put("apps/web/.env", b"A=b\n"), files.path("notes.txt"))
    os.link(files.put("plain", b"x"), files.path("twin"))
    for use in ("read", "write"):
        judged = {name: files.judge(use, name).protected for name in ("notes.txt", "twin", "plain")}
        assert judged == {"notes.txt": True, "twin": False, "plain": False}, use


def test_protected_places_are_known_by_any_alias(files: FileSession):
    hook = files.put(".git/hooks/pre-commit", b"#!/bin/sh\n")
    os.link(hook, files.path("hard"))
    files.path("soft").symlink_to(".git/hooks")
    for alias in (".git/hooks/pre-commit", "hard", "soft/pre-commit", "./x/../.git/hooks/new"):
        assert files.judge("write", alias).protected, alias
    files.put("plain", b"x")
    os.link(files.path("plain"), files.path("plain2"))
    assert not files.judge("write", "plain2").protected


@pytest.mark.parametrize(
    "name",
    [
        "~/.bashrc", "~/.zshrc", "~/.gitconfig", "~/.ssh/config", "~/.config/makeroom/settings.toml",
        ".makeroom/settings.toml", ".transcripts/1.jsonl", ".task_outputs/x", ".vscode/tasks.json",
        ".github/workflows/ci.yml", "Jenkinsfile", ".pre-commit-config.yaml", "sub/.git/config", ".env",
    ],
)  # fmt: skip
def test_what_runs_later_or_grants_rights_is_protected(files: FileSession, name: str):
    assert files.judge("write", name).protected


def test_what_hooks_lead_to_and_what_git_is_pointed_to_is_protected(files: FileSession):
    """As for sandboxed commands, except that memory files can be edited."""
    files.put(".git/config", b"[core]\nhooksPath = hooks\n")
    for name in (".git/hooks/pre-push", "scripts/hook.sh", "hooks/pre-push", "AGENTS.md"):
        files.put(name, b"")
    files.path(".git/hooks/pre-commit").symlink_to("../../scripts/hook.sh")
    files.path("CLAUDE.md").symlink_to("AGENTS.md")
    for name in (".git/hooks/pre-commit", "scripts/hook.sh", "hooks/pre-push", "hooks/new"):
        assert files.judge("write", name).protected, name
        assert not files.judge("read", name).protected, name
    for name in ("CLAUDE.md", "AGENTS.md", "scripts/other.sh"):
        assert not files.judge("write", name).protected, name


def test_what_is_missing_outside_is_known_but_not_among_secrets(files: FileSession, outside: Path):
    (outside / "there").touch()
    for path in (outside / "a", outside / "there/a", outside / "a/b/c"):
        assert files.judge("read", str(path)).missing, path
    home = outside / "home"
    files.context.environ = {"HOME": str(home)}
    for name in ("there", "home/.ssh/a", "home/.config/gh/a", ".env"):
        assert not files.judge("read", str(outside / name)).missing, name
    assert not files.judge("write", str(outside / "a")).missing


def test_everyday_files_are_not_protected(files: FileSession):
    for name in ("src/a.py", ".gitignore", ".env.example", "github/x", "README.md", "tests/.hidden"):
        assert not files.judge("write", name).protected, name
    for name in (".task_outputs/tool-results/1.txt", ".git/HEAD", ".github/workflows/ci.yml"):
        assert not files.judge("read", name).protected, name
    for name in (".transcripts/1.jsonl", ".env", "~/.ssh/id_rsa"):
        assert files.judge("read", name).protected, name


def test_the_settings_are_protected_wherever_the_environment_puts_them(files: FileSession, outside: Path):
    files.context.environ = {**files.context.environ, "XDG_CONFIG_HOME": str(outside)}
    assert files.judge("write", str(outside / "makeroom/settings.toml")).protected


def test_what_was_approved_is_protected_wherever_the_environment_puts_it(files: FileSession, outside: Path):
    assert files.judge("write", "~/.local/state/makeroom/approvals.json").protected
    files.context.environ = {**files.context.environ, "XDG_STATE_HOME": str(outside)}
    assert files.judge("write", str(outside / "makeroom/approvals.json")).protected


def test_a_leading_at_sign_is_a_mention(files: FileSession):
    files.put("src/a.py", b"x\n")
    assert files.judge("read", "@src/a.py").target == str(files.path("src/a.py"))
    files.put("@types/a.ts", b"y\n")
    assert files.judge("read", "@types/a.ts").target == str(files.path("@types/a.ts"))


def test_relative_paths_are_of_the_project_wherever_commands_run(files: FileSession):
    for name in ("sub/here.py", "both.py", "sub/both.py"):
        files.put(name, name.encode())
    files.context.cwd = files.folder / "sub"
    assert files.do("read", file_path="both.py").endswith("1\tboth.py")
    assert "sub/here.py" in files.do("read", file_path="sub/here.py")
    assert "Did you mean sub/here.py?" in files.refused("read", file_path="here.py")
    assert files.edit("sub/here.py", "here", "there").startswith("The file sub/here.py has been updated")
    assert "at: new.py (" in files.do("write", file_path="new.py", content="x")
    assert (files.path("sub/new.py").exists(), files.path("new.py").exists()) == (False, True)


def test_only_a_similar_name_is_suggested(files: FileSession):
    files.put("image.txt", b"x")
    assert "Did you mean" not in files.refused("read", file_path="missing.txt")
    assert "Did you mean image.txt" in files.refused("read", file_path="imgae.txt")
    assert "Did you mean image.txt" in files.refused("read", file_path="IMAGE.md")


def test_names_that_look_the_same_are_found(files: FileSession):
    files.put("Cafe\u0301/Shot 3.04\u202fPM.txt", b"x\n")
    assert "1\tx" in files.do("read", file_path="Caf\u00e9/Shot 3.04 PM.txt")
    files.put("it\u2019s.txt", b"y\n")
    assert "1\ty" in files.do("read", file_path="it's.txt")


def test_a_missing_file_names_what_may_have_been_meant(files: FileSession):
    files.put("src/parser.py", b"x\n")
    files.put("README.md", b"x\n")
    assert "src/parser.py" in files.refused("read", file_path="src/praser.py")
    assert "README.md" in files.refused("read", file_path="docs/README.md")
    assert "src/parser.py" in files.refused("read", file_path="src/Parser.js")
    assert "Check the path" in files.refused("read", file_path="zzz/qqq")
    for wrong in ("parser.py", "lib/Parser.py", "src/parser.py:12", "src/parser.py#L3-9", "'src/parser.py' "):
        assert "Did you mean src/parser.py?" in files.refused("read", file_path=wrong)
    files.put("src/parser.pyc", b"x\n")
    assert "Did you mean src/parser.py or" in files.refused("read", file_path="src/PARSER.py")
    assert "glob finds" in files.refused("read", file_path="src/*.py")
    files.put("src/bad\udce9name.txt", b"x")  # a byte that no path of a call can hold
    assert "Did you mean" not in files.refused("read", file_path="src/bad\ufffdname.txt")
    assert "a URL, not a path" in files.refused("write", file_path="https://a.example/b", content="x")
    assert "1\tx" in files.do("read", file_path=f"file://{files.path('README.md')}")


def test_canonical_paths_stay_unchanged(tmp_path: Path):
    real = str(tmp_path.resolve() / "x/y")
    assert canonical_path(real) == real
    assert canonical_path("/") == "/"


GUARDED_FOLDERS = (
    ".git .makeroom .transcripts .task_outputs .claude .vscode .idea .fleet .zed .devcontainer .github"
    " .gitlab .circleci .husky .buildkite .ssh .aws .gnupg .kube .docker .cargo .direnv .config/makeroom"
    " .config/fish .config/git .config/systemd .config/autostart .config/gh .config/nvim .config/pip"
    " .cursor .windsurf .codex .gemini .agents .kiro .opencode .roo .hg .jj .mise .config/mise"
)
GUARDED_FILES = (
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin"
    " .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .xprofile .xinitrc .xsession"
    " .pam_environment .gitconfig .gitmodules .git-credentials .npmrc .yarnrc .yarnrc.yml .pypirc .netrc"
    " .curlrc .wgetrc .envrc .vimrc .exrc .nvimrc .emacs .tmux.conf .screenrc .gdbinit .lldbinit .ripgreprc"
    " .editorconfig .pre-commit-config.yaml .lefthook.yml lefthook.yml .gitlab-ci.yml .travis.yml Jenkinsfile"
    " .mcp.json azure-pipelines.yml bitbucket-pipelines.yml appveyor.yml .appveyor.yml .drone.yml .cirrus.yml"
    " authorized_keys crontab sudoers .env .env.local .mise.toml mise.toml .nvim.lua .lvimrc .woodpecker.yml"
    " .bazelrc .Rprofile .pdbrc .pnp.cjs .pnp.loader.mjs sitecustomize.py usercustomize.py"
    " .devcontainer.json .hgrc .irbrc .pryrc .iex.exs .ghci .dir-locals.el .mise.local.toml mise.local.toml"
    " .lefthook.yaml lefthook.yaml .pnpmfile.cjs .aider.conf.yml opencode.json"
)
SECRET_FOLDERS = ".makeroom .transcripts .ssh .aws .gnupg .kube .docker .config/makeroom"
SECRET_FILES = ".netrc .git-credentials .npmrc .pypirc id_rsa id_ed25519 id_ecdsa id_dsa .env .env.local"


def test_each_place_that_steers_programs_or_holds_secrets_is_protected():
    def unguarded(names: str, form: str, kind: Literal["read", "write"]) -> list[str]:
        return [name for name in names.split() if not is_protected(form.format(name), kind)]

    assert unguarded(GUARDED_FOLDERS, "/w/{}/x", "write") == unguarded(GUARDED_FILES, "/w/{}", "write") == []
    assert unguarded(SECRET_FOLDERS, "/w/{}/x", "read") == unguarded(SECRET_FILES, "/w/{}", "read") == []
    everyday = ".env.example .env.sample .env.template .env.dist .env.defaults git config x.yml .config/x"
    assert unguarded(everyday, "/w/{}", "write") == unguarded(everyday, "/w/{}", "read") == everyday.split()
    assert unguarded(".bashrc .github/x .git/config", "/w/{}", "read") == [
        ".bashrc",
        ".github/x",
        ".git/config",
    ]


_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n"
_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIE\n"


@each_row(
    ("name", "text", "is_secret"),
    [
        ("server.pem", f"{_CERTIFICATE}{_KEY}", True),
        ("SERVER.PEM", _KEY, True),
        ("deploy.key", "-----BEGIN OPENSSH PRIVATE KEY-----\n", True),
        ("master.key", "0123456789abcdef0123456789abcdef\n", True),
        ("AuthKey_1.p8", "-----BEGIN PRIVATE KEY-----\n", True),
        ("my-service-account.json", '{"private_key": "-----BEGIN PRIVATE KEY-----"}', True),
        ("cacert.pem", _CERTIFICATE, False),
        ("fullchain.pem", _CERTIFICATE, False),
        ("id.pub.pem", "-----BEGIN PUBLIC KEY-----\n", False),
        ("slides.key", "PK\x03\x04 a presentation", False),
        ("words.key", "one word\nand another\n", False),
        ("service_account.json", '{"about": "a form"}', False),
    ],
)
def test_a_file_with_a_private_key_is_secret_and_a_certificate_is_not(
    tmp_path: Path, name: str, text: str, is_secret: bool
) -> None:
    (tmp_path / name).write_text(text)
    assert is_protected(f"{tmp_path}/{name}", "read") is is_secret


def test_files_are_secret_by_what_users_name_them_for():
    named = (
        ".envrc .pgpass .my.cnf .htpasswd _netrc .vault-token credentials.json aws-credentials.yml"
        " secrets.yml secret.toml client_secret_12.apps.example.json key.p12 cert.pfx a.ppk me.kdbx"
    )
    everyday = (
        "credentials.py secrets.py secret_forms.py en.key.json api.key.yml credentials.yml.enc secrets.md"
        " id_rsa.pub a.crt a.cer keys.json sealed-secrets.yaml external_secrets.yml key.pem.txt .key .pem"
    )
    assert [name for name in named.split() if not is_protected(f"/w/{name}", "read")] == []
    assert [name for name in everyday.split() if is_protected(f"/w/{name}", "read")] == []
