"""The socket of a spawner, without the spawner."""

import asyncio
import os
import socket

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
