"""A responder that plays a prepared list of replies, in order, and fails when it is asked for more."""

from collections.abc import Iterable
from threading import Lock
from typing import TypeAlias

from .reply import Body, Reply, Responder, says

Step: TypeAlias = Reply | str | Responder
"""A reply, the text of one, or a function from the body of a request to a reply."""


class ScriptExhausted(Exception):
    """The script was asked for more replies than it holds."""


class ScriptedModel:
    """Plays one of `steps` a request: a Reply, a plain string (a text reply) or a function of the body.

    `then` answers everything after the last step; without it a further request raises `ScriptExhausted`,
    which the server turns into an error 500 and records as refused.
    """

    def __init__(self, steps: Iterable[Step], then: Responder | None = None) -> None:
        self._steps = list(steps)
        self._then = then
        self._lock = Lock()
        self.played = 0

    def __call__(self, body: Body) -> Reply:
        with self._lock:
            step = self._steps[self.played] if self.played < len(self._steps) else self._then
            if step is None:
                raise ScriptExhausted(
                    f"the script holds {len(self._steps)} replies and was asked for one more"
                )
            self.played += 1
        if isinstance(step, Reply):
            return step
        return Reply([says(step)]) if isinstance(step, str) else step(body)

    @property
    def left(self) -> int:
        """The number of steps that have not been played."""
        return max(0, len(self._steps) - self.played)
