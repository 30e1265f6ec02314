"""Directories that are not projects are read-only until the user decides otherwise."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from agent.app.config import Config
from agent.app.options import Options
from agent.app.permission_loading import permission_store
from agent.app.project_place import ask_for_folder_access
from agent.app.setup import RunSetup
from agent.app.unusual_places import check_folder, ignores_case, is_on_network, why_no_project
from agent.cli.launch import require_access, run_setup
from agent.errors import ChoiceCancelled, ConfigError, UsageError
from agent.events import Event, Notice
from agent.permissions import judge_call
from tests.agent.commands.controller_run import ScriptedChooser
from tests.agent.ui.headless_run import run_here
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server
from tests.tables import each_row
from tools.base import Access
from tools.files.write_recovery import recover


def setup_at(folder: Path, home: Path, **options: object) -> RunSetup:
    config = Config(state_dir=home / "state", user_dir=home / "config")
    setup = RunSetup(Options(**options), config, folder, {"HOME": str(home)})  # type: ignore[arg-type]
    return check_folder(setup)


def settled(setup: RunSetup, *answers: str, attended: bool = True) -> tuple[RunSetup, str]:
    """Return the setup after the question, and the notices; every answer has to be asked for."""
    told: list[Event] = []
    chooser = ScriptedChooser(*answers)
    done = asyncio.run(ask_for_folder_access(setup, chooser if attended else None, told.append))
    assert chooser.values == []
    return done, "\n".join(event.text for event in told if isinstance(event, Notice))


@each_row(
    ("folder", "reason"),
    [
        ("/", "the root directory"),
        ("/home", "a directory of home directories"),
        ("/srv", "a directory of home directories"),
        ("/srv/people/ann", "your home directory"),
        ("/elsewhere/home", "your home directory"),
        ("/elsewhere", ""),
        ("/srv/people/ann/app", ""),
    ],
)
def test_homes_and_their_parents_are_not_projects(folder: str, reason: str) -> None:
    """The parent of a home that only HOME names may be a project."""
    environ = {"HOME": "/elsewhere/home"}
    assert why_no_project(Path(folder), environ, Path("/srv/people/ann")) == reason


def as_another_user(work: Callable[[], str]) -> str:
    """Return the result of a function that another user calls."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setresuid(54321, 54321, 54321)
            os.write(writer, work().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as file:  # noqa: PTH123
        result = file.read()
    os.waitpid(child, 0)
    return result


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@needs_root
def test_a_directory_of_another_user_is_not_a_project() -> None:
    with TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        os.chown(folder, 12345, 12345)
        folder.chmod(0o777)
        environ = {"HOME": "/elsewhere"}
        assert as_another_user(lambda: why_no_project(folder, environ, Path("/elsewhere"))) == (
            "a directory of another user"
        )
        assert why_no_project(folder, environ, Path("/elsewhere")) == ""  # for root


def test_a_current_directory_that_was_removed_is_an_error_that_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UsageError, match=r"No such file or directory; choose another with -C$"):
        run_setup(Options(prompt="x", headless=True))


@needs_root
def test_a_state_directory_of_another_user_is_an_error_that_names_the_remedy() -> None:
    """As after a run with sudo that kept HOME."""
    with TemporaryDirectory(dir="/tmp") as name:
        state = Path(name, "makeroom")
        state.mkdir(0o700)
        Path(name).chmod(0o755)

        def use() -> str:
            assert recover(state / "journals") == []
            require_access(Path(name, "none", "makeroom"))  # one that does not exist is created later
            try:
                require_access(state)
            except ConfigError as error:
                return str(error)
            return "no error"

        assert as_another_user(use) == (
            f"cannot use {state}: Permission denied; change the owner of the directory, or set XDG_STATE_HOME"
            " to another one"
        )


@each_row(
    ("folder", "is_remote"),
    [("/net/my share/app", True), ("/net/my share/local", False), ("/net/my", False), ("/mnt/ssh", True)],
)
def test_network_mounts_are_recognized_by_their_type(folder: str, is_remote: bool) -> None:
    mounts = (
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "30 22 0:40 / /net/my\\040share rw shared:2 - nfs4 server:/x rw\n"
        "31 30 8:2 / /net/my\\040share/local rw - xfs /dev/sdb rw\n"
        "32 22 0:41 / /mnt/ssh rw shared:3 - fuse.sshfs me@host: rw\n"
    )
    assert is_on_network(Path(folder), mounts) == is_remote


