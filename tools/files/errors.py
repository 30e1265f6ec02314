"""Errors in words for the model: the problem, then the remedy."""

from __future__ import annotations

from collections.abc import Container


class ExplainedError(Exception):
    """An error whose text contains the problem and the remedy; a remedy may need `tools`."""

    def __init__(self, problem: str, remedy: str = "", tools: str = "") -> None:
        super().__init__(f"{problem}\n{remedy}" if remedy else problem)
        self.problem = problem
        self.tools = tools

    def for_model(self, offered: Container[str]) -> str:
        """Return the text without a remedy that needs a tool that is not offered."""
        return str(self) if all(name in offered for name in self.tools.split()) else self.problem


class FileError(ExplainedError):
    """A path or file cannot be used as requested."""
