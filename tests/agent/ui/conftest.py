"""A terminal in which the scripted driver runs."""

import pytest

from .pty_terminal import PtyTerminal


@pytest.fixture
def terminal(tmp_path):
    with PtyTerminal(tmp_path) as started:
        yield started.ready()
