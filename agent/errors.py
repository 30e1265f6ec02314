"""The errors on our side of a port, and their effects on a turn.

AgentError                       a clear line for the user; ends the program or the turn
├── UsageError                   bad flag, unknown session                            exit 2
├── ChoiceCancelled              the user cancelled a choice                          exit 130
├── ConfigError                  invalid settings file or variable                    exit 6
└── ModelError                   a request without a complete response
    ├── TransientError           may succeed later: 429, 5xx, connection, stream      exit 75
    ├── PromptTooLong            400/413 about the size: compact reactively           exit 1
    ├── OutputTooLong            400 about max_tokens: request less and retry         exit 1
    ├── FieldRejected            400 that names an optional field: drop it and retry  exit 1
    ├── ThinkingRejected         400 about thinking: leave it out and retry once      exit 1
    ├── BlockRejected            400 about one content block: replace it, retry once  exit 1
    ├── AuthenticationError      401, 403, 402, no credentials                        exit 5
    ├── BudgetExceeded           --max-budget-usd is spent: nothing was sent          exit 3
    └── RequestRejected          any other error; a retry would fail again            exit 1
        └── ModelNotFound        404: no such model, or no such endpoint              exit 1
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Literal

from agent.version import program_name

Feature = Literal[
    "thinking",
    "effort",
    "cache",
    "cache diagnostics",
    "eager tool input",
    "web tools",
    "tool search",
    "system blocks",
    "system messages",
    "unsigned thinking",
    "reasoning gaps",
    "signature gaps",
    "details gaps",
    "tool ids",
    "max_tokens",
    "usage in streams",
    "betas",
]
"""Features of a request that a server may reject; later requests do not use them."""


class AgentError(Exception):
    """An error whose text is one line for the user, with a remedy if there is one."""

    code = 1


class UsageError(AgentError):
    code = 2


class ChoiceCancelled(AgentError):
    code = 130


def exit_code_of(error: Exception) -> int:
    """Return the exit code for an error of ours, or of the transcripts, which know no exit codes."""
    return error.code if isinstance(error, AgentError) else UsageError.code


class ConfigError(AgentError):
    code = 6


class ModelError(AgentError):
    """The request failed. `status` is the HTTP status of the response, None without a response."""

    status: int | None = None


FailureCause = Literal["server", "refused", "connection", "response"]
"""Causes of transient failures, each with attempts of its own:

server      the server responded with an error
refused     nothing listens at the address
connection  there was no connection, or it ended before the response did
response    the response is invalid
"""


class TransientError(ModelError):
    """An error that may not recur, so a retry can succeed.

    cause        failures of the same cause share their attempts
    retry_after  seconds that the server asks to wait, or None
    tries        the limit of attempts that end with this same error, if it is lower than the default
    patience_s   seconds for which the request is repeated while nothing else happens, instead of a number of
                 attempts, or None
    overloaded   another model may be available
    """

    code = 75

    def __init__(
        self,
        text: str,
        retry_after: float | None = None,
        *,
        tries: int | None = None,
        overloaded: bool = False,
        cause: FailureCause = "server",
        patience_s: float | None = None,
    ) -> None:
        super().__init__(text)
        self.cause: FailureCause = cause
        self.overloaded = overloaded
        self.retry_after = retry_after
        self.tries = tries
        self.patience_s = patience_s


class PromptTooLong(ModelError):
    """The prompt does not fit. `actual` and `limit` are in tokens, None if they are unknown."""

    def __init__(self, text: str, actual: int | None = None, limit: int | None = None) -> None:
        super().__init__(text)
        self.actual = actual
        self.limit = limit

    @property
    def sizes(self) -> str:
        """Both sizes in words; the whole error if the server did not report them."""
        if self.actual is None or self.limit is None:
            return str(self)
        return f"{self.actual:,} tokens, the limit is {self.limit:,}"


class OutputTooLong(ModelError):
    """`max_tokens` exceeds the model's output limit, `limit` in tokens.

    With a `window`, the limit is what this prompt leaves of it.
    """

    def __init__(self, text: str, limit: int, window: int | None = None) -> None:
        super().__init__(text)
        self.limit = limit
        self.window = window


class FieldRejected(ModelError):
    """The server does not support an optional feature of the request."""

    def __init__(self, text: str, feature: Feature) -> None:
        super().__init__(text)
        self.feature = feature


class ThinkingRejected(ModelError):
    """The server rejected a thinking block that was sent back."""


class BlockRejected(ModelError):
    """The server rejected content blocks; `places` are their indices: of a message, and of a block in it.

    There are none if the server does not name the block; then the error is about an image.
    """

    def __init__(self, text: str, places: Sequence[tuple[int, int]] = ()) -> None:
        super().__init__(text)
        self.places = tuple(places)


class AuthenticationError(ModelError):
    code = 5


class BudgetExceeded(ModelError):
    code = 3


class RequestRejected(ModelError):
    """The same request would be rejected again."""


class UnknownModel(UsageError):
    """The model that was named does not exist; `listed` are the models that the server reports."""

    def __init__(self, text: str, listed: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.listed = listed


class ModelNotFound(RequestRejected):
    """The model or endpoint does not exist; `listed` are the models that the server reports."""

    def __init__(self, text: str, listed: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.listed = listed


def unexpected(error: BaseException) -> str:
    """Describe an error that nothing handles: a limit of the system with its remedy, or a defect of ours."""
    return limit_reached(error) or f"internal error in makeroom: {type(error).__name__}: {error}"


def limit_reached(error: BaseException) -> str:
    """Return the message, with a remedy, for an error caused by a limit of the system; "" for any other."""
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return "not enough memory or threads; raise the limits (ulimit -v, ulimit -u, or the container's)"
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return "too many open files; raise the limit (ulimit -n)"
    if isinstance(error, OSError) and "No usable temporary directory" in str(error):  # of tempfile
        return (
            "cannot write temporary files; free disk space, raise the limit on the size of files (ulimit -f) "
            "or set TMPDIR to another directory"
        )
    return ""


_OWN_PACKAGES = ("agent", "compact", "tools", "transcripts")


def program_changed(error: Exception) -> str:
    """Return the message for an error of a program that was replaced while it ran, as by an upgrade.

    A library that cannot be loaded may have been missing before.
    """
    remedy = f"Exit and resume with {program_name()} -c."
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] not in _OWN_PACKAGES:
        return f"a library cannot be loaded ({error}). {remedy} If that does not help, reinstall makeroom."
    return f"makeroom has changed on disk since it started ({error}). {remedy}"
