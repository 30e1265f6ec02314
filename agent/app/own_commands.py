"""Run the commands in the user's settings: hooks and the status line.

They run in the session's sandbox, unless a rule `open(command)` allows them to run outside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agent.extensions.hooks import RunCommand, named_files
from agent.loop import SessionSandbox
from tools.access import command_access
from tools.files import FileError
from tools.processes import OwnCommandEnd, command_runner, run_own_command
from tools.sandbox import SupervisorLost


def commands_within(
    sandbox: SessionSandbox, approved: Mapping[str, str] = MappingProxyType({})
) -> RunCommand:
    """Return a function that runs commands in the sandbox that the session has at that moment.

    `approved` maps a command line to the digest of the project's files that it names. If one of them has
    changed since, the function raises OSError.
    """

    async def run(line: str, given: str) -> OwnCommandEnd:
        files = approved.get(line)
        if files is not None and named_files(line, sandbox.tools.folder, sandbox.tools.environ) != files:
            raise OSError(
                "a project file that it runs has changed since its approval; approve it again with /trust"
            )
        await sandbox.check()
        access = command_access(line, sandbox.tools.folder)
        sandboxed = sandbox.level != "none" and not sandbox.permissions.rules.runs_open(access)
        runner = command_runner(sandbox.tools)
        variables = {"CLAUDE_PROJECT_DIR": str(sandbox.tools.folder)}
        try:
            return await run_own_command(runner, line, given, variables=variables, sandboxed=sandboxed)
        except (SupervisorLost, FileError) as error:
            raise OSError(str(error)) from error

    return run
