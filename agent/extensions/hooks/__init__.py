"""Hooks: commands in settings files, and callbacks of a client, that run at events of a session."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .answers import HookFailed, hook_answer
    from .asking import AskedHooks, JoinedHooks
    from .claude_settings import (
        HOOK_KINDS,
        ApprovedSettings,
        approved_settings,
        settings_items,
    )
    from .commands import RunCommand, command_hooks
    from .entries import HookEntry
    from .file_digest import named_files
    from .inputs import about_session
    from .notices import IdleNotices, NotifyingApprover
    from .table import HookTable, read_hooks, status_command

__getattr__ = lazy_door(
    __name__,
    {
        "answers": "HookFailed hook_answer",
        "asking": "AskedHooks JoinedHooks",
        "claude_settings": "HOOK_KINDS ApprovedSettings approved_settings settings_items",
        "commands": "RunCommand command_hooks",
        "entries": "HookEntry",
        "file_digest": "named_files",
        "inputs": "about_session",
        "notices": "IdleNotices NotifyingApprover",
        "table": "HookTable read_hooks status_command",
    },
)
