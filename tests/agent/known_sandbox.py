"""The kind of sandbox that this system allows, found out once for the sessions that tests start.

Otherwise each session in a new home directory sets up a sandbox to describe it to the model, which takes
more CPU time than a short answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.version import __version__
from tests.tools.sandbox_session import sandboxed_session
from tools.sandbox.remembered_kind import KindMemory, SandboxKind


@cache
def sandbox_kind() -> SandboxKind:
    with TemporaryDirectory() as folder:
        session = sandboxed_session(Path(folder).resolve())
        level, _ = session.runner.run(session.commands.sandbox())
        kind = SandboxKind(level, hides_records=session.how() == "namespace")
        session.close()
        session.runner.close()
    return kind


def remember_sandbox(state: Path, environ: Mapping[str, str]) -> None:
    """Store the kind in makeroom's state directory, as an earlier run would have.

    Variables that change the kind leave it to the session to find it out.
    """
    if "MAKEROOM_NAMESPACE" not in environ:
        KindMemory(state / "sandbox.json", __version__, environ).remember(sandbox_kind())
