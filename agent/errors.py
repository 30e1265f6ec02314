"""The errors on our side of a port, and their effects on the turn.

AgentError                       a clear line for the user; ends the program or the turn
├── UsageError                   bad flag, unknown session                            exit 2
├── ChoiceCancelled              the user was asked and chose nothing                 exit 130
├── ConfigError                  a settings file or variable that cannot be used      exit 6
└── ModelError                   a request that did not get its answer
    ├── TransientError           may succeed later: 429, 5xx, connection, stream      exit 75
    ├── PromptTooLong            400/413 about the size: compact reactively           exit 1
    ├── OutputTooLong            400 about max_tokens: ask for less and retry         exit 1
    ├── FieldRejected            400 that names an optional field: drop it and retry  exit 1
    ├── ThinkingRejected         400 about thinking: leave it out and retry once      exit 1
    ├── BlockRejected            400 about one content block: replace it, retry once  exit 1
    ├── AuthenticationError      401, 403, 402, no credentials                        exit 5
    ├── BudgetExceeded           --max-budget-usd is spent: nothing was sent          exit 3
    └── RequestRejected          any other error; trying again is useless             exit 1
        └── ModelNotFound        404: no such model, or no such endpoint              exit 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Feature = Literal[
    "thinking",
    "effort",
    "cache",
    "eager tool input",
    "web tools",
    "system blocks",
    "unsigned thinking",
    "reasoning gaps",
    "max_tokens",
    "usage in streams",
    "betas",
]
"""What a request may ask for or hold and a server may not take; from then on it does without."""


class AgentError(Exception):
    """The text is one line for the user, and names the fix where there is one."""

    code = 1


class UsageError(AgentError):
    code = 2


class ChoiceCancelled(AgentError):
    code = 130


class ConfigError(AgentError):
    code = 6


class ModelError(AgentError):
    """The request failed. `status` is that of the answer, None where there was none."""

    status: int | None = None


class TransientError(ModelError):
    """Worth another try. `retry_after` is what the server asked for, in seconds, or None.

    `tries` is how often at most, where fewer than usual make sense. `overloaded`: another model may be free.
    """

    code = 75

    def __init__(
        self, text: str, retry_after: float | None = None, tries: int | None = None, overloaded: bool = False
    ) -> None:
        super().__init__(text)
        self.overloaded = overloaded
        self.retry_after = retry_after
        self.tries = tries


class PromptTooLong(ModelError):
    """The prompt does not fit. `actual` and `limit` in tokens, where the server told them."""

    def __init__(self, text: str, actual: int | None = None, limit: int | None = None) -> None:
        super().__init__(text)
        self.actual = actual
        self.limit = limit


class OutputTooLong(ModelError):
    """`max_tokens` is over what the model can write; `limit` is the most it can, in tokens.

    With a `window` the limit is what that leaves beside this very prompt.
    """

    def __init__(self, text: str, limit: int, window: int | None = None) -> None:
        super().__init__(text)
        self.limit = limit
        self.window = window


class FieldRejected(ModelError):
    """The server does not take an optional feature of the request."""

    def __init__(self, text: str, feature: Feature) -> None:
        super().__init__(text)
        self.feature = feature


class ThinkingRejected(ModelError):
    """The server refused a thinking block that we sent back."""


class BlockRejected(ModelError):
    """The server refused one content block: `message` and `block` are its indices in the request.

    Both are None where the server did not say which; then it is about an image.
    """

    def __init__(self, text: str, message: int | None = None, block: int | None = None) -> None:
        super().__init__(text)
        self.message = message
        self.block = block


class AuthenticationError(ModelError):
    code = 5


class BudgetExceeded(ModelError):
    code = 3


class RequestRejected(ModelError):
    """Trying again unchanged is useless."""


class ModelNotFound(RequestRejected):
    """The model or endpoint does not exist; `listed` are the models that the server says it has."""

    def __init__(self, text: str, listed: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.listed = listed


def program_changed(error: ImportError) -> str:
    """Return the notice for a part of the program that is loaded on first use and cannot be loaded."""
    return f"makeroom changed on disk since it started ({error}): leave, and go on with makeroom -c"
