"""Hooks: commands in settings files, and callbacks of a client, that run at events of a session."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .answers import *
    from .asking import *
    from .claude_settings import *
    from .entries import *
    from .file_digest import *
    from .inputs import *
    from .notices import *
    from .table import *

__getattr__ = lazy_door(
    __name__,
    {
        "answers": "HookFailed hook_answer",
        "asking": "AskedHooks RunCommand command_hooks",
        "claude_settings": "HOOK_KINDS ApprovedSettings settings_items",
        "entries": "HookEntry",
        "file_digest": "named_files",
        "inputs": "about_session",
        "notices": "NotifyingApprover",
        "table": "HookTable status_command",
    },
)
