"""The certificates that connections to a model's server trust."""

from __future__ import annotations

import os
import ssl
from functools import cache


@cache
def tls_context(server: str) -> ssl.SSLContext:
    """Return the trusted certificates, read once for all clients of a server.

    Reading takes 20 ms. A server without TLS needs none, since redirects are not followed, but a proxy with
    TLS does.
    """
    proxies = (value for name, value in os.environ.items() if name.lower().endswith("_proxy"))
    if server.startswith("http://") and not any(proxy.startswith("https:") for proxy in proxies):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    import httpx2  # 150 ms: not before the prompt is painted

    return httpx2.create_ssl_context()
