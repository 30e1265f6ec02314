from pathlib import Path

import pytest

from agent.checkpoints.recorder import Checkpoints

from .project import Seq


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return (tmp_path / "project").resolve()


@pytest.fixture
def seq() -> Seq:
    return Seq()


@pytest.fixture
def checkpoints(root: Path, seq: Seq) -> Checkpoints:
    return Checkpoints(root, "s1", seq)
