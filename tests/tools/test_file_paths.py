"""Paths are judged by what they really name, and what was judged is what is opened (P1 to P15)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.arguments import parse
from tools.base import ToolCall, ToolError
from tools.paths import canonical, expand
from tools.safe_open import safe_open, walk_open

from .desk import TOOLS, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "app").mkdir()
    (tmp_path / "outside").mkdir()
    return Desk(tmp_path / "app")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "outside"


@pytest.mark.parametrize("tool", ["read", "write", "edit"])
def test_P1_a_link_to_a_file_outside_is_judged_by_its_target(desk: Desk, outside: Path, tool: str):
    secret = outside / "secret"
    secret.write_text("x")
    desk.path("l").symlink_to(secret)
    touch = desk.judge(tool, "l")
    assert touch.outside and touch.target == str(secret)


def test_P2_a_new_file_below_a_linked_folder_is_outside(desk: Desk, outside: Path):
    desk.path("d").symlink_to(outside)
    touch = desk.judge("write", "d/deep/new")
    assert touch.outside and touch.target == str(outside / "deep/new")


def test_P3_a_dangling_link_is_judged_by_where_it_would_create(desk: Desk, outside: Path):
    desk.path("l").symlink_to(outside / "none")
    touch = desk.judge("write", "l")
    assert touch.outside and touch.target == str(outside / "none")
    assert desk.path("l").is_symlink()


def test_P4_a_loop_of_links_is_a_clear_error(desk: Desk):
    desk.path("a").symlink_to("b")
    desk.path("b").symlink_to("a")
    for tool, more in (("read", {}), ("write", {"content": "x"})):
        assert "circle" in desk.refused(tool, file_path="a/f", **more)


def test_P5_a_prefix_sibling_is_outside(desk: Desk, tmp_path: Path):
    evil = tmp_path / "app-evil"
    evil.mkdir()
    (evil / "f").write_text("x")
    assert desk.judge("read", str(evil / "f")).outside
    assert desk.judge("read", "../app-evil/f").outside
    assert not desk.judge("read", str(desk.folder / "f")).outside


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
def test_P6_dots_and_slashes_are_resolved_before_the_rule(desk: Desk, tmp_path: Path, text: str, real: str):
    wanted = real if real.startswith("/") else os.path.normpath(tmp_path.resolve() / real)
    touch = desk.judge("write", text)
    assert touch.target == wanted
    assert touch.outside == (not wanted.startswith(str(desk.folder)))


def test_P6_dots_after_a_link_leave_from_its_target(desk: Desk, outside: Path):
    (outside / "deep").mkdir()
    desk.path("d").symlink_to(outside / "deep")
    assert desk.judge("write", "d/../f").target == str(outside / "f")


def test_P7_a_tilde_is_expanded_once_and_the_rest_is_literal(desk: Desk):
    home = desk.context.environ["HOME"]
    assert desk.judge("read", "~/f").target == f"{home}/f"
    assert desk.judge("read", "a/~/f").target == f"{desk.folder}/a/~/f"
    assert desk.judge("read", "$HOME/f").target == f"{desk.folder}/$HOME/f"
    assert desk.judge("read", "~nobody-of-that-name/f").target == f"{desk.folder}/~nobody-of-that-name/f"
    assert expand("~root/f") == str(Path("~root/f").expanduser()) != "~root/f"
    given = parse(TOOLS["read"], {"file_path": "~/f"})
    assert TOOLS["read"].title(given) == str(Path("~/f").expanduser())


@pytest.mark.skipif(not Path("/proc/self/root").exists(), reason="there is no /proc on this system")
def test_P8_the_links_of_proc_are_seen_through_or_refused(desk: Desk, outside: Path):
    secret = outside / "secret"
    secret.write_text("x")
    assert desk.judge("read", f"/proc/self/root{secret}").target == str(secret)
    assert desk.judge("read", f"/proc/self/root{secret}").outside
    assert desk.judge("read", "/proc/self/cwd/../f").target == os.path.normpath(f"{Path.cwd()}/../f")
    descriptor = os.open(secret, os.O_RDONLY)
    try:
        for path in (
            f"/dev/fd/{descriptor}",
            f"/proc/self/fd/{descriptor}",
            f"/proc/{os.getpid()}/fd/{descriptor}",
        ):
            assert "not a file on disk" in desk.refused("read", file_path=path)
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


async def call_unless_outside(desk: Desk, name: str) -> bool:
    """Judge and run one call as the corridor does; whether it was done."""
    arguments = parse(TOOLS[name], {"file_path": "f", **GIVEN[name]})
    (touch,) = TOOLS[name].touches(arguments, desk.context)
    if touch.outside:  # the person would be asked
        return False
    try:
        outcome = await TOOLS[name].run(arguments, ToolCall(desk.context))
    except ToolError:
        return False
    assert "secret" not in outcome.content[0].text
    return True


def flip(desk: Desk, outside: Path, rounds: int) -> None:
    """Call the tools while `f` is now a file of the project, now a link to one outside."""
    secret = outside / "secret"
    secret.write_text("secret\n")
    desk.path("f").write_text("plain\n")
    desk.path("plain").write_text("plain\n")  # by links: a fresh file put in place waits for the disk

    async def calls() -> list[bool]:
        names = ("read", "read", "edit", "write")
        return [await call_unless_outside(desk, names[round % 4]) for round in range(rounds)]

    command = [sys.executable, "-c", SWAP, str(desk.folder), str(secret)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as swapper:
        done = asyncio.run(calls())
        swapper.communicate(b"stop", timeout=60)
    assert swapper.returncode == 0
    assert secret.read_text() == "secret\n"
    assert any(done) and not all(done)


def test_P9_a_file_swapped_for_a_link_leads_nobody_outside(desk: Desk, outside: Path):
    flip(desk, outside, 2_000)


@pytest.mark.sweep
def test_P9_a_file_swapped_for_a_link_ten_thousand_times(desk: Desk, outside: Path):
    flip(desk, outside, 10_000)


def test_P9_both_ways_of_opening_refuse_links_and_take_plain_paths(desk: Desk, outside: Path):
    (outside / "secret").write_text("x")
    desk.put("a/b/f", b"inner")
    desk.path("a/l").symlink_to(outside)
    desk.path("a/inner").symlink_to("b")
    base = os.open("/", os.O_RDONLY)
    try:
        for opener in (safe_open, lambda path, flags: walk_open(base, path, flags, 0)):
            os.close(opener(str(desk.path("a/b/f")), os.O_RDONLY))
            for bad in ("a/l/secret", "a/l", "a/inner/f"):
                with pytest.raises(OSError):
                    opener(str(desk.path(bad)), os.O_RDONLY)
    finally:
        os.close(base)


@pytest.mark.parametrize("tool", ["edit", "write"])
def test_P10_what_was_approved_is_what_is_changed(desk: Desk, tool: str):
    desk.seen("f", b"one\ntwo\n")
    given = {"file_path": "f"}
    given |= {"old_string": "two", "new_string": "2"} if tool == "edit" else {"content": "new\n"}
    arguments = parse(TOOLS[tool], given)
    shown = TOOLS[tool].preview(arguments, desk.context)
    assert "-two" in shown["diff"]
    desk.put("f", b"ONE\ntwo\n")  # while the person reads
    with pytest.raises(ToolError, match="modified since read"):
        asyncio.run(TOOLS[tool].run(arguments, ToolCall(desk.context)))
    assert desk.path("f").read_bytes() == b"ONE\ntwo\n"


def test_P10_a_file_that_appears_during_the_approval_is_not_overwritten(desk: Desk):
    arguments = parse(TOOLS["write"], {"file_path": "f", "content": "mine"})
    TOOLS["write"].preview(arguments, desk.context)
    desk.put("f", b"theirs")
    with pytest.raises(ToolError, match="read"):
        asyncio.run(TOOLS["write"].run(arguments, ToolCall(desk.context)))
    assert desk.path("f").read_bytes() == b"theirs"


def test_P11_a_touch_is_no_change_and_a_change_is(desk: Desk):
    path = desk.seen("f", b"one\ntwo\n")
    os.utime(path, (1, 1))
    desk.edit("f", "two", "2")
    assert path.read_bytes() == b"one\n2\n"
    path.write_bytes(b"ONE\n2\n")
    assert "changed on disk" in desk.edit("f", "2", "two")  # elsewhere: applied, and said
    path.write_bytes(b"ONE\n2\nthree\n")
    assert "changed on disk" in desk.refused("edit", file_path="f", old_string="two", new_string="2")
    path.write_bytes(b"four\n")
    stale = desk.refused("write", file_path="f", content="all new")
    assert stale.startswith("File has been modified since read, either by the user or by a linter.")
    assert path.read_bytes() == b"four\n"


def test_P12_strange_names_are_shown_escaped(desk: Desk):
    for name in ("a\nb", "a\x1b[2Jb", "a\u202eb", "n" * 255):
        desk.do("write", file_path=name, content="x")
        assert desk.path(name).read_text() == "x"
        given = parse(TOOLS["read"], {"file_path": name})
        title = TOOLS["read"].title(given)
        assert not any(char in title for char in "\n\x1b\u202e")
    assert "too long" in desk.refused("write", file_path="n" * 256, content="x")
    assert "too long" in desk.refused("read", file_path="d/" * 2100 + "f")


def test_P13_a_NUL_byte_is_refused(desk: Desk):
    desk.put("a", b"x")
    for tool, more in (("read", {}), ("write", {"content": "x"})):
        assert "NUL" in desk.refused(tool, file_path="a\0b", **more)


@pytest.mark.parametrize("name", [".GIT/hooks/pre-commit", ".Git/config", ".Env", ".BashRC", ".MakeRoom/x"])
def test_P14_protected_names_count_in_any_letter_case(desk: Desk, name: str):
    assert desk.judge("write", name).protected


def test_P14_protected_names_count_with_what_file_systems_ignore(desk: Desk):
    assert desk.judge("write", ".g\u200cit/config").protected
    assert desk.judge("write", ".git./config").protected
    assert desk.judge("write", "\uff0egit/config").protected  # a full-width dot


def test_P15_protected_places_are_known_by_any_alias(desk: Desk):
    hook = desk.put(".git/hooks/pre-commit", b"#!/bin/sh\n")
    os.link(hook, desk.path("hard"))
    desk.path("soft").symlink_to(".git/hooks")
    for alias in (".git/hooks/pre-commit", "hard", "soft/pre-commit", "./x/../.git/hooks/new"):
        assert desk.judge("write", alias).protected, alias
    desk.put("plain", b"x")
    os.link(desk.path("plain"), desk.path("plain2"))
    assert not desk.judge("write", "plain2").protected


@pytest.mark.parametrize(
    "name",
    [
        "~/.bashrc", "~/.zshrc", "~/.gitconfig", "~/.ssh/config", "~/.config/makeroom/settings.toml",
        ".makeroom/settings.toml", ".transcripts/1.jsonl", ".task_outputs/x", ".vscode/tasks.json",
        ".github/workflows/ci.yml", "Jenkinsfile", ".pre-commit-config.yaml", "sub/.git/config", ".env",
    ],
)  # fmt: skip
def test_P15_what_runs_later_or_grants_rights_is_protected(desk: Desk, name: str):
    assert desk.judge("write", name).protected


def test_P15_everyday_files_are_not_protected(desk: Desk):
    for name in ("src/a.py", ".gitignore", ".env.example", "github/x", "README.md", "tests/.hidden"):
        assert not desk.judge("write", name).protected, name
    for name in (".task_outputs/tool-results/1.txt", ".git/HEAD", ".github/workflows/ci.yml"):
        assert not desk.judge("read", name).protected, name
    for name in (".transcripts/1.jsonl", ".env", "~/.ssh/id_rsa"):
        assert desk.judge("read", name).protected, name


def test_the_settings_are_protected_wherever_the_environment_puts_them(desk: Desk, outside: Path):
    desk.context.environ = {**desk.context.environ, "XDG_CONFIG_HOME": str(outside)}
    assert desk.judge("write", str(outside / "makeroom/settings.toml")).protected


def test_a_leading_at_sign_is_a_mention(desk: Desk):
    desk.put("src/a.py", b"x\n")
    assert desk.judge("read", "@src/a.py").target == str(desk.path("src/a.py"))
    desk.put("@types/a.ts", b"y\n")
    assert desk.judge("read", "@types/a.ts").target == str(desk.path("@types/a.ts"))


def test_names_that_look_the_same_are_found(desk: Desk):
    desk.put("Cafe\u0301/Shot 3.04\u202fPM.txt", b"x\n")
    assert "1\tx" in desk.do("read", file_path="Caf\u00e9/Shot 3.04 PM.txt")
    desk.put("it\u2019s.txt", b"y\n")
    assert "1\ty" in desk.do("read", file_path="it's.txt")


def test_a_missing_file_names_what_may_have_been_meant(desk: Desk):
    desk.put("src/parser.py", b"x\n")
    desk.put("README.md", b"x\n")
    assert "src/parser.py" in desk.refused("read", file_path="src/praser.py")
    assert "README.md" in desk.refused("read", file_path="docs/README.md")
    assert "src/parser.py" in desk.refused("read", file_path="src/Parser.js")
    assert "Check the path" in desk.refused("read", file_path="zzz/qqq")


def test_canonical_paths_stay_as_they_are(tmp_path: Path):
    real = str(tmp_path.resolve() / "x/y")
    assert canonical(real) == real
    assert canonical("/") == "/"
