"""The face for programs: JSON lines in and out, in the protocol of Claude Code's clients."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .message_frames import *
    from .stream_run import *

__getattr__ = lazy_door(
    __name__,
    {
        "message_frames": "StreamJsonFormat",
        "stream_run": "run_stream",
    },
)
