"""Settings and the composition root; the controller that a face talks to."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .claude_restrictions import *
    from .composition import *
    from .config import *
    from .context_building import *
    from .controller import *
    from .flag_settings import *
    from .options import *
    from .pasted_images import *
    from .permission_loading import *
    from .project_approval import *
    from .setup import *
    from .start_screen import *
    from .unusual_places import *
    from .worktrees import *

__getattr__ = lazy_door(
    __name__,
    {
        "composition": "encoders",
        "claude_restrictions": "claude_rules offered_rules",
        "config": "Config form_of has_credentials setting_names with_setting",
        "context_building": "overheads session_hooks",
        "controller": "CommandTable Controller rewind_to",
        "flag_settings": "added_folders",
        "options": "EDITING_MODES EFFORT_CHOICES NO_EFFORT OUTPUT_FORMATS Options THEMES",
        "pasted_images": "usable_content",
        "permission_loading": "permission_store",
        "project_approval": "choose_items item_lines project_items record_decision",
        "setup": "RunSetup offered_modes read_setup",
        "start_screen": "start_command",
        "unusual_places": "check_folder",
        "worktrees": "Worktree Worktrees git_outside_session",
    },
)
