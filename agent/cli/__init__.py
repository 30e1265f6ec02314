"""The command line: options, the choice of a face, and the subcommands."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .acp_command import run_acp
    from .arguments import parse, subcommand_of
    from .completion_command import run_completion
    from .import_command import run_import
    from .launch import run
    from .mcp_command import run_mcp
    from .permissions_command import run_permissions
    from .recall_command import run_recall
    from .sessions_command import run_sessions
    from .verify_command import run_verify

__getattr__ = lazy_door(
    __name__,
    {
        "acp_command": "run_acp",
        "arguments": "parse subcommand_of",
        "completion_command": "run_completion",
        "import_command": "run_import",
        "launch": "run",
        "mcp_command": "run_mcp",
        "permissions_command": "run_permissions",
        "recall_command": "run_recall",
        "sessions_command": "run_sessions",
        "verify_command": "run_verify",
    },
)
