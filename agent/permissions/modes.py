"""The permission modes, apart from the rules so that reading the command line imports nothing heavy."""

from typing import Literal, get_args

Mode = Literal["manual", "acceptEdits", "dontAsk", "bypassPermissions"]
MODES: tuple[Mode, ...] = get_args(Mode)
