"""Whatever a walled command tries, it stays in its project: each attempt meets the refusal that it has to.

The attempts are in wall_escapes.py; wall_process.py has them made in one session, on a machine of its own.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .bash_session import GUARD_S
from .wall_escapes import ESCAPES

WALL_PROCESS = Path(__file__).with_name("wall_process.py")


def tried(who: str) -> tuple[dict[str, str], dict[str, Any]]:
    """(what each attempt met, what was found afterwards) in a session of that user."""
    argv = [sys.executable, str(WALL_PROCESS), who]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=2 * GUARD_S)
    if done.returncode == 77:
        pytest.skip(f"no wall of namespaces can be tried here as {who}: {done.stderr.strip()}")
    met, found = done.stdout.splitlines()
    return json.loads(met), json.loads(found)


@pytest.mark.parametrize("who", ["root", "ordinary"])
@pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")
def test_every_way_out_of_the_wall_is_refused(who: str) -> None:
    met, found = tried(who)
    assert met.keys() == ESCAPES.keys()
    assert len(met) >= 60
    got_out = {
        name: met[name] for name, (refusals, _) in ESCAPES.items() if met[name] not in refusals.split("|")
    }
    assert got_out == {}
    assert found == {
        "alive": "alive",
        "unchanged": True,
        "cache": "oldbuilt",
        "survivors": [],
        "record": "record",
    }
