"""Why there was no answer: an exception of the client with its causes, as one line. Pure."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from agent.errors import AuthenticationError, ModelError, RequestRejected, TransientError

LOCAL = ("localhost", "127.0.0.1", "::1")
LOCAL_TRIES = 3  # a machine of one's own that refuses is not going to come up by itself


def summarize_error(error: BaseException) -> str:
    """The first words that the exception or one of its causes has, else its kind; one line."""
    said = (" ".join(str(each).split()) for each in _chain(error))
    named = next((words for words in said if words), "")
    return named[:300] or type(error).__name__


def map_connection_error(place: str, host: str, error: BaseException) -> ModelError:
    """What it means that a connection to `place` (a URL at `host`) did not come about or did not last."""
    causes = list(_chain(error))
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        why = next(
            summarize_error(cause) for cause in causes if isinstance(cause, ssl.SSLCertVerificationError)
        )
        return RequestRejected(
            f"no trust in the certificate of {place}: {why} (SSL_CERT_FILE may name another authority)"
        )
    if any(type(cause).__name__ == "ProxyError" for cause in causes):
        return _proxied(place, summarize_error(causes[-1]))
    tries = LOCAL_TRIES if host in LOCAL else None
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return TransientError(f"no connection to {place}: nothing listens there", tries=tries)
    inner = causes[1:] or causes  # the client's own words are always the same
    said = next(
        (words for cause in inner if (words := " ".join(str(cause).split()))), type(inner[-1]).__name__
    )
    return TransientError(f"no connection to {place}: {said}", tries=tries)


def _proxied(place: str, why: str) -> ModelError:
    if "407" in why:
        return AuthenticationError(
            f"the proxy on the way to {place} wants credentials: HTTPS_PROXY=http://name:password@host"
        )
    return TransientError(f"no connection to {place} through the proxy: {why}")


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
