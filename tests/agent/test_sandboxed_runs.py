"""Whole runs with sandboxed commands: the effect of a denial, and of a missing sandbox, on a script."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.app.config import load_config
from agent.app.setup import RunSetup
from agent.cli.arguments import parse
from agent.cli.launch import run
from agent.errors import ConfigError
from tests.agent.ui.headless_run import credentials, run_here
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server

LINE = "git config user.name A"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["git", "init", "-q", tmp_path / "app"], check=True, env=environ)
    return tmp_path / "app"


def done(folder: Path, capfd: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, Any], str]:
    """Return (exit code, the result line, the results for the model) of a run that runs LINE."""
    model = ScriptedModel([Reply((calls("bash", command=LINE),)), "done"])
    with Server(model) as server:
        ended = run_here(folder, capfd, server, "go", "--output-format", "stream-json", *flags)
        assert list(server.refused) == []
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    told = [str(line["message"]["content"]) for line in lines if line["type"] == "user"]
    return ended.returncode, lines[-1], told[-1]


def test_a_script_is_informed_which_rule_would_allow_the_line(
    repository: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, result, told = done(repository, capfd)
    if "blocked" not in told:
        pytest.skip("there is no wall here")
    assert code == 0 and "no user can be asked" in told  # JSON has its own word for it
    (denial,) = result["permission_denials"]
    assert denial["tool_input"] == {"command": LINE}
    assert f"--allowedTools 'open({LINE})' would allow it" in told


def test_without_a_required_sandbox_there_is_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def none(self: object) -> tuple[str, str]:
        return "none", "the kernel is too old"

    monkeypatch.setattr("tools.processes.runner.CommandRunner.sandbox", none)
    monkeypatch.chdir(tmp_path)
    with Server(ScriptedModel([])) as server:
        for name, value in credentials(tmp_path, server).items():
            monkeypatch.setenv(name, value)
        assert run(parse(["-p", "--sandbox", "require", "go"])) == ConfigError.code
        assert not server.requests
    told = capsys.readouterr().err
    assert 'sandbox is "require"' in told and "the kernel is too old" in told and told.count("\n") == 1


def test_the_flag_wins_over_every_setting(tmp_path: Path) -> None:
    (tmp_path / ".makeroom").mkdir()
    (tmp_path / ".makeroom" / "settings.toml").write_text("sandbox = 'require'")
    config = load_config({}, tmp_path, tmp_path / "home")
    assert RunSetup(parse([]), config, tmp_path, {}).sandbox.mode == "require"
    assert RunSetup(parse(["--sandbox", "off"]), config, tmp_path, {}).sandbox.mode == "off"
