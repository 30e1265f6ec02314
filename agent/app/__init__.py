"""Settings and the composition root; the controller that a face talks to."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .claude_restrictions import claude_rules, offered_rules
    from .composition import encoders
    from .config import Config, form_of, has_credentials, load_config, with_setting
    from .context_building import overheads, session_hooks
    from .controller import CommandTable, Controller, rewind_to
    from .flag_settings import added_folders, given_settings, with_prompt_files
    from .options import EDITING_MODES, EFFORTS, NO_EFFORT, OUTPUT_FORMATS, THEMES, Options
    from .pasted_images import usable_content
    from .permission_loading import permission_store
    from .project_approval import choose_items, item_lines, project_items, record_decision
    from .setup import RunSetup, offered_modes
    from .start_screen import start_command
    from .unusual_places import check_folder
    from .worktrees import GitRunner, Worktree, Worktrees, git_outside_session, session_holder

__getattr__ = lazy_door(
    __name__,
    {
        "composition": "encoders",
        "claude_restrictions": "claude_rules offered_rules",
        "config": "Config form_of has_credentials load_config with_setting",
        "context_building": "overheads session_hooks",
        "controller": "CommandTable Controller rewind_to",
        "flag_settings": "added_folders given_settings with_prompt_files",
        "options": "EDITING_MODES EFFORTS NO_EFFORT OUTPUT_FORMATS Options THEMES",
        "pasted_images": "usable_content",
        "permission_loading": "permission_store",
        "project_approval": "choose_items item_lines project_items record_decision",
        "setup": "RunSetup offered_modes",
        "start_screen": "start_command",
        "unusual_places": "check_folder",
        "worktrees": "GitRunner Worktree Worktrees git_outside_session session_holder",
    },
)
