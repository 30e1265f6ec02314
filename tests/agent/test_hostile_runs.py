"""The whole program against a hostile server: memory, signals, and every byte that reaches a terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from pathlib import Path

import pytest

from tests.agent.model.hostile_answers import (
    ESCAPES,
    EVIL,
    begin,
    call,
    calling,
    delta,
    drip,
    event,
    forever,
    headed,
    page,
    refusal,
    start,
    text,
)
from tests.agent.model.raw_server import HEAD, Answer, raw
from tests.agent.ui.headless_run import environment
from tests.agent.ui.pty_terminal import PtyTerminal, forked_makeroom

from .measured_run import measured

MAX_PEAK_MB = 300.0
HIDING = "\x9b\x9d\x9c\x85\u202e\u202c\u2066\u2069\u2028\U000e0041"
EVIL_CALLS = calling(
    begin(0, type="thinking", thinking=EVIL, signature=EVIL),
    event("content_block_stop", index=0),
    call(EVIL, EVIL, json.dumps({"words": EVIL}), 1),
    call("b", "bash", json.dumps({"command": f"echo '{EVIL}'".replace("\0", "")}), 2),
    call("w", "write", json.dumps({"file_path": "a\x1b]0;x\x07\u202eb", "content": EVIL}), 3),
    call("r", "read", json.dumps({"file_path": EVIL}), 4),
)
EVIL_END = HEAD + start(model=EVIL) + text(EVIL) + event("error", error={"type": EVIL, "message": EVIL})


def environ_for(url: str) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "test-key-123456"}


def obeyed(output: bytes) -> list[str]:
    """Return everything from the server that a terminal would obey or hide; our title counts as text."""
    text = output.decode("utf-8", "replace")
    shown = re.sub("\x1b\\]0;([^\x00-\x1f]*makeroom: [^\x00-\x1f]*)\x07", r"\1", text)
    sequences = [each for each in ESCAPES if each.startswith("\x1b") and each[:4] in shown]
    return [*sequences, *(char for char in HIDING if char in shown)]


def prompted(*answers: Answer) -> Answer:
    """The answers to what is posted, the last one for ever after; nothing is known of the model."""
    waiting = list(answers)

    def answer(connection: socket.socket, body: bytes) -> None:
        given = (waiting.pop(0) if len(waiting) > 1 else waiting[0]) if body else page("404 No", b"")
        given(connection) if callable(given) else connection.sendall(given)

    return answer


def signalling(number: int, pids: list[int], begun: bytes, then: Answer) -> Answer:
    """Sends the beginning, then a signal to the client, and continues with the other answer."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(begun)
        os.kill(pids[0], number)
        assert callable(then)
        then(connection)

    return answer


FLOODED = HEAD + start() + begin(0)
LETTER, NOTHING = (delta(0, "text_delta", text=letter) for letter in ("a", ""))


@pytest.mark.parametrize(
    ("number", "begun", "then", "code"),
    [
        pytest.param(
            signal.SIGTERM, FLOODED + NOTHING * 9_999, forever(b"", NOTHING), 143, marks=pytest.mark.sweep
        ),
        (signal.SIGINT, headed(status="400 Bad") + b"<" * 9_999, drip(b"", b"<"), 130),
        pytest.param(
            signal.SIGINT, FLOODED + LETTER * 9_999, forever(b"", LETTER), 130, marks=pytest.mark.sweep
        ),
    ],
    ids=["nothing", "error", "letters"],
)
def test_a_signal_is_heard_while_an_endless_answer_comes_in(
    tmp_path: Path, number: int, begun: bytes, then: Answer, code: int
) -> None:
    pids: list[int] = []
    with raw(prompted(signalling(number, pids, begun, then))) as url:
        environ = environment(tmp_path, None, **environ_for(url))
        found = measured(tmp_path, environ, ["-p", "go"], pids.append)
    assert (found.code, found.out, found.err) == (code, b"", b"error: interrupted\n")
    assert found.peak < MAX_PEAK_MB


def test_a_script_at_a_terminal_prints_nothing_that_it_obeys(tmp_path: Path) -> None:
    with raw(prompted(EVIL_CALLS, EVIL_END)) as url:
        argv = forked_makeroom("-p go --allowedTools bash write --permission-mode acceptEdits")
        with PtyTerminal(tmp_path, (100, 50), argv, **environ_for(url)) as terminal:
            terminal.ends()
    assert b"evil" in terminal.raw and terminal.raw.count(b"\xe2\x97\x8f") == 4
    assert re.findall(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", bytes(terminal.raw)) == []
    assert obeyed(bytes(terminal.raw)) == [] and len(obeyed(EVIL.encode())) > 9


@pytest.mark.parametrize("answers", [(EVIL_CALLS, EVIL_END), (refusal("400 Bad", EVIL, kind=EVIL),)])
def test_the_screen_shows_nothing_that_a_terminal_obeys(tmp_path: Path, answers: tuple[bytes, ...]) -> None:
    with raw(prompted(*answers)) as url:
        argv = forked_makeroom("--allowedTools bash write --permission-mode acceptEdits")
        with PtyTerminal(tmp_path, (100, 50), argv, **environ_for(url)) as terminal:
            terminal.sees("/help").type("go\r").sees("✗", "erased").type("/status\r").sees("policy")
    assert obeyed(bytes(terminal.raw)) == []
