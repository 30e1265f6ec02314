"""Read, append to and replace files privately, durably and atomically."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .disk import *

__getattr__ = lazy_door(
    __name__,
    {
        "disk": (
            "append_line expand_home is_foreign is_of_running_process locked make_private_folders opened_fd "
            "opened_regular project_key read_pieces read_regular replace_file set_own_mode trusted_owners"
        ),
    },
)
