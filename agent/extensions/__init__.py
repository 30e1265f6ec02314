"""Extensions in files of users and projects: MCP servers, skills, agents, hooks; and their approval."""

from .approvals import Approvals, ItemSource, ProjectItem
from .ignored import IgnoredPart

__all__ = ["Approvals", "IgnoredPart", "ItemSource", "ProjectItem"]
