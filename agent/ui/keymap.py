"""The keymap: the default keys and those of `keybindings.toml` in the user's settings directory.

Each entry is an action, or a slash command in quotes, with a key or a list of keys:
`"/compact" = "f6"`, `editor = ["ctrl+e", "ctrl+x ctrl+e"]`, `redraw = []`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from prompt_toolkit.filters import emacs_selection_mode, shift_selection_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from agent.keys import DEFAULT_KEYS, KeySequence, first_keys, key_sequence
from transcripts.patterns import lazy_pattern

# Keys without a meaning; prompt_toolkit would insert the characters that terminals send for them.
_IDLE_KEY = lazy_pattern(r"s-escape|c-\d|c-f\d+|[cs]-page.+|c-s-(?!left|right|home|end).+")


class Keymap(Struct, frozen=True):
    """The keys of each action, those of slash commands by their lines, and warnings about the file."""

    keys: Mapping[str, tuple[KeySequence, ...]]
    commands: Mapping[str, tuple[KeySequence, ...]]
    troubles: tuple[str, ...] = ()

    def names(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the common name of the first key of each action and slash command; see `first_keys`."""
        found = first_keys({**self.keys, **self.commands})
        if "TMUX" in environ:  # Ctrl-B is its prefix key; it passes on the second press
            found |= {name: f"Ctrl-B {key}" for name, key in found.items() if key.startswith("Ctrl-B")}
        return found


def read_keymap(path: Path) -> Keymap:
    """Read the keys in use. After a mistake, the action keeps its default keys, with a warning."""
    keys = dict(DEFAULT_KEYS)
    commands: dict[str, tuple[KeySequence, ...]] = {}
    troubles: list[str] = []
    for name, value in _entries(path, troubles):
        texts = [value] if isinstance(value, str) else value
        if not name.startswith("/") and name not in keys:
            near = difflib.get_close_matches(name, keys, 1)
            troubles.append(
                f"{path}: unknown action `{name}`{f' (did you mean `{near[0]}`?)' if near else ''}"
            )
        elif not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            troubles.append(f'{path}: `{name}` needs a key such as "ctrl+e", or a list of keys')
        else:
            try:
                (commands if name.startswith("/") else keys)[name] = tuple(map(_command_keys, texts))
            except ValueError as error:
                troubles.append(f"{path}: {name}: {error}")
    troubles += (f"{path}: {double}" for double in _doubles({**keys, **commands}))
    return Keymap(keys=keys, commands=commands, troubles=tuple(troubles))


def _doubles(keys: Mapping[str, tuple[KeySequence, ...]]) -> Iterator[str]:
    """Yield a warning for each key that is bound to more than one action, since only one can run."""
    owners: dict[KeySequence, list[str]] = {}
    for name, sequences in keys.items():
        for sequence in dict.fromkeys(sequences):
            owners.setdefault(sequence, []).append(name)
    for sequence, names in owners.items():
        if len(names) > 1:
            key = " ".join(sequence).replace("c-", "ctrl+").replace("s-", "shift+")
            yield f"{' and '.join(names)} have the same key, {key}; give one of them another key"


def _entries(path: Path, troubles: list[str]) -> Iterator[tuple[str, Any]]:
    if not path.is_file():
        return
    import tomllib

    try:
        text = path.read_bytes()[: 64 * 1024].decode("utf-8-sig")
        yield from tomllib.loads(text).items()
    except (OSError, ValueError) as error:
        why = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
        troubles.append(f"cannot read {path}: {why} (using the default keys)")


def base_bindings() -> KeyBindings:
    """Return the bindings that others are added to.

    Keys without a meaning do nothing, and a letter after Ctrl-Space is still text.
    """
    bindings = KeyBindings()
    for key in Keys:
        if _IDLE_KEY.fullmatch(key.value):
            bindings.add(key)(lambda event: None)

    @bindings.add(Keys.Any, filter=emacs_selection_mode & ~shift_selection_mode)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.exit_selection()
        event.current_buffer.insert_text(event.data * event.arg)

    return bindings


def _command_keys(text: str) -> KeySequence:
    """Return the keys of a text. Raises ValueError for an unknown key and for one that enters text."""
    keys = key_sequence(text)
    try:
        KeyBindings().add(*keys)(lambda event: None)
    except (ValueError, AssertionError) as error:
        raise ValueError(f"unknown key {text!r}") from error
    if len(keys[0]) == 1:
        raise ValueError(f"{text!r} enters text; use a key such as ctrl+e or f6")
    return keys
