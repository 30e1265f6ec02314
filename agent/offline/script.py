"""A brain for tests that answers from a prepared list, in order, and says so when the list is at its end."""

from collections.abc import Iterable
from threading import Lock

from .reply import Answers, Body, Reply, says


class Exhausted(Exception):
    """The script was asked for more replies than it holds."""


class Script:
    """Plays `steps` one a request: a Reply, a plain string (a text reply) or a callable of the body.

    `then` answers everything after the last step; without it a further request raises `Exhausted`, which the
    server turns into an error 500 and records as refused.
    """

    def __init__(self, steps: Iterable[Reply | str | Answers], then: Answers | None = None) -> None:
        self._steps = list(steps)
        self._then = then
        self._lock = Lock()
        self.played = 0

    def __call__(self, body: Body) -> Reply:
        with self._lock:
            step = self._steps[self.played] if self.played < len(self._steps) else self._then
            if step is None:
                raise Exhausted(f"the script holds {len(self._steps)} replies and was asked for one more")
            self.played += 1
        if isinstance(step, Reply):
            return step
        return Reply([says(step)]) if isinstance(step, str) else step(body)

    @property
    def left(self) -> int:
        """How many of the steps have not been played."""
        return max(0, len(self._steps) - self.played)
