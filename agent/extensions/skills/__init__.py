"""Commands, skills and output styles: Markdown files of the user and the project with instructions."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .approval import OpenedSkill, open_skill, skill_items
    from .files import Skill
    from .library import SkillLibrary, load_library
    from .output_styles import StylePlaces, style_in_use, style_text
    from .places import SkillKind
    from .substitution import CommandLine
    from .tool import TOOL, search_result

__getattr__ = lazy_door(
    __name__,
    {
        "approval": "OpenedSkill open_skill skill_items",
        "files": "Skill",
        "library": "SkillLibrary load_library",
        "output_styles": "StylePlaces style_in_use style_text",
        "places": "SkillKind",
        "substitution": "CommandLine",
        "tool": "TOOL search_result",
    },
)
