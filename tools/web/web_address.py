"""Read the URLs that may be fetched: of public hosts on the standard ports, and of this machine. Pure."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

from msgspec import Struct

from tools.sandbox import host_name, local_port

LOCAL_HOST = "localhost"
_STANDARD_PORTS = {"http": 80, "https": 443}


class WebAddress(Struct, frozen=True):
    """A URL in its parts; `target` is the path with the query, as it is sent."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def is_local(self) -> bool:
        """Return whether it is a port of this machine."""
        return self.host == LOCAL_HOST

    @property
    def place(self) -> str:
        """Return what is approved, as a rule names it: a host, or a port of this machine."""
        return f"{self.host}:{self.port}" if self.is_local else self.host

    @property
    def authority(self) -> str:
        """Return the host as it is sent, with its port unless that is the standard one."""
        return self.host if self.port == _STANDARD_PORTS[self.scheme] else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_address(text: str) -> WebAddress:
    """Read a URL, without a scheme as https. Raises ValueError with the reason if it may not be fetched."""
    text = text.strip()
    if "://" not in text:
        text = f"https://{text}"
    parts = urlsplit(text)
    if parts.scheme not in _STANDARD_PORTS:
        raise ValueError(f"only http and https URLs can be fetched, not {parts.scheme}")
    if "@" in parts.netloc:
        raise ValueError("URLs with a user name or password are not allowed")
    host = host_name(parts.hostname or "")
    port = _STANDARD_PORTS[parts.scheme] if parts.port is None else parts.port
    if host == LOCAL_HOST and local_port(f"{host}:{port}") is None:
        raise ValueError("only ports from 1024 up are allowed for this machine, as in localhost:8000")
    if host != LOCAL_HOST and port != _STANDARD_PORTS[parts.scheme]:
        raise ValueError("only the ports 443 for https and 80 for http are allowed")
    # What is already encoded stays as it is; spaces and letters beyond ASCII are encoded.
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    if parts.query:
        target += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    if re.search(r"[\x00-\x20\x7f]", target):
        raise ValueError("it contains control characters")
    return WebAddress(parts.scheme, host=host, port=port, target=target)
