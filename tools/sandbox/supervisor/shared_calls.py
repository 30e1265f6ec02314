"""The system calls that are denied where sandboxed commands share network, IPC and processes with all."""

from __future__ import annotations

import errno
import os

from .bpf import ALLOW, argument, error, install_filter, one_of, program, when

_UNIX = 1
_NETLINK = 16
_UNSPECIFIED = 0  # socket families that are left; not the internet's
_STREAM = 1
_SEQUENCED = 5
_KIND = 0xF  # kinds of sockets that have to connect; the rest of the type is flags
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
    """Filter the calls of this process and all that it starts, for good.

    `path_sockets`: Landlock keeps sockets of others from being connected to; otherwise nothing may.
    Raises OSError, also on a machine whose numbers are not known: its network would be open.
    """
    machine = os.uname().machine
    if machine not in _NUMBERS:
        raise OSError(errno.ENOSYS, f"the network cannot be closed on a machine of the kind {machine}")
    install_filter(shared_calls_program(machine, path_sockets))


def shared_calls_program(machine: str, path_sockets: bool) -> bytes:
    """The BPF program for a machine as `uname -m` names it."""
    (architecture, socket, socketpair, connect, kill, prlimit), shared = _NUMBERS[machine]
    denied = error(errno.EPERM)
    steps = [step for number in shared for step in when(number, [denied])]
    steps += when(kill, [*argument(0), *one_of((_EVERYBODY,), denied, ALLOW)])
    steps += when(prlimit, [*argument(0), *one_of((0,), ALLOW, denied)])  # of itself; not of the agent
    unreachable = error(errno.ENETUNREACH)  # as where there is a network namespace without a network
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
    """Return by `unix` for Unix sockets, allow netlink, answer `others` with an error."""
    netlink = one_of((_UNSPECIFIED, _NETLINK), ALLOW, others)
    return [*argument(0), *when(_UNIX, unix), *netlink]
