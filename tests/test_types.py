"""Check the types of the program and its tests, beside the other tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.timeout(600)  # without a cache it takes 20 s of CPU time, and has the processors not to itself
def test_all_packages_and_tests_pass_strict_type_checking() -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--num-workers", "0"]  # workers take 15 % more CPU time
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
