"""Record which files of the project change, and restore them."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .change_log import FileChange, changed_files_since, copy_log
    from .comparison import differences
    from .file_restore import Action, RestoreStep
    from .git_restore import RefStep
    from .git_state import GitRunner
    from .project_scanner import SKIPPED_FOLDERS
    from .recorder import Checkpoints
    from .rewind import RewindPlan, plan_rewind, restore_rewind
    from .snapshot import THEIRS, shown_paths

__getattr__ = lazy_door(
    __name__,
    {
        "change_log": "FileChange changed_files_since copy_log",
        "comparison": "differences",
        "file_restore": "Action RestoreStep",
        "git_restore": "RefStep",
        "git_state": "GitRunner",
        "recorder": "Checkpoints",
        "rewind": "RewindPlan plan_rewind restore_rewind",
        "project_scanner": "SKIPPED_FOLDERS",
        "snapshot": "THEIRS shown_paths",
    },
)
