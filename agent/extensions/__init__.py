"""Extensions in files of users and projects: MCP servers, skills, agents, hooks; and their approval."""

from .approvals import Approvals, ItemSource, ProjectItem

__all__ = ["Approvals", "ItemSource", "ProjectItem"]
