"""The sessions that the tests of the tools work with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .bash_session import BashSession
from .file_session import FileSession


@pytest.fixture
def files(tmp_path: Path) -> FileSession:
    return FileSession(tmp_path)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[BashSession]:
    """Nothing that its commands start may be left when it is closed."""
    shell = BashSession(tmp_path.resolve())
    yield shell
    shell.close()
    assert not shell.survivors()
    shell.runner.close()
