"""The debug log: everything that we and the SDK say, in a private file, without a secret in it."""

from __future__ import annotations

import logging
import os

from agent.errors import UsageError
from transcripts.masking import SecretMasks


class MaskedFormatter(logging.Formatter):
    """Lines with their time, traceback and all, without the values in `masks` and known forms of secrets."""

    def __init__(self, masks: SecretMasks) -> None:
        super().__init__("%(asctime)s %(name)s %(message)s")
        self._masks = masks

    def format(self, record: logging.LogRecord) -> str:
        return self._masks.all(super().format(record))


def begin(path: str, masks: SecretMasks) -> None:
    """Log to the file from now on. Raises UsageError."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"cannot write the debug log {path}: {error.strerror}; name another file") from error
    handler = logging.StreamHandler(os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace"))
    handler.setFormatter(MaskedFormatter(masks))
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])
