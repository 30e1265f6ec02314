"""The error of this room."""


class FileError(Exception):
    """A path or file cannot be used as asked. The text says what is wrong, then what to do next."""
