"""The command line: options, the choice of a face, and the subcommands."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .acp_command import *
    from .arguments import *
    from .completion_command import *
    from .import_command import *
    from .launch import *
    from .mcp_command import *
    from .permissions_command import *
    from .printing import *
    from .recall_command import *
    from .sessions_command import *
    from .verify_command import *

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
        "printing": "print_traceback",
        "recall_command": "run_recall",
        "sessions_command": "run_sessions",
        "verify_command": "run_verify",
    },
)