def test_a_home_is_read_only_unless_the_user_decides_otherwise_once(tmp_path: Path) -> None:
    setup = setup_at(tmp_path, tmp_path, permission_mode="acceptEdits")
    held, text = settled(setup, "nothing")
    assert "is your home directory, not a project; it is read-only for commands" in text
    assert permission_store(held).sandbox.project == "read-only"
    edit = [Access("write", str(tmp_path / "a"))]
    assert judge_call("edit", edit, permission_store(held).rules).answer == "ask"
    opened, _ = settled(setup, "all")
    assert permission_store(opened).sandbox.project == "writable"
    assert judge_call("edit", edit, permission_store(opened).rules).answer == "allow"
    assert settled(setup) == (opened, "")  # it is remembered


def test_no_answer_leaves_it_read_only_and_the_user_may_quit(tmp_path: Path) -> None:
    setup = setup_at(tmp_path, tmp_path)
    assert settled(setup, "")[0].why_no_project
    with pytest.raises(ChoiceCancelled, match="start makeroom in a project directory"):
        settled(setup, "quit")


def test_a_script_is_told_that_its_directory_is_read_only(tmp_path: Path) -> None:
    held, text = settled(setup_at(tmp_path, tmp_path), attended=False)
    assert held.why_no_project and text.endswith(
        "Start makeroom in a project directory, or run it here in a terminal to decide."
    )


def test_a_project_is_not_asked_about(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    setup = setup_at(tmp_path / "app", tmp_path)
    assert settled(setup) == (setup, "")
    assert permission_store(setup).sandbox.project == "writable"


@needs_root
def test_where_sessions_cannot_be_stored_there_is_one_sentence() -> None:
    def start() -> str:
        try:
            return setup_at(Path("/"), Path("/elsewhere")).why_no_project
        except UsageError as error:
            return str(error)

    told = "cannot store sessions in /, which is the root directory; start in a project or use -C"
    assert as_another_user(start) == told


def test_a_script_in_a_home_cannot_change_the_files_of_other_programs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line = "mkdir -p .local/bin; echo evil >.zshenv; echo evil >.local/bin/git"
    model = ScriptedModel([Reply((calls("bash", command=line),)), "done"])
    with Server(model) as server:
        ended = run_here(tmp_path, capfd, server, "go", HOME=str(tmp_path))
    assert "is your home directory" in ended.stderr
    assert not (tmp_path / ".zshenv").exists() and not (tmp_path / ".local/bin").exists()


@each_row(
    ("kind", "names", "is_found"),
    [
        ("fuse.fat", ["1", "b"], True),
        ("9p", ["1", "b"], True),
        ("fuse.fat", ["1", "b", "B"], False),  # both are files of their own
        ("fuse.fat", ["1", "c"], False),
        ("fuse.fat", ["1"], False),
        ("ext4", ["1", "b"], False),  # the kernel ignores case there, if at all
    ],
)
def test_a_file_that_is_found_under_another_spelling_shows_that_case_is_ignored(
    tmp_path: Path, kind: str, names: list[str], is_found: bool
) -> None:
    (tmp_path / "B").touch()
    assert ignores_case(tmp_path, f"22 1 8:1 / / rw - {kind} /dev/x rw\n", lambda: names) == is_found


def test_where_a_mount_covers_only_one_name_of_a_file_commands_are_asked_about(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    (folder / ".env").write_text("A=b\n")
    for has_other_spellings, expected in ((False, "allow"), (True, "ask")):
        setup = replace(setup_at(folder, folder / "home"), has_other_spellings=has_other_spellings)
        rules = replace(permission_store(setup).rules, sandboxed=True)
        for line, answer in {"python3 -c 1": expected, "cat .ENV": expected, "ls": "allow"}.items():
            assert judge_call("bash", [Access("run", line, cwd=str(folder))], rules).answer == answer
