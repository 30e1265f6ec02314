"""The error of this package."""


class FileError(Exception):
    """A path or file cannot be used as requested. The text contains the problem, then the remedy."""
