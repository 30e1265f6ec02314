"""Plugins of Claude Code that are on this machine: commands, skills, agents, hooks and MCP servers."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .contents import *
    from .installed import *

__getattr__ = lazy_door(
    __name__,
    {"contents": "Plugin", "installed": "PluginPlaces plugin_items"},
)
