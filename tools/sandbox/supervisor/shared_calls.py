"""Deny system calls in sandboxes that share network, IPC and processes with the system."""

from __future__ import annotations

import errno
import os

from .bpf import ALLOW, argument, error, install_filter, one_of, program, when

_UNIX = 1
_NETLINK = 16
_UNSPECIFIED = 0  # allowed socket families, without those of the internet
_STREAM = 1
_SEQUENCED = 5
_KIND = 0xF  # socket types that have to connect; the other bits of the type are flags
_EVERYBODY = 0xFFFFFFFF  # as the process to signal: -1

# Per machine: its AUDIT_ARCH, and the numbers of socket, socketpair, connect, kill, prlimit64; then those of
# shmget, shmat, shmctl, semget, semop, semctl, semtimedop, msgget, msgsnd, msgrcv, msgctl, mq_open.
_SHARED_X86_64 = (0xC000003E, 41, 53, 42, 62, 302), (29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240)
_SHARED_GENERIC = (198, 199, 203, 129, 261), (194, 196, 195, 190, 193, 191, 192, 186, 189, 188, 187, 180)
_NUMBERS = {
    "x86_64": _SHARED_X86_64,
    "aarch64": ((0xC00000B7, *_SHARED_GENERIC[0]), _SHARED_GENERIC[1]),
    "riscv64": ((0xC00000F3, *_SHARED_GENERIC[0]), _SHARED_GENERIC[1]),
}


def deny_shared_calls(path_sockets: bool) -> None:
    """Filter the calls of this process and its descendants permanently.

    `path_sockets`: Landlock prevents connecting to sockets of others; without it connecting is denied. Raises
    OSError, also on a machine whose call numbers are unknown, since its network would be open.
    """
    machine = os.uname().machine
    if machine not in _NUMBERS:
        raise OSError(errno.ENOSYS, f"cannot block the network: unknown machine type {machine}")
    install_filter(shared_calls_program(machine, path_sockets))


def shared_calls_program(machine: str, path_sockets: bool) -> bytes:
    """Return the BPF program for a machine named by `uname -m`."""
    (architecture, socket, socketpair, connect, kill, prlimit), shared = _NUMBERS[machine]
    denied = error(errno.EPERM)
    steps = [step for number in shared for step in when(number, [denied])]
    steps += when(kill, [*argument(0), *one_of((_EVERYBODY,), denied, ALLOW)])
    steps += when(prlimit, [*argument(0), *one_of((0,), ALLOW, denied)])  # its own limits, not the agent's
    unreachable = error(errno.ENETUNREACH)  # as in a network namespace without a network
    if path_sockets:
        steps += when(socket, [*argument(0), *one_of((_UNSPECIFIED, _UNIX, _NETLINK), ALLOW, unreachable)])
    else:
        # A socket that need not connect could send to any path.
        connecting = [*argument(1, _KIND), *one_of((_STREAM, _SEQUENCED), ALLOW, error(errno.EACCES))]
        steps += when(connect, [error(errno.EACCES)])
        steps += when(socketpair, connecting)
        steps += when(socket, _by_family(connecting, unreachable))
    return program(architecture, steps)


def _by_family(unix: list[bytes], others: bytes) -> list[bytes]:
    """Return steps that return `unix` for Unix sockets, allow netlink, and return `others` for the rest."""
    netlink = one_of((_UNSPECIFIED, _NETLINK), ALLOW, others)
    return [*argument(0), *when(_UNIX, unix), *netlink]
