"""Links to files in drawn text, for terminals that open them (OSC 8)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from urllib.parse import quote

from transcripts.patterns import lazy_pattern
from transcripts.storage import expand_home

from .terminal_text import LINK_END, PAINT_CODES, linked

_FILE_NAMED = lazy_pattern(  # with an optional line number
    r"(?<![\w./~:-])((?:[\w.-]{1,99}/){0,20}[\w-][\w.-]{0,99}\.[A-Za-z]\w{0,7})(?::\d+)?(?![\w/-])"
)


def file_link(title: str, folder: str) -> str:
    """Return the address of the file at the start of a title, a path relative to `folder`."""
    path = Path(folder) / expand_home(title.partition("  ")[0])
    return f"file://{os.uname().nodename}{quote(str(path))}"


def with_file_links(drawn: str, folder: str) -> str:
    """Link the files below `folder` that a drawn text names; "" links none. Reads the disk."""
    pieces = list[str]()
    in_link = not folder
    for piece in PAINT_CODES.split(drawn):
        if piece.startswith("\x1b]8;"):
            in_link = piece != LINK_END
        is_text = not in_link and not piece.startswith("\x1b")
        pieces.append(_FILE_NAMED.sub(partial(_linked_file, folder), piece) if is_text else piece)
    return "".join(pieces)


def _linked_file(folder: str, found: re.Match[str]) -> str:
    inside = ".." not in Path(found[1]).parts and Path(folder, found[1]).is_file()
    return linked(found[0], file_link(found[1], folder)) if inside else found[0]


def shows_links(environ: Mapping[str, str]) -> bool:
    """Return whether the environment names a terminal that opens links; FORCE_HYPERLINK overrides it."""
    if forced := environ.get("FORCE_HYPERLINK", ""):
        return forced not in ("0", "false", "no")
    if environ.get("TMUX") or environ.get("STY"):
        return False  # whatever terminal they run in
    marks = ("KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION", "WEZTERM_PANE", "DOMTERM", "GHOSTTY_BIN_DIR")
    vte = environ.get("VTE_VERSION", "")
    return (
        any(map(environ.get, marks))
        or environ.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby")
        or environ.get("TERM", "").startswith(("xterm-kitty", "foot", "alacritty", "xterm-ghostty"))
        or (vte.isdigit() and int(vte) >= 5000)  # version 0.50; earlier versions showed garbage
    )
