"""Read shell command lines: every command that a line may run, and what is known about it.

`read_line` finds the commands. `irreversible_effect` and `CommandPattern` find those among them that must not
run. `ProjectEnvironment.judge` proves commands read-only. `risky_lines` finds the lines of a script to point
out to a user.
"""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .absent_programs import *
    from .added_settings import *
    from .command_pattern import *
    from .destructive import *
    from .line_reading import *
    from .lost_files import *
    from .lost_objects import *
    from .made_repositories import *
    from .named_files import *
    from .outside_programs import *
    from .outside_reading import *
    from .program_names import *
    from .project_environment import *
    from .project_scripts import *
    from .read_only import *
    from .script_risks import *
    from .simple_commands import *
    from .steering_files import *
    from .vital_places import *

__getattr__ = lazy_door(
    __name__,
    {
        "absent_programs": "missing_programs",
        "added_settings": "adds_plain_settings",
        "command_pattern": "Certainty CommandPattern PipePattern",
        "destructive": "irreversible_commands irreversible_effect",
        "line_reading": "Invocation LineReading read_line",
        "lost_files": "UncoveredFiles changed_repositories lost_paths",
        "lost_objects": "pruning",
        "made_repositories": "acted_on",
        "named_files": "files_named_in",
        "outside_programs": "git_settings_need outside_need system_file_need",
        "outside_reading": "reads_outside",
        "program_names": "own_program Standpoint with_other_names",
        "project_environment": "ProjectEnvironment",
        "project_scripts": "lines_behind",
        "read_only": "JudgedCommand ReadingJudge",
        "script_risks": "RiskyLine risky_lines",
        "simple_commands": "Glob MAX_LINE_CHARS Words parse_simple_commands",
        "steering_files": "KnownPrograms known_programs",
        "vital_places": "Places",
    },
)
