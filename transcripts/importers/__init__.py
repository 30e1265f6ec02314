"""Read session recordings of makeroom and other agents as facts."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .detection import *
    from .recording import *

__getattr__ = lazy_door(
    __name__,
    {
        "detection": "MAX_RECORDING_BYTES detect_format import_file import_session",
        "recording": "UnreadableRecording describe_skipped",
    },
)
