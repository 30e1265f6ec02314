"""Record which files of the project change, and restore them."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .change_log import *
    from .comparison import *
    from .file_restore import *
    from .git_restore import *
    from .git_state import *
    from .listings import *
    from .recorder import *
    from .rewind import *
    from .snapshot import *

__getattr__ = lazy_door(
    __name__,
    {
        "change_log": "FileChange changed_files_since copy_log",
        "comparison": "differences",
        "file_restore": "Action RestoreStep",
        "git_restore": "RefStep",
        "git_state": "GitRunner",
        "listings": "SKIPPED_FOLDERS",
        "recorder": "Checkpoints",
        "rewind": "RewindPlan plan_rewind restore_rewind",
        "snapshot": "THEIRS UNSEEN shown_paths",
    },
)
