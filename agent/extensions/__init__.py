"""Extensions in files of users and projects: MCP servers, skills, agents, hooks; and their approval."""

from .approvals import Approvals, ItemSource, ProjectItem
from .ignored import IgnoredPart, ignored_by_place

__all__ = ["Approvals", "IgnoredPart", "ItemSource", "ProjectItem", "ignored_by_place"]
