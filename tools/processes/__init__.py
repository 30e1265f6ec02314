"""Run commands and background jobs, inside or outside the sandbox."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .command_context import CommandContext
    from .command_hints import awaits_keys, hint, is_answer
    from .command_progress import LineNews, ProgressThrottle
    from .env_filter import filter_environment, hardened_git, hide_own_environment
    from .foreground import (
        STILL_RUNNING,
        CommandEnd,
        CommandLimits,
        ends_in_prompt,
        move_to_background,
        run_foreground,
    )
    from .host_questions import HostQuestions
    from .inbox import Inbox
    from .job_ports import listeners, new_listeners, port_note
    from .jobs import BackgroundJob, CommandRequest, exit_code
    from .output_folding import fold_output
    from .output_text import decoded_output
    from .own_command import OwnCommand, OwnCommandEnd, run_own_command
    from .runner import DRAIN_LIMIT_S, CommandRunner, command_runner, guard_of_records
    from .spool import Spool

__getattr__ = lazy_door(
    __name__,
    {
        "command_context": "CommandContext",
        "command_hints": "awaits_keys hint is_answer",
        "command_progress": "LineNews ProgressThrottle",
        "env_filter": "filter_environment hardened_git hide_own_environment",
        "foreground": (
            "STILL_RUNNING CommandEnd CommandLimits ends_in_prompt move_to_background run_foreground"
        ),
        "host_questions": "HostQuestions",
        "inbox": "Inbox",
        "job_ports": "listeners new_listeners port_note",
        "jobs": "BackgroundJob CommandRequest exit_code",
        "output_folding": "fold_output",
        "output_text": "decoded_output",
        "own_command": "OwnCommand OwnCommandEnd run_own_command",
        "runner": "CommandRunner DRAIN_LIMIT_S command_runner guard_of_records",
        "spool": "Spool",
    },
)
