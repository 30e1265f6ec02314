"""The wheel installs one name, `makeroom`, and leaves the names of its packages to other projects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.sampling import sampled

ROOT = Path(__file__).parents[1]
PACKAGES = ("agent", "compact", "tools", "transcripts")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel of this checkout beside another project that has packages of the same four names."""
    site = tmp_path_factory.mktemp("site")
    for name in PACKAGES:
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(f"OWNER = 'the project'\nNAME = {name!r}\n")
    built = site.with_name("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", built, cwd=ROOT)
    (wheel,) = built.iterdir()
    assert {name.split("/")[0].split("-")[0] for name in ZipFile(wheel).namelist()} == {"makeroom"}
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
    )
    run(*pip, "--no-compile", "--target", site, wheel, cwd=ROOT)
    return site


def run(*argv: str | Path, cwd: Path, **environ: str) -> str:
    """Run a command and return its output; a failure shows what it printed."""
    command = [str(word) for word in argv]
    environment = os.environ | environ
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_another_project_keeps_its_packages(site: Path, tmp_path: Path) -> None:
    source = (
        f"import {', '.join(PACKAGES)}; print({', '.join(f'{name}.OWNER' for name in PACKAGES)}, sep='|')"
    )
    shown = run(sys.executable, "-c", source, cwd=tmp_path, PYTHONPATH=str(site))
    assert shown.strip().split("|") == ["the project"] * 4


@pytest.mark.parametrize("start", sampled(["console script", "python -m"], 2))
def test_the_wheel_runs_its_own_packages(site: Path, tmp_path: Path, start: str) -> None:
    for name in PACKAGES:  # the project's sources as well, in the current directory
        (tmp_path / name).symlink_to(site / name)
    command = [site / "bin" / "makeroom"] if start == "console script" else [sys.executable, "-m", "makeroom"]
    environ = {"PYTHONPATH": str(site), "HOME": str(tmp_path / "home")}
    assert run(*command, "--version", cwd=tmp_path, **environ).startswith("makeroom ")
    prompt = ("--offline", "--permission-mode", "bypassPermissions", "-p", "run `echo $((40 + 2))`")
    assert "42" in run(*command, *prompt, cwd=tmp_path, **environ)
    assert run(*command, "sessions", "list", cwd=tmp_path, **environ).count("echo") == 1


def test_every_module_of_ours_comes_from_the_wheel(site: Path, tmp_path: Path) -> None:
    source = (
        "import makeroom.__main__, agent, compact, tools, transcripts;"
        "print(agent.__file__, compact.__file__, tools.__file__, transcripts.__file__, sep='|')"
    )
    shown = run(sys.executable, "-c", source, cwd=tmp_path, PYTHONPATH=str(site))
    assert shown.strip().split("|") == [str(site / "makeroom" / name / "__init__.py") for name in PACKAGES]
