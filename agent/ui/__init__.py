"""The faces for users: a screen, plain lines, and headless output."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .approval_answers import *
    from .context_chart import *
    from .diff_drawing import *
    from .headless import *
    from .output_formats import *
    from .picker import *
    from .render import *
    from .repl import *
    from .standard_streams import *
    from .terminal_text import *

__getattr__ = lazy_door(
    __name__,
    {
        "approval_answers": "approval_choices",
        "context_chart": "plain_chart",
        "diff_drawing": "print_diff",
        "headless": "DenyAll Outcome outcome_of run_headless run_prompt session_details",
        "output_formats": (
            "JsonFormat OutputFormat RunOutput TextFormat json_line refused_result usage_fields"
        ),
        "picker": "run_picker",
        "render": "retrying_message",
        "repl": "run_repl",
        "standard_streams": "PipeWriter",
        "terminal_text": "at_screen at_terminal clip one_line wrap",
    },
)
