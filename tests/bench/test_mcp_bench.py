"""Cost of configured MCP servers that nothing uses, against the same run without any."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.measured_run import measured
from tests.strict_api.reply import Reply, says
from tests.strict_api.server import Server

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "agent" / "extensions" / "mcp" / "server_script.py"
SERVERS = 5


@pytest.mark.bench
def test_five_servers_cost_a_plain_answer_next_to_nothing(tmp_path):
    entry = {"command": sys.executable, "args": ["-I", "-S", str(SCRIPT)]}
    configured = tmp_path / "with" / ".config" / "makeroom" / "mcp.json"
    configured.parent.mkdir(parents=True)
    configured.write_text(json.dumps({"mcpServers": {f"s{n}": entry for n in range(SERVERS)}}))
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", folder], check=True)
    with Server(lambda body: Reply([says("echo")])) as server:
        environ = {**os.environ, "ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "sk-ant-test"}
        environ |= {"PYTHONPATH": str(ROOT)}

        def processor_seconds(home: str) -> float:
            run = measured(folder, {**environ, "HOME": str(tmp_path / home)}, ["-p", "echo"])
            assert run.code == 0, run.err
            return run.processor

        pairs = [(processor_seconds("without"), processor_seconds("with")) for _ in range(7)]
    without, with_servers = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    print(
        f"\n-p echo: {with_servers * 1000:.0f} ms of CPU with {SERVERS} servers, {without * 1000:.0f} without"
    )
    print(f"ratio {with_servers / without:.2f}")
    assert with_servers <= 1.08 * without
