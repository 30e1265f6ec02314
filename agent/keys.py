"""Keys: the actions that a key can run, their default keys, and the names of keys that users read and type.

An action is one entry here and one binding in ui/key_bindings.py. The user's `keybindings.toml` is read in
ui/keymap.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from transcripts.patterns import lazy_pattern

KeySequence = tuple[str, ...]  # prompt_toolkit's names of keys


class KeyAction(Struct, frozen=True):
    """An action of the screen: its purpose, and its default keys as `keybindings.toml` spells them."""

    help: str
    keys: tuple[str, ...]


KEY_ACTIONS: Mapping[str, KeyAction] = {
    "submit": KeyAction("send the prompt", keys=("enter",)),
    "newline": KeyAction("insert a new line", keys=("alt+enter", "ctrl+j")),
    "complete": KeyAction("complete a command, a file name or an attachment", keys=("tab",)),
    "editor": KeyAction("open the prompt in your editor", keys=("ctrl+g", "ctrl+x ctrl+e")),
    "image": KeyAction("attach the image on the clipboard", keys=("ctrl+v",)),
    "stash": KeyAction("stash the draft, or restore it", keys=("ctrl+s",)),
    "interrupt": KeyAction("interrupt the turn; press twice to exit", keys=("ctrl+c",)),
    "leave": KeyAction("exit, on an empty line", keys=("ctrl+d",)),
    "mode": KeyAction("cycle through the permission modes", keys=("shift+tab",)),
    "background": KeyAction("move the running command to the background", keys=("ctrl+b",)),
    "tasks": KeyAction("list background commands", keys=("ctrl+t",)),
    "redraw": KeyAction("redraw the screen", keys=("ctrl+l",)),
    "outputs": KeyAction(
        "print the last outputs in full, and show later ones in full, or in short again", keys=("ctrl+o",)
    ),
    "suspend": KeyAction("suspend makeroom", keys=("ctrl+z",)),
    "model": KeyAction("choose the model", keys=("alt+p",)),
    "effort": KeyAction("choose the effort", keys=("alt+t",)),
}
_MODIFIERS = {"ctrl": "c-", "control": "c-", "shift": "s-"}
_ALT = ("alt", "meta", "option")
_OTHER_SPELLINGS = {
    "esc": "escape", "return": "enter", "del": "delete", "pgup": "pageup", "pgdown": "pagedown", "space": " ",
}  # fmt: skip
_NAMED_ACTION = lazy_pattern(r"\{(\w+)\}")


def key_sequence(text: str) -> KeySequence:
    """Return the keys of a text such as `ctrl+x ctrl+e`. Raises ValueError for an unknown modifier."""
    return tuple(key for word in text.split() for key in _keys_of(word))


def _keys_of(word: str) -> Iterator[str]:
    *modifiers, name = word.split("+") if len(word) > 1 else [word]
    name = _OTHER_SPELLINGS.get(name.lower(), name.lower() if len(name) > 1 or modifiers else name)
    wanted = [modifier.lower() for modifier in modifiers]
    if any(modifier not in _MODIFIERS and modifier not in _ALT for modifier in wanted):
        raise ValueError(f"unknown key {word!r}")
    if any(modifier in _ALT for modifier in wanted):
        yield "escape"
    prefix = "".join(_MODIFIERS[modifier] for modifier in wanted if modifier in _MODIFIERS)
    yield prefix + name


def key_name(sequence: KeySequence) -> str:
    """Return the common name of a sequence of keys: `Ctrl-X Ctrl-E`, `Alt+Enter`, `Shift+Tab`, `F6`."""
    words: list[str] = []
    for word in map(_spelled, sequence):
        if words and words[-1] == "Esc":
            words[-1] = f"Alt+{word.upper() if len(word) == 1 else word}"
        else:
            words.append(word)
    return " ".join(words)


def _spelled(key: str) -> str:
    """Return the common name of one of prompt_toolkit's keys."""
    if len(key) == 1:
        return {" ": "Space"}.get(key, key)
    *modifiers, name = key.split("-") if not key.endswith("-") else [*key[:-2].split("-"), "-"]
    name = {"escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn"}.get(name, name.capitalize())
    return "".join({"c": "Ctrl-", "s": "Shift+"}[modifier] for modifier in modifiers) + name


DEFAULT_KEYS: Mapping[str, tuple[KeySequence, ...]] = {
    name: tuple(map(key_sequence, action.keys)) for name, action in KEY_ACTIONS.items()
}


def first_keys(keys: Mapping[str, tuple[KeySequence, ...]]) -> dict[str, str]:
    """Return the common name of the first key of each action, "" if it has no key.

    "newline" lists all of its keys, and Shift+Enter, which terminals send as Ctrl-J.
    """
    names = {action: next(map(key_name, sequences), "") for action, sequences in keys.items()}
    newline = keys["newline"]
    shifted = ["Shift+Enter"] if ("c-j",) in newline else []
    names["newline"] = ", ".join([*shifted, *map(key_name, newline)])
    return names


KEY_NAMES: Mapping[str, str] = first_keys(DEFAULT_KEYS)


def with_keys(text: str, names: Mapping[str, str], gap: str = "; ") -> str:
    """Replace the actions in braces by their keys; drop parts (between gaps) with an action without a key."""
    indent = text[: len(text) - len(text.lstrip())]
    parts = [part for part in text.strip().split(gap) if all(names[it] for it in _NAMED_ACTION.findall(part))]
    return indent + _NAMED_ACTION.sub(lambda found: names[found[1]], gap.join(parts))
