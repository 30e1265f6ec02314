"""Items of a checkout stay disabled until their exact bytes are approved."""

import json
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.extensions.approvals import Approvals, ProjectItem

HOOK = ProjectItem("hook", "PreToolUse", "./check.sh", b'{"command": "./check.sh"}')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def test_a_decision_is_kept_for_the_next_run_in_a_private_file(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "state" / "approvals.json"
    approvals = Approvals(path, folder)
    assert approvals.decided(HOOK) is None
    approvals.record([HOOK], True)
    approvals.record([replace(HOOK, name="Stop")], False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Approvals(path, folder)
    assert again.decided(HOOK) is True
    assert again.decided(replace(HOOK, name="Stop")) is False


@pytest.mark.parametrize(
    "changed",
    [
        replace(HOOK, content=HOOK.content[:-1] + b" "),
        replace(HOOK, name="PostToolUse"),
        replace(HOOK, kind="MCP server"),
        replace(HOOK, kind="hook\0Pre", name="ToolUse"),
    ],
)
def test_a_changed_byte_needs_approval_again(tmp_path: Path, folder: Path, changed: ProjectItem) -> None:
    approvals = Approvals(tmp_path / "approvals.json", folder)
    approvals.record([HOOK], True)
    assert approvals.decided(changed) is None
    assert approvals.decided(replace(HOOK, shows="as it is shown does not matter")) is True


def test_a_decision_holds_in_its_directory_only_by_whatever_way_that_is_reached(
    tmp_path: Path, folder: Path
) -> None:
    path = tmp_path / "approvals.json"
    Approvals(path, folder).record([HOOK], True)
    (tmp_path / "copy").mkdir()
    (tmp_path / "link").symlink_to(folder)
    assert Approvals(path, tmp_path / "copy").decided(HOOK) is None
    assert Approvals(path, tmp_path / "link").decided(HOOK) is True


def test_two_runs_keep_each_others_decisions(tmp_path: Path, folder: Path) -> None:
    path, other = tmp_path / "approvals.json", replace(HOOK, name="Stop")
    one, two = Approvals(path, folder), Approvals(path, folder)
    one.record([HOOK], True)
    two.record([other], True)
    assert Approvals(path, folder).undecided([HOOK, other]) == []


@pytest.mark.parametrize("text", ["", "[]", '{"/p": 1}', "{", "[" * 100_000, '{"FOLDER": {"KEY": "yes"}}'])
def test_a_file_of_decisions_that_is_damaged_allows_nothing(tmp_path: Path, folder: Path, text: str) -> None:
    path = tmp_path / "approvals.json"
    approvals = Approvals(path, folder)
    approvals.record([HOOK], True)
    [(place, [key])] = json.loads(path.read_text("utf-8")).items()
    path.write_text(text.replace("FOLDER", place).replace("KEY", key), "utf-8")
    assert Approvals(path, folder).decided(HOOK) is None


def test_a_decision_that_cannot_be_kept_holds_for_the_run(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be", "utf-8")
    approvals = Approvals(tmp_path / "state" / "approvals.json", folder)
    with pytest.raises(OSError):
        approvals.record([HOOK], True)
    assert approvals.decided(HOOK) is True
