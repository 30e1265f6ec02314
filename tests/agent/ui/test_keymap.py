"""User-defined keys instead of the usual ones, and for slash commands; mistakes are reported."""

import os
from pathlib import Path

import pytest

from agent.app.config import load_config
from agent.app.options import Options
from agent.app.setup import RunSetup
from agent.keys import DEFAULT_KEYS, KEY_NAMES, key_sequence, with_keys
from agent.ui.key_bindings import build_key_bindings
from agent.ui.keymap import read_keymap
from agent.ui.repl_state import ReplState
from tests.agent.ui.pty_terminal import PtyTerminal, forked_makeroom


def test_keys_are_written_as_users_name_them() -> None:
    assert key_sequence("ctrl+x ctrl+e") == ("c-x", "c-e")
    assert key_sequence("alt+enter") == ("escape", "enter")
    assert key_sequence("Shift+Tab") == ("s-tab",)
    assert key_sequence("ctrl+shift+left") == ("c-s-left",)
    assert key_sequence("F6") == ("f6",)


def test_without_a_file_the_usual_keys_are_in_force(tmp_path: Path) -> None:
    keymap = read_keymap(tmp_path / "keybindings.toml")
    assert keymap.keys.keys() == DEFAULT_KEYS.keys()
    assert keymap.keys["editor"] == (("c-g",), ("c-x", "c-e")) and not keymap.troubles


def test_the_keys_of_every_action_are_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {name: f"ctrl+x f{number}" for number, name in enumerate(DEFAULT_KEYS, 1)}
    folder = tmp_path / "makeroom"
    folder.mkdir()
    (folder / "keybindings.toml").write_text("\n".join(f'{name} = "{key}"' for name, key in keys.items()))
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    setup = RunSetup(Options(), load_config(environ, tmp_path, tmp_path), tmp_path, environ)
    with Path(os.devnull).open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        bound = {binding.keys for binding in build_key_bindings(ReplState(setup)).bindings}
    assert [name for name, key in keys.items() if key_sequence(key) not in bound] == []


def test_keys_are_reported_as_users_name_them(tmp_path: Path) -> None:
    path = tmp_path / "keybindings.toml"
    assert read_keymap(path).names({}) == KEY_NAMES
    assert read_keymap(path).names({"TMUX": "/tmp/tmux"})["background"] == "Ctrl-B Ctrl-B"
    path.write_text(
        'editor = []\nnewline = ["alt+ctrl+n", "f2"]\nmode = "ctrl+x ctrl+shift+left"\nstash = "alt+-"\n'
        'tasks = "esc"\nimage = "ctrl+\\\\"\n"/cost" = "pgup"\n'
    )
    keymap = read_keymap(path)
    assert {**keymap.names({}), **KEY_NAMES} == {**KEY_NAMES, "/cost": "PgUp"} and not keymap.troubles
    changed = {name: key for name, key in keymap.names({}).items() if KEY_NAMES.get(name) != key}
    assert changed == {
        "editor": "",
        "newline": "Alt+Ctrl-N, F2",
        "mode": "Ctrl-X Ctrl-Shift+Left",
        "stash": "Alt+-",
        "tasks": "Esc",
        "image": "Ctrl-\\",
        "/cost": "PgUp",
    }
    assert with_keys("  {editor} edits; {tasks} or {editor}; {stash} stays", changed) == "  Alt+- stays"


def test_a_mistake_leaves_the_usual_keys_of_its_action_and_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "keybindings.toml"
    path.write_text('editr = "f2"\nstash = "hyper+x"\nmode = 3\nredraw = []\n"/compact" = ["f6", "alt+k"]\n')
    keymap = read_keymap(path)
    assert [trouble.removeprefix(f"{path}: ") for trouble in keymap.troubles] == [
        "unknown action `editr` (did you mean `editor`?)",
        "stash: unknown key 'hyper+x'",
        '`mode` needs a key such as "ctrl+e", or a list of keys',
    ]
    assert keymap.keys["stash"] == (("c-s",),) and keymap.keys["redraw"] == ()
    assert keymap.commands == {"/compact": (("f6",), ("escape", "k"))}
    path.write_text('submit = "a"\nmode = ["f2", "x y"]\n"/cost" = "space"\nstash = ""\n')
    keymap = read_keymap(path)
    assert [trouble.removeprefix(f"{path}: ") for trouble in keymap.troubles] == [
        "submit: 'a' enters text; use a key such as ctrl+e or f6",
        "mode: 'x y' enters text; use a key such as ctrl+e or f6",
        "/cost: 'space' enters text; use a key such as ctrl+e or f6",
        "stash: unknown key ''",
    ]
    assert keymap.keys["submit"] == (("enter",),) and keymap.commands == {}
    path.write_text("[keys")
    assert "using the default keys" in read_keymap(path).troubles[0]
    path.write_bytes(b'submit = "\xff"')
    assert read_keymap(path).troubles == (
        f"cannot read {path}: it is not UTF-8 text (using the default keys)",
    )


def test_a_key_of_two_things_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "keybindings.toml"
    path.write_text('editor = "enter"\n"/cost" = ["f6", "ctrl+o"]\n"/diff" = "f6"\n')
    assert [trouble.removeprefix(f"{path}: ") for trouble in read_keymap(path).troubles] == [
        "submit and editor have the same key, enter; give one of them another key",
        "outputs and /cost have the same key, ctrl+o; give one of them another key",
        "/cost and /diff have the same key, f6; give one of them another key",
    ]


def test_keys_of_ones_own_work_and_the_replaced_ones_do_not(tmp_path: Path) -> None:
    config = tmp_path / "home" / ".config" / "makeroom"
    config.mkdir(parents=True)
    (config / "keybindings.toml").write_text('stash = "f5"\n"/cost" = "f6"\nnothing = "x"\n')
    with PtyTerminal(tmp_path, (80, 24), forked_makeroom("--offline")) as terminal:
        terminal.sees("❯", "% of", "unknown action `nothing`").type("a draft\x1b[15~").sees("Draft stashed")
        terminal.type("\x1b[17~").sees("❯ /cost", "output")


def test_hints_and_help_report_the_keys_of_the_user(tmp_path: Path) -> None:
    config = tmp_path / "home" / ".config" / "makeroom"
    config.mkdir(parents=True)
    (config / "keybindings.toml").write_text(
        'editor = []\noutputs = "f5"\ninterrupt = "f3"\nleave = "f4"\nmode = "f6"\n"/cost" = "f7"\n'
    )
    with PtyTerminal(tmp_path, (80, 40), forked_makeroom("--offline")) as terminal:
        terminal.sees("❯", "% of").type("?").sees(
            "F5 full outputs on or off", "F3 clear, twice to exit   F4 exit"
        )
        assert "editor" not in terminal.text and "Ctrl-O" not in terminal.text
        terminal.type("\x7f/help keys\r").sees("F6 changes the permission", "F7 runs /cost", "Ctrl-L redraws")
        assert "your editor" not in terminal.text and "Shift+Tab" not in terminal.text
        terminal.type("/help\r").sees("  F3 twice exits;").type("/plan\r").sees("F6 leaves it")
        terminal.type("hello\r").sees("F3 to interrupt").type("\x1bOR").sees("Interrupted")
        terminal.again("\x1bOR", lambda: "Press F3 again to exit" in terminal.text)
