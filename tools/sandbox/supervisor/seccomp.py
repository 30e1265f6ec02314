"""Deny sandboxed commands the system calls that could weaken or bypass the sandbox.

The filter is a second line of defence behind namespaces and dropped capabilities, and the only one against
calls that neither of them covers.
"""

from __future__ import annotations

import errno
import os

from .bpf import ALLOW, any_bit, argument, error, install_filter, one_of, program, when
from .system_calls import NO_NEW_PRIVS, call

_NEW_NAMESPACES = 0x7E020000  # all CLONE_NEW* flags of clone
_SOCKET_FAMILIES = (0, 1, 2, 10, 16)  # unspecified, unix, inet, inet6, netlink; not vsock, packet, alg, ...
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: simulate the user's typing

_SAME_EVERYWHERE = (
    425, 426, 427,  # io_uring: opens and connects without passing this filter
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
    """Filter the calls of this process and its descendants permanently. Raises OSError.

    On a machine whose call numbers are unknown, only new privileges are denied.
    """
    call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
    if text := filter_program(os.uname().machine):
        install_filter(text)


def filter_program(machine: str) -> bytes:
    """Return the BPF program for a machine named by `uname -m`; empty if its call numbers are unknown."""
    if machine not in _MACHINES:
        return b""
    (architecture, clone, clone3, ioctl, socket, socketpair), numbers = _MACHINES[machine]
    denied = error(errno.EPERM)
    steps = [step for number in (*numbers, *_SAME_EVERYWHERE) for step in when(number, [denied])]
    # The flags of clone3 are in memory, where a filter cannot read them. The C library falls back to clone.
    steps += when(clone3, [error(errno.ENOSYS)])
    steps += when(clone, [*argument(0), *any_bit(_NEW_NAMESPACES, denied, ALLOW)])
    steps += when(ioctl, [*argument(1), *one_of(_TERMINAL_INPUT, denied, ALLOW)])
    families = [*argument(0), *one_of(_SOCKET_FAMILIES, ALLOW, error(errno.EAFNOSUPPORT))]
    return program(architecture, [*steps, *when(socket, families), *when(socketpair, families)])
