"""What the profile of a project hides from commands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.sandbox.project_profile import sandbox_profile


@pytest.mark.parametrize("program", ["on the search path", "our own"])
def test_of_a_home_with_programs_in_use_only_the_secrets_are_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    homes = tmp_path.resolve() / "home"
    for name in ("ann/project", "bob/.ssh", "bob/venv/bin", "eve/.ssh"):
        (homes / name).mkdir(parents=True)
    environ = {"PATH": "/usr/bin"}
    if program == "our own":
        monkeypatch.setattr(sys, "prefix", f"{homes}/bob/venv")
    else:
        environ["PATH"] += f":{homes}/bob/venv/bin"
    hidden = sandbox_profile(homes / "ann/project", homes / "ann", environ).hidden
    assert {homes / "bob/.ssh", homes / "eve"} <= {*hidden} and homes / "bob" not in hidden
