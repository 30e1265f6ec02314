"""Run commands and background jobs, inside or outside the sandbox."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .command_context import *
    from .command_hints import *
    from .command_progress import *
    from .env_filter import *
    from .foreground import *
    from .host_questions import *
    from .inbox import *
    from .job_ports import *
    from .jobs import *
    from .output_folding import *
    from .output_text import *
    from .own_command import *
    from .runner import *
    from .spool import *

__getattr__ = lazy_door(
    __name__,
    {
        "command_context": "CommandContext",
        "command_hints": "awaits_keys hint is_answer",
        "command_progress": "LineNews ProgressThrottle",
        "env_filter": "filter_environment hardened_git",
        "foreground": (
            "STILL_RUNNING CommandEnd CommandLimits ends_in_prompt move_to_background run_foreground"
        ),
        "host_questions": "HostQuestions",
        "inbox": "Inbox",
        "job_ports": "listeners new_listeners port_note",
        "jobs": "BackgroundJob CommandRequest exit_status",
        "output_folding": "fold_output",
        "output_text": "decoded_output",
        "own_command": "OwnCommandEnd run_own_command",
        "runner": (
            "CommandRunner DRAIN_LIMIT_S abandon_start begin_session_supervisor begin_supervisor "
            "command_runner guard_of_records"
        ),
        "spool": "Spool",
    },
)
