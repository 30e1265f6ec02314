"""Commands, skills and output styles: Markdown files of the user and the project with instructions."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .approval import *
    from .files import *
    from .library import *
    from .output_styles import *
    from .places import *
    from .substitution import *
    from .tool import *

__getattr__ = lazy_door(
    __name__,
    {
        "approval": "open_skill skill_items",
        "files": "Skill",
        "library": "SkillLibrary",
        "output_styles": "StylePlaces style_in_use",
        "places": "SkillKind",
        "substitution": "CommandLine",
        "tool": "TOOL search_result",
    },
)
