"""Build and install seccomp filters: classic BPF programs over `struct seccomp_data`, packed by hand.

A process may have several filters, of which the strictest decides.
"""

from __future__ import annotations

import struct

from .system_calls import NO_NEW_PRIVS, call

_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000  # linux/seccomp.h
_LOAD = 0x20
_AND = 0x54
_EQUAL = 0x15
_AT_LEAST = 0x35
_ANY_BIT = 0x45
_RETURN = 0x06  # linux/bpf_common.h
_NUMBER_AT = 0
_ARCHITECTURE_AT = 4
_ARGUMENTS_AT = 16  # in struct seccomp_data
_X32_BIT = 0x40000000  # in a number: the call uses the x32 ABI
_SET_SECCOMP = 22
_MODE_FILTER = 2  # linux/prctl.h, linux/seccomp.h

Steps = list[bytes]


def _step(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    """Return one instruction; `true` and `false` are the numbers of instructions that a comparison skips."""
    return struct.pack("=HBBI", code, true, false, value)


ALLOW = _step(_RETURN, _ALLOW)


def error(code: int) -> bytes:
    """Return the action that makes the call fail with this errno."""
    return _step(_RETURN, _ERRNO | code)


def argument(index: int, mask: int | None = None) -> Steps:
    """Load the lower half of an argument, which is all that the kernel uses of those filtered here."""
    load = _step(_LOAD, _ARGUMENTS_AT + 8 * index)
    return [load] if mask is None else [load, _step(_AND, mask)]


def when(number: int, steps: Steps) -> Steps:
    """Return steps for one system call only, which end with a return."""
    return [_step(_EQUAL, number, 0, len(steps)), *steps]


def one_of(values: tuple[int, ...], then: bytes, otherwise: bytes) -> Steps:
    """Return steps that return `then` if the loaded value is one of the values."""
    tests = [_step(_EQUAL, value, len(values) - at) for at, value in enumerate(values)]
    return [*tests, otherwise, then]


def any_bit(bits: int, then: bytes, otherwise: bytes) -> Steps:
    """Return steps that return `then` if the loaded value has one of the bits."""
    return [_step(_ANY_BIT, bits, 0, 1), then, otherwise]


def program(architecture: int, steps: Steps) -> bytes:
    """Return a program of such steps. Calls with numbers of another architecture or x32 kill the process."""
    kill = _step(_RETURN, _KILL)
    begin = [_step(_LOAD, _ARCHITECTURE_AT), _step(_EQUAL, architecture, 1), kill]
    begin += [_step(_LOAD, _NUMBER_AT), _step(_AT_LEAST, _X32_BIT, 0, 1), kill]
    return b"".join([*begin, *steps, ALLOW])


def install_filter(text: bytes) -> None:
    """Filter the calls of this process and its descendants permanently. Raises OSError."""
    import ctypes

    call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
    buffer = ctypes.create_string_buffer(text, len(text))
    layout = "HxxxxxxP" if struct.calcsize("P") == 8 else "HxxP"
    head = struct.pack(layout, len(text) // 8, ctypes.addressof(buffer))
    call("prctl", _SET_SECCOMP, _MODE_FILTER, head, 0, 0)
