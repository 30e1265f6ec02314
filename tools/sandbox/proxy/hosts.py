"""Validate the names of hosts that sandboxed commands may reach. Pure.

A rule `net(registry.example)` names exactly one host. Hosts are compared as lower-case text, so everything
that programs could interpret differently is rejected: addresses in any form, a trailing dot, non-ASCII names.
A rule `net(localhost:5432)` names one port of this machine.
"""

from __future__ import annotations

from tools.text import word_set
from transcripts.patterns import lazy_pattern

_LABEL = lazy_pattern(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC_LABEL = lazy_pattern(
    r"[0-9]+|0x[0-9a-f]*"
)  # as the last label, it makes C libraries read the name as an address


# Hosts of one service, of which an installation needs all: an index, and the files that it names.
_TOGETHER = (
    ("pypi.org", "files.pythonhosted.org"),
    ("index.crates.io", "static.crates.io"),
    ("proxy.golang.org", "sum.golang.org"),
    ("rubygems.org", "index.rubygems.org"),
)


_INDEXES = frozenset(host for hosts in _TOGETHER for host in hosts) | word_set(
    "registry.npmjs.org registry.yarnpkg.com repo.maven.apache.org repo1.maven.org api.nuget.org"
)


# Networks of companies, of VPN clients that invent addresses for names, and for documentation. Neither this
# machine nor services with its metadata are in them.
_MIRROR_NETWORKS = (
    *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    "198.18.0.0/15",
    *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),
)


def is_package_index(host: str) -> bool:
    """Return whether a host is a public package index, or one that serves the files of an index."""
    return host in _INDEXES


def is_mirror(host: str, address: str) -> bool:
    """Return whether a host is a package index that a company serves itself, at this private address.

    A command cannot choose the address of such a host.
    """
    if not is_package_index(host):
        return False
    from ipaddress import ip_address, ip_network  # saves other sessions 4 ms

    try:
        found = ip_address(address)
    except ValueError:
        return False
    return any(found in ip_network(network) for network in _MIRROR_NETWORKS)


def hosts_with(host: str) -> tuple[str, ...]:
    """Return the other hosts of a package index, which are asked about together with it."""
    together = next((hosts for hosts in _TOGETHER if host in hosts), ())
    return tuple(other for other in together if other != host)


def host_name(text: str) -> str:
    """Return the host in lower case. Raises ValueError, with a reason for users, if it is not allowed."""
    host = text.lower()
    if "@" in host:
        raise ValueError("a host with a user name is not allowed")
    if host.startswith("[") or ":" in host or _NUMERIC_LABEL.fullmatch(host.rpartition(".")[2]):
        raise ValueError("addresses are not allowed, only host names")
    if host.endswith("."):
        raise ValueError("a name that ends with a dot is not allowed")
    if not host.isascii() or any(label.startswith("xn--") for label in host.split(".")):
        raise ValueError("internationalized names are not allowed")
    if not host or len(host) > 253 or not all(map(_LABEL.fullmatch, host.split("."))):  # RFC 1035, 2.3.4
        raise ValueError("it is not a host name")
    return host


def shown_host(text: str) -> str:
    """Return a host as the client wrote it, safe to print in a line."""
    return text[:80].encode("unicode_escape").decode("ascii")


def local_port(text: str) -> int | None:
    """Return the port of `localhost:PORT`, None for anything else.

    Ports below 1024 are not among them: the relay has no privileges to listen there.
    """
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and 1_024 <= int(port) < 65_536
    return int(port) if host == "localhost" and is_port else None
