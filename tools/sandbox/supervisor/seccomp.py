"""The system calls that sandboxed commands are denied: what could widen the sandbox, or reach around it.

The filter is the second lock behind namespaces and missing capabilities, and the first against what neither
covers.
"""

from __future__ import annotations

import errno
import os

from .bpf import ALLOW, any_bit, argument, error, install_filter, one_of, program, when
from .system_calls import NO_NEW_PRIVS, call

_NEW_NAMESPACES = 0x7E020000  # all CLONE_NEW* flags of clone
_SOCKET_FAMILIES = (0, 1, 2, 10, 16)  # unspecified, unix, inet, inet6, netlink; not vsock, packet, alg, ...
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: type as the user would

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
    call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
    if text := filter_program(os.uname().machine):
        install_filter(text)


def filter_program(machine: str) -> bytes:
    """The BPF program for a machine as `uname -m` names it; empty where its numbers are not known."""
    if machine not in _MACHINES:
        return b""
    (architecture, clone, clone3, ioctl, socket, socketpair), numbers = _MACHINES[machine]
    denied = error(errno.EPERM)
    steps = [step for number in (*numbers, *_SAME_EVERYWHERE) for step in when(number, [denied])]
    # The flags of clone3 are in memory: the C library falls back to clone.
    steps += when(clone3, [error(errno.ENOSYS)])
    steps += when(clone, [*argument(0), *any_bit(_NEW_NAMESPACES, denied, ALLOW)])
    steps += when(ioctl, [*argument(1), *one_of(_TERMINAL_INPUT, denied, ALLOW)])
    families = [*argument(0), *one_of(_SOCKET_FAMILIES, ALLOW, error(errno.EAFNOSUPPORT))]
    return program(architecture, [*steps, *when(socket, families), *when(socketpair, families)])
