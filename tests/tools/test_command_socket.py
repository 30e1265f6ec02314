"""The socket of a spawner, without the spawner."""

import asyncio
import json
import os
import signal
import socket
import subprocess

import pytest

from tools.sandbox.command_socket import CommandSocket, SupervisorLost


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208 - only the number


def test_a_program_that_cannot_be_started_leaves_no_descriptor_open() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        spawner = CommandSocket(ours)
        spawner.socket.close()
        theirs.close()
        before = open_descriptors()
        with pytest.raises(SupervisorLost) as refused:
            spawner.talk(lambda data: None, path="/bin/cat", argv=["cat"], env={}, cwd="/")
        assert open_descriptors() == before, refused

    asyncio.run(run())


@pytest.mark.parametrize("lost", [True, False])
def test_commands_are_killed_if_the_spawner_is_lost_and_otherwise_left_to_it(lost: bool) -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        spawner = CommandSocket(ours)
        with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, start_new_session=True) as child, theirs:
            command = spawner.run(lambda data: None, path="/bin/cat", argv=["cat"], env={}, cwd="/")
            for message in ({"hello": "subreaper"}, {"n": 1, "pid": child.pid}):
                theirs.sendall(json.dumps(message).encode() + b"\n")
            await command.pid
            if lost:
                theirs.close()
                await command.over
                assert child.wait() == -signal.SIGKILL
            else:
                assert spawner.close() == [child.pid]
                assert command.over.done()
            child.communicate()
            assert child.returncode == (-signal.SIGKILL if lost else 0)

    asyncio.run(run())
