"""Slash commands: each is a function and a line in the table."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .running import *
    from .table import *

__getattr__ = lazy_door(
    __name__,
    {
        "running": "make_controller run_command unknown_command",
        "table": (
            "COMMANDS command_summaries find_command may_run_during_turn needs_session use_without_screen"
        ),
    },
)
