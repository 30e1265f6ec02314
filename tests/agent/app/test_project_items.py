"""A project's items are approved once, all together; where no one can choose they stay disabled."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from agent.app import project_approval as project_items
from agent.app.config import Config
from agent.app.options import Options
from agent.app.project_approval import item_lines, settle_project_items
from agent.app.setup import RunSetup
from agent.events import CommandOutput, Event, Notice
from agent.extensions.approvals import ProjectItem
from agent.extensions.hooks.claude_settings import settings_items
from agent.menus import Menu, MenuRow
from tests.agent.commands.controller_run import ScriptedChooser


def _words(folder: Path, environ: Mapping[str, str]) -> Iterable[ProjectItem]:
    """Each line of a file is an item."""
    lines = (folder / "items").read_text("utf-8").splitlines() if (folder / "items").exists() else []
    return [ProjectItem("hook", line.split()[0], f"runs {line}", line.encode()) for line in lines]


@pytest.fixture(autouse=True)
def items_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_items, "ITEM_SOURCES", (_words,))


def settle(
    folder: Path, *answers: str, unattended: bool = False, **options: object
) -> tuple[str, list[bool | None]]:
    """Return the notices, and the decision about each item; every answer has to be asked for."""
    told: list[Event] = []
    chooser = ScriptedChooser(*answers)
    setup = RunSetup(Options(**options), Config(state_dir=folder / "state"), folder, {})  # type: ignore[arg-type]
    approvals = asyncio.run(settle_project_items(setup, None if unattended else chooser, told.append))
    assert chooser.values == []
    text = "\n".join(event.text for event in told if isinstance(event, Notice | CommandOutput))
    return text, [approvals.decided(item) for item in _words(folder, {})]


def test_variables_and_a_model_are_counted_in_words_that_can_be_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = ("environment", "environment", "model")
    items = [ProjectItem(kind, str(at), "A=1", b"x") for at, kind in enumerate(kinds)]
    monkeypatch.setattr(project_items, "ITEM_SOURCES", (lambda folder, environ: items,))
    text, _ = settle(tmp_path, "all")
    assert text.startswith("This project defines 2 sets of environment variables and 1 model setting:")


def test_a_project_that_defines_nothing_is_asked_nothing_and_leaves_no_file(tmp_path: Path) -> None:
    assert settle(tmp_path) == ("", [])
    assert list(tmp_path.iterdir()) == []


def test_all_needs_approval_once_and_a_changed_byte_again(tmp_path: Path) -> None:
    (tmp_path / "items").write_text("lint --fast\ntest --all\n", "utf-8")
    text, decisions = settle(tmp_path, "all")
    assert text.splitlines()[0] == "This project defines 2 hooks:"
    assert text.splitlines()[1].split() == ["hook", "lint", "runs", "lint", "--fast"]
    assert decisions == [True, True]
    assert settle(tmp_path) == ("", [True, True])
    (tmp_path / "items").write_text("lint --fast\ntest --All\n", "utf-8")
    text, decisions = settle(tmp_path, "none")
    assert "defines 1 hook:" in text
    assert decisions == [True, False]


def test_one_can_choose_each(tmp_path: Path) -> None:
    (tmp_path / "items").write_text("one 1\ntwo 2\nthree 3\n", "utf-8")
    assert settle(tmp_path, "choose", "2", "3", "3", "0")[1] == [False, True, False]


def test_what_was_left_open_stays_off_and_needs_approval_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "items").write_text("one 1\ntwo 2\n", "utf-8")
    text, decisions = settle(tmp_path, "")
    assert text.splitlines()[-1] == "disabled: 2 hooks (decide with /trust)"
    assert decisions == [None, None]
    text, decisions = settle(tmp_path, "choose", "")  # Esc among the items is reported, too
    assert text.splitlines()[-1] == "disabled: 2 hooks (decide with /trust)"
    text, decisions = settle(tmp_path, "choose", "1", "")
    assert text.splitlines()[-1] == "disabled: 2 hooks (decide with /trust)"
    assert decisions == [None, None]


def test_what_was_decided_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "items").write_text("one 1\ntwo 2\n", "utf-8")
    assert settle(tmp_path, "all")[0].endswith("\nenabled: 2 hooks (change with /trust)")
    (tmp_path / "items").write_text("three 3\n", "utf-8")
    assert settle(tmp_path, "none")[0].endswith("\ndisabled: 1 hook (change with /trust)")


def test_the_items_stand_before_the_row_that_ends_the_menu(tmp_path: Path) -> None:
    """In a low window the first rows are those that are seen."""
    (tmp_path / "items").write_text("one 1\ntwo 2\n", "utf-8")
    menus: list[Menu] = []

    class Watching(ScriptedChooser):
        async def choose(self, menu: Menu) -> MenuRow | None:
            menus.append(menu)
            return await super().choose(menu)

    setup = RunSetup(Options(), Config(state_dir=tmp_path / "state"), tmp_path, {})
    chooser = Watching("choose", "2", "0")
    asyncio.run(settle_project_items(setup, chooser, lambda event: None))
    assert [row.title for row in menus[1].rows] == [
        "[ ] hook one: runs one 1",
        "[ ] hook two: runs two 2",
        "Done",
    ]
    assert [row.key for row in menus[1].rows] == ["1", "2", ""]  # Done is no item
    assert [menu.at for menu in menus[1:]] == [0, 1]


def test_where_no_one_can_choose_one_warning_says_what_is_off(tmp_path: Path) -> None:
    (tmp_path / "items").write_text("one 1\ntwo 2\n", "utf-8")
    text, decisions = settle(tmp_path, unattended=True)
    assert text.count("\n") == 0
    assert "2 hooks that are not approved; they are disabled. Run makeroom here in a terminal" in text
    assert decisions == [None, None]


def test_a_run_that_reads_no_project_settings_lists_nothing(tmp_path: Path) -> None:
    (tmp_path / "items").write_text("one 1\n", "utf-8")
    assert settle(tmp_path, setting_sources=("user",)) == ("", [None])


def test_what_is_hidden_in_a_variable_is_shown_before_it_is_approved(tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    variables = {"PATH": "/usr/bin:\x1b[8m./bin\x1b[m\u202e\U000e0041"}
    settings.write_text(json.dumps({"env": variables, "model": "a\u202eb"}))
    items = settings_items(tmp_path, {"HOME": str(tmp_path / "home")})
    assert [item.shows for item in items] == ["PATH=/usr/bin:␛[8m./bin␛[mU+202EU+E0041", "aU+202Eb"]


def test_items_are_listed_in_columns() -> None:
    items = [
        ProjectItem("hook", name="Stop *", shows="true", content=b""),
        ProjectItem("environment", name="x", shows="", content=b""),
    ]
    assert item_lines(items) == ["  hook         Stop *  true", "  environment  x"]
    assert item_lines([]) == []
