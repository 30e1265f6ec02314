"""Notify a user who looks elsewhere, by the window title, a bell and a desktop notification.

The terminal reports when it gains and loses the focus (DECSET 1004). Unless it has reported a loss, there is
no bell and no notification: users who look at the screen do not need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from .terminal_text import one_line

Activity = Literal["idle", "working", "asking"]
MIN_TURN_S = 10.0  # duration from which the end of a turn is announced
_MARKS: Mapping[Activity, str] = {"idle": "", "working": "… ", "asking": "? "}
_MAX_TEXT_CHARS = 120


class Notifications:
    """The title and the notifications of one session. `send` writes codes to the terminal immediately.

    `mask` removes secrets: other programs show titles and keep notifications.
    """

    def __init__(
        self,
        send: Callable[[str], None],
        environ: Mapping[str, str],
        name: str,
        mask: Callable[[str], str] = str,
    ) -> None:
        self._send = send
        self._mask = mask
        self._environ = environ
        self._name = one_line(name)[:_MAX_TEXT_CHARS]
        self._session = self._masked = ""
        self._activity: Activity = "idle"
        self._started = False
        self.focused = True

    def start(self) -> None:
        """Start the focus reports and set the title."""
        self._started = True
        self._send("\x1b[22;0t\x1b[?1004h" + self._title())  # save the title, report the focus

    def stop(self) -> None:
        """Restore the terminal, at the end or before a shell or an editor uses it."""
        if self._started:
            self._started = False
            self._send("\x1b[?1004l\x1b[23;0t")

    def show(self, activity: Activity) -> None:
        """Show the current activity in the title."""
        if activity != self._activity:
            self._activity = activity
            if self._started:
                self._send(self._title())

    def show_session(self, title: str) -> None:
        """Show the title of the session in the title of the window."""
        if title != self._session:
            self._session = title
            self._masked = self._mask(title)
            if self._started:
                self._send(self._title())

    def _title(self) -> str:
        title = f"{self._name}: {one_line(self._masked)}" if self._masked else self._name
        return f"\x1b]0;{_MARKS[self._activity]}makeroom: {title[:_MAX_TEXT_CHARS]}\x07"

    def turn_ended(self, seconds: float) -> None:
        """Announce the end of a turn, if it took long enough."""
        self.show("idle")
        if seconds >= MIN_TURN_S:
            self._announce("The turn is finished")

    def question_waits(self, question: str) -> None:
        """Announce a question that waits for an answer."""
        self.show("asking")
        self._announce(question)

    def _announce(self, text: str) -> None:
        if not self.focused:
            self._send(
                "\x07" + _desktop_notification(f"{one_line(self._mask(text))} ({self._name})", self._environ)
            )


def wants_notifications(setting: bool, environ: Mapping[str, str]) -> bool:
    """Return whether to set titles and notify: not in CI, and not on terminals that print the codes."""
    return setting and not environ.get("CI") and environ.get("TERM", "") not in ("dumb", "linux", "")


def _desktop_notification(text: str, environ: Mapping[str, str]) -> str:
    """Return the code for a notification of this terminal; "" if none is known, or in tmux."""
    shown = text[:_MAX_TEXT_CHARS].replace(";", ",")
    if environ.get("TMUX"):
        return ""
    if "kitty" in environ.get("TERM", ""):
        return f"\x1b]99;;{shown}\x1b\\"
    if environ.get("TERM_PROGRAM", "") in ("iTerm.app", "WezTerm", "ghostty"):
        return f"\x1b]9;{shown}\x07"
    if environ.get("VTE_VERSION") or environ.get("TERM", "").startswith(("rxvt", "foot")):
        return f"\x1b]777;notify;makeroom;{shown}\x07"
    return ""
