"""Whatever a sandboxed command tries, it stays in its project: each attempt meets the refusal that it has to.

The attempts are in sandbox_escapes.py; sandbox_process.py has them made in one session, on a machine
of its own.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .bash_session import GUARD_S
from .sandbox_escapes import ESCAPES

SANDBOX_PROCESS = Path(__file__).with_name("sandbox_process.py")


def tried(who: str) -> tuple[dict[str, str], dict[str, Any]]:
    """(what each attempt met, what was found afterwards) in a session of that user."""
    argv = [sys.executable, str(SANDBOX_PROCESS), who]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=2 * GUARD_S)
    if done.returncode == 77:
        pytest.skip(f"no wall of namespaces can be tried here as {who}: {done.stderr.strip()}")
    met, found = done.stdout.splitlines()
    return json.loads(met), json.loads(found)


# Root reads whatever it finds where it may use files of others: then there is nothing to be found.
EMPTY = ("read ", "list ")
HAD = ("give a file to somebody else",)


def is_refused(name: str, met: str, who: str) -> bool:
    refusals = ESCAPES[name][0].split("|")
    if who == "guest" and name.startswith(EMPTY):
        refusals += ["nothing", "ENOENT"]
    return met in refusals or (who == "guest" and name in HAD)


@pytest.mark.parametrize("who", ["root", "guest", "ordinary"])
@pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")
def test_every_way_out_of_the_sandbox_is_refused(who: str) -> None:
    met, found = tried(who)
    assert met.keys() == ESCAPES.keys()
    assert len(met) >= 60
    got_out = {name: met[name] for name in ESCAPES if not is_refused(name, met[name], who)}
    assert got_out == {}
    assert found == {
        "alive": "alive",
        "unchanged": True,
        "cache": "oldbuilt",
        "survivors": [],
        "record": "record",
    }
