"""The supervisor starts with few imports, and its replacements for them behave as the originals do."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tools.sandbox.supervisor.c_modules import Socket, dumps, loads, recv_fds, send_fds, suppress

_PACKAGE = Path(__file__).parents[2] / "tools/sandbox/supervisor"
_SLOW = ("collections", "contextlib", "enum", "functools", "json", "re", "signal", "socket", "typing")
_VALUES = [
    {"op": "run", "n": 12, "argv": ["bash", "-c", "echo 'ä€😀' \"\\\n\t\0\x7f"], "env": {}, "talks": True},
    {"hello": "namespaces", "why": ""},
    {
        "n": -1,
        "left": [[1, "sh"], [2, "\udcff is half of a pair"]],
        "over": False,
        "errno": None,
        "rest": 0.5,
    },
    [],
]


def test_a_start_imports_no_slow_modules() -> None:
    imports = "import sys; sys.path.append(sys.argv[1]); import supervisor.serve, ctypes, resource, fcntl"
    for module in _PACKAGE.glob("*.py"):
        imports += f"; import supervisor.{module.stem}"
    command = [
        sys.executable,
        "-P",
        "-s",
        "-S",
        "-c",
        f"{imports}; print(*sys.modules)",
        str(_PACKAGE.parent),
    ]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "supervisor.spawner" in loaded
    assert [module for module in _SLOW if module in loaded] == []


def test_values_are_encoded_and_decoded_as_by_json() -> None:
    assert [dumps(value) for value in _VALUES] == [json.dumps(value) for value in _VALUES]
    assert [loads(json.dumps(value)) for value in _VALUES] == _VALUES
    with pytest.raises(TypeError, match="bytes"):
        dumps({"argv": [b"ls"]})


def test_descriptors_are_sent_and_received_with_data() -> None:
    ours, theirs = (Socket(fileno=end.detach()) for end in socket.socketpair())
    with ours, theirs, Path(os.devnull).open() as null:
        send_fds(ours, b"two", [null.fileno(), null.fileno()])
        data, fds = recv_fds(theirs, 100, 16)
        assert data == b"two"
        assert [os.path.sameopenfile(fd, null.fileno()) for fd in fds] == [True, True]
        assert not any(os.get_inheritable(fd) for fd in fds)
        for fd in fds:
            os.close(fd)
    assert ours.fileno() == -1


def test_an_accepted_connection_is_a_socket_of_the_same_kind() -> None:
    with Socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        with Socket(socket.AF_INET, socket.SOCK_STREAM) as client:
            client.connect(listener.getsockname())
            accepted, address = listener.accept()
            with accepted:
                assert address == client.getsockname()
                client.sendall(b"hello")
                assert accepted.recv(100) == b"hello"


def test_only_the_named_exceptions_are_suppressed() -> None:
    with suppress(ValueError, OSError):
        raise FileNotFoundError
    with pytest.raises(KeyError), suppress(ValueError, OSError):
        raise KeyError
