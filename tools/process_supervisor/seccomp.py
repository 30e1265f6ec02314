"""The system calls that walled commands are denied: what could widen the wall, or reach around it.

A filter is a classic BPF program over `struct seccomp_data`, packed here by hand. It is the second lock
behind namespaces and missing capabilities, and the first against what neither covers.
"""

from __future__ import annotations

import errno
import os
import struct

from .system_calls import NO_NEW_PRIVS, call

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000  # linux/seccomp.h
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # linux/bpf_common.h
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # in struct seccomp_data
_X32_BIT = 0x40000000  # of a number: the call comes from the x32 ABI
_NEW_NAMESPACES = 0x7E020000  # all CLONE_NEW* flags of clone
_SOCKET_FAMILIES = (0, 1, 2, 10, 16)  # unspecified, unix, inet, inet6, netlink; not vsock, packet, alg, ...
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: type as the person would
_SET_SECCOMP, _MODE_FILTER = 22, 2  # linux/prctl.h, linux/seccomp.h

_SAME_EVERYWHERE = (
    425, 426, 427,  # io_uring: opens and connects past this filter
    428, 429, 430, 431, 432, 433, 442, 467,  # open_tree, move_mount, fs*, mount_setattr, open_tree_attr
)  # fmt: skip
# Per machine: its AUDIT_ARCH, and the numbers of clone, clone3, ioctl, socket, socketpair; then those of
# mount, umount2, pivot_root, chroot, unshare, setns, bpf, add_key, request_key, keyctl, userfaultfd,
# perf_event_open, open_by_handle_at, kexec_load, kexec_file_load, init_module, finit_module, delete_module,
# swapon, swapoff, reboot, acct, settimeofday, clock_settime, quotactl, syslog.
_X86_64 = (
    (0xC000003E, 56, 435, 16, 41, 53),
    (165, 166, 155, 161, 272, 308, 321, 248, 249, 250, 323, 298, 304, 246, 320, 175, 313, 176, 167, 168, 169,
     163, 164, 227, 179, 103),
)  # fmt: skip
_GENERIC = (
    (220, 435, 29, 198, 199),
    (40, 39, 41, 51, 97, 268, 280, 217, 218, 219, 282, 241, 265, 104, 294, 105, 273, 106, 224, 225, 142, 89,
     170, 112, 60, 116),
)  # fmt: skip
_MACHINES = {
    "x86_64": _X86_64,
    "aarch64": ((0xC00000B7, *_GENERIC[0]), _GENERIC[1]),
    "riscv64": ((0xC00000F3, *_GENERIC[0]), _GENERIC[1]),
}


def deny_system_calls() -> None:
    """Filter the calls of this process and all that it starts, for good. Raises OSError.

    On a machine whose numbers are not known, only new privileges are denied.
    """
    import ctypes

    call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
    program = filter_program(os.uname().machine)
    if program:
        text = ctypes.create_string_buffer(program, len(program))
        head = struct.pack(
            "HxxxxxxP" if struct.calcsize("P") == 8 else "HxxP", len(program) // 8, ctypes.addressof(text)
        )
        call("prctl", _SET_SECCOMP, _MODE_FILTER, head, 0, 0)


def filter_program(machine: str) -> bytes:
    """The BPF program for a machine as `uname -m` names it; empty where its numbers are not known."""
    if machine not in _MACHINES:
        return b""
    (architecture, clone, clone3, ioctl, socket, socketpair), numbers = _MACHINES[machine]
    steps = [_step(_LOAD, _ARCHITECTURE_AT), _step(_EQUAL, architecture, 1, 0), _step(_RETURN, _KILL)]
    steps += [_step(_LOAD, _NUMBER_AT), _step(_AT_LEAST, _X32_BIT, 0, 1), _step(_RETURN, _KILL)]
    denied = _error(errno.EPERM)
    for number in (*numbers, *_SAME_EVERYWHERE):
        steps += _when(number, [denied])
    steps += _when(
        clone3, [_error(errno.ENOSYS)]
    )  # its flags are in memory; the C library falls back to clone
    steps += _when(
        clone, [_argument(0), _step(_ANY_BIT, _NEW_NAMESPACES, 0, 1), denied, _step(_RETURN, _ALLOW)]
    )
    terminal = [
        _step(_EQUAL, request, len(_TERMINAL_INPUT) - at, 0) for at, request in enumerate(_TERMINAL_INPUT)
    ]
    steps += _when(ioctl, [_argument(1), *terminal, _step(_RETURN, _ALLOW), denied])
    families = [
        _step(_EQUAL, family, len(_SOCKET_FAMILIES) - at, 0) for at, family in enumerate(_SOCKET_FAMILIES)
    ]
    refused = [_argument(0), *families, _error(errno.EAFNOSUPPORT), _step(_RETURN, _ALLOW)]
    steps += _when(socket, refused) + _when(socketpair, refused)
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    """One instruction; `true` and `false` are how many of the next ones a comparison skips."""
    return struct.pack("=HBBI", code, true, false, value)


def _when(number: int, steps: list[bytes]) -> list[bytes]:
    """Steps that are taken for one system call only, and end with a return."""
    return [_step(_EQUAL, number, 0, len(steps)), *steps]


def _one_of(values: tuple[int, ...], then: bytes, otherwise: bytes) -> list[bytes]:
    """Return by `then` if what was loaded is one of the values."""
    tests = [_step(_EQUAL, value, len(values) - at, 0) for at, value in enumerate(values)]
    return [*tests, otherwise, then]


def _argument(index: int) -> bytes:
    """Load the lower half of an argument: the kernel looks at no more of those that are filtered here."""
    return _step(_LOAD, _ARGUMENTS_AT + 8 * index)


def _error(code: int) -> bytes:
    return _step(_RETURN, _ERRNO | code)
