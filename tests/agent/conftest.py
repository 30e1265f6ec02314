"""A directory outside of every project."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_home import real_home


@pytest.fixture
def outside() -> Iterator[Path]:
    """A directory that is neither in the project nor below a directory for temporary files."""
    home = real_home()
    if not os.access(home, os.W_OK) or str(home).startswith(("/tmp", "/var/tmp")):
        pytest.skip("there is no place to write outside of the project")
    folder = Path(tempfile.mkdtemp(prefix="makeroom-test-", dir=home))
    yield folder
    shutil.rmtree(folder)
