"""Host names that sandboxed commands may reach: what counts as one. Pure.

A rule `net(registry.example)` names one whole host. Hosts are compared as lower-case text, so everything that
two programs could read differently is refused: addresses in any form, a dot at the end, non-ASCII names.
"""

from __future__ import annotations

import re

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")  # as a last part: C libraries read the whole as an address


def host_name(text: str) -> str:
    """The host in lower case. Raises ValueError, with a reason for users, where it is none to be allowed."""
    host = text.lower()
    if "@" in host:
        raise ValueError("a host with a user name is refused")
    if host.startswith("[") or ":" in host or _NUMERIC_LABEL.fullmatch(host.rpartition(".")[2]):
        raise ValueError("an address is refused, only names are allowed")
    if host.endswith("."):
        raise ValueError("a name that ends in a dot is refused")
    if not host.isascii() or any(label.startswith("xn--") for label in host.split(".")):
        raise ValueError("an internationalized name is refused")
    if not host or len(host) > 253 or not all(map(_LABEL.fullmatch, host.split("."))):  # RFC 1035, 2.3.4
        raise ValueError("it is not a host name")
    return host


def shown_host(text: str) -> str:
    """A host as a client wrote it, fit for a line that users read."""
    return text[:80].encode("unicode_escape").decode("ascii")
