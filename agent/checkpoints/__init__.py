"""Record which files of the project change, and restore them."""

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .change_log import FileChange, changed_files_since, copy_log
    from .comparison import differences
    from .file_restore import Action, RestoreStep, count_steps, plan_restore, restore
    from .git_restore import RefStep, plan_refs, restore_refs
    from .git_state import GitRunner
    from .recorder import Checkpoints
    from .snapshot import SKIPPED_FOLDERS, THEIRS, shown_paths

__all__ = [
    "SKIPPED_FOLDERS",
    "THEIRS",
    "Action",
    "Checkpoints",
    "FileChange",
    "GitRunner",
    "RefStep",
    "RestoreStep",
    "changed_files_since",
    "copy_log",
    "count_steps",
    "differences",
    "plan_refs",
    "plan_restore",
    "restore",
    "restore_refs",
    "shown_paths",
]
__getattr__ = lazy_door(
    __name__,
    {
        "change_log": "FileChange changed_files_since copy_log",
        "comparison": "differences",
        "file_restore": "Action RestoreStep count_steps plan_restore restore",
        "git_restore": "RefStep plan_refs restore_refs",
        "git_state": "GitRunner",
        "recorder": "Checkpoints",
        "snapshot": "SKIPPED_FOLDERS THEIRS shown_paths",
    },
)
