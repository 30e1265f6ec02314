"""Log in to MCP servers by OAuth: tokens in a private file, a loopback address for the browser's answer.

Discovery, registration, PKCE and refreshing are the library's. Outside of a login nobody is sent to a
browser: where tokens are of no use any more the person is told to log in.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import time
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from agent.version import __version__
from transcripts.disk import make_private_folders, read_regular, replace_file

from .entries import ServerEntry
from .remote import load_library, open_remote
from .server import MCP_CONNECT_TIMEOUT_S, NeedsLogin
from .session import McpSession, ServerFailed

LOGIN_TIMEOUT_S = 300.0  # for the person in the browser
MAX_TOKEN_FILE_BYTES = 256 * 1024
CALLBACK_PATH = "/callback"
_MAX_REQUEST_LINE_BYTES = 16 * 1024
_PAGE = "<!doctype html><title>makeroom</title><p>makeroom has the answer; this page can be closed."


class TokenFile:
    """The tokens and the registration for one server; implements the library's TokenStorage."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.context: Any = None  # of the provider that uses it

    def load(self) -> dict[str, Any]:
        """What is stored; nothing where that cannot be read."""
        try:
            found = json.loads(read_regular(self.path, MAX_TOKEN_FILE_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _store(self, **more: Any) -> None:
        make_private_folders(self.path.parent)
        replace_file(self.path, json.dumps({**self.load(), **more}).encode())

    async def get_tokens(self) -> Any:
        return self._made("OAuthToken", "tokens")

    async def set_tokens(self, tokens: Any) -> None:
        expires = None if tokens.expires_in is None else time.time() + tokens.expires_in
        found = self.context.oauth_metadata if self.context is not None else None
        metadata = found.model_dump(mode="json", exclude_none=True) if found is not None else None
        self._store(tokens=_plain(tokens), expires=expires, metadata=metadata)

    async def get_client_info(self) -> Any:
        return self._made("OAuthClientInformationFull", "client")

    async def set_client_info(self, client_info: Any) -> None:
        self._store(client=_plain(client_info))

    def _made(self, kind: str, key: str) -> Any:
        """A stored value as the library has it; None where there is none that it takes."""
        stored = self.load().get(key)
        return _validated(kind, stored) if isinstance(stored, dict) else None

    def forget(self) -> bool:
        """Remove the file; whether there was one. Raises OSError."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True)


def _validated(kind: str, stored: Mapping[str, Any]) -> Any:
    auth = import_module("mcp.shared.auth")
    with suppress(ValueError):
        return getattr(auth, kind).model_validate(dict(stored))
    return None


def token_file(state_dir: Path, entry: ServerEntry) -> TokenFile:
    """Where the tokens for a server are kept: another address is another file."""
    digest = hashlib.sha256(f"{entry.name}\0{entry.url}".encode()).hexdigest()[:16]
    return TokenFile(state_dir / "mcp-tokens" / f"{digest}.json")


def stored_auth(store: TokenFile, entry: ServerEntry) -> Any:
    """What signs requests by the tokens of an earlier login; None where there are none."""
    if "tokens" not in store.load():
        return None

    async def refuse(*_: Any) -> Any:
        raise NeedsLogin("it wants a login")

    return _provider(store, entry, f"http://127.0.0.1{CALLBACK_PATH}", refuse, refuse)


def _provider(
    store: TokenFile,
    entry: ServerEntry,
    redirect: str,
    show: Callable[[str], Awaitable[None]],
    answer: Callable[[], Awaitable[Any]],
) -> Any:
    oauth, shared = import_module("mcp.client.auth"), import_module("mcp.shared.auth")
    about = shared.OAuthClientMetadata(
        redirect_uris=[redirect],
        client_name=f"makeroom {__version__}",
        token_endpoint_auth_method="none",
    )
    provider: Any = oauth.OAuthClientProvider(entry.url, about, store, show, answer)
    stored, store.context = store.load(), provider.context
    provider.context.token_expiry_time = stored.get("expires")
    if isinstance(stored.get("metadata"), dict):
        provider.context.oauth_metadata = _validated("OAuthMetadata", stored["metadata"])
    return provider


class BrowserAnswer:
    """Waits for the address that the browser comes back to: at the loopback server, or from the person."""

    def __init__(self) -> None:
        self.came: asyncio.Future[Mapping[str, list[str]]] = asyncio.get_running_loop().create_future()
        self.redirect = ""
        self._server: asyncio.Server | None = None

    async def listen(self, port: int = 0) -> None:
        """Listen on the loopback address. Raises OSError."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", port, limit=_MAX_REQUEST_LINE_BYTES
        )
        self.redirect = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{CALLBACK_PATH}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ValueError):  # a line that is too long
                line = (await reader.readline()).decode("latin-1").split(" ")
                found = len(line) == 3 and self.take(line[1])
                status, page = ("200 OK", _PAGE) if found else ("404 Not Found", "")
                head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(page)}"
                writer.write(f"{head}\r\nConnection: close\r\n\r\n{page}".encode())
                await writer.drain()
        except OSError:
            pass  # the browser has gone
        finally:
            writer.close()

    def take(self, address: str) -> bool:
        """Take an address in; whether it is the one that is waited for."""
        parts = urlsplit(address.strip())
        query = parse_qs(parts.query)
        if parts.path != CALLBACK_PATH or not ({"code", "error"} & set(query)):
            return False
        if not self.came.done():
            self.came.set_result(query)
        return True

    async def result(self) -> Any:
        """What the library is told of the answer. Raises ServerFailed."""
        try:
            query = await asyncio.wait_for(asyncio.shield(self.came), LOGIN_TIMEOUT_S)
        except TimeoutError:
            raise ServerFailed(f"no answer from the browser within {LOGIN_TIMEOUT_S:.0f} s") from None
        if "error" in query:
            told = query.get("error_description") or query["error"]
            raise ServerFailed(f"the login was refused: {told[0]}")
        shared = import_module("mcp.shared.auth")
        first = {key: values[0] for key, values in query.items()}
        return shared.AuthorizationCodeResult(
            code=first["code"], state=first.get("state"), iss=first.get("iss")
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


async def log_in(
    store: TokenFile, entry: ServerEntry, show: Callable[[str, Callable[[str], bool]], Awaitable[None]]
) -> None:
    """Log in to a server; the tokens are stored. Raises ServerFailed.

    `show` is given the address for the browser, and what takes an address that the person came back to.
    """
    await asyncio.to_thread(load_library)
    callback, settings = BrowserAnswer(), entry.raw.get("oauth")
    settings = settings if isinstance(settings, dict) else {}
    port = settings.get("callbackPort")
    try:
        await callback.listen(port if isinstance(port, int) else 0)
    except OSError as error:
        raise ServerFailed(f"no loopback port for the login: {error.strerror}") from error
    try:
        store.forget()
        if isinstance(settings.get("clientId"), str):
            known = {"client_id": settings["clientId"], "redirect_uris": [callback.redirect]}
            await store.set_client_info(_validated("OAuthClientInformationFull", known))

        async def redirect(address: str) -> None:
            await show(address, callback.take)

        auth = _provider(store, entry, callback.redirect, redirect, callback.result)
        await _greet(entry, auth)
        if "tokens" not in store.load():
            raise ServerFailed("the server asks for no login")
    except OSError as error:
        raise ServerFailed(f"{store.path}: {error.strerror}") from error
    finally:
        callback.close()


async def _greet(entry: ServerEntry, auth: Any) -> None:
    """Shake hands with the server, which begins the login. Raises ServerFailed."""
    why: list[str] = []

    def lost(reason: str) -> None:
        why.append(reason)
        session.lose(reason)

    async def send(message: Mapping[str, Any]) -> None:
        await connection.send(message)

    session = McpSession(send)
    connection = await open_remote(entry, auth, session.receive, lost)
    try:
        async with asyncio.timeout(LOGIN_TIMEOUT_S + MCP_CONNECT_TIMEOUT_S):
            await session.begin()
    except TimeoutError:
        raise ServerFailed("the login took too long") from None
    except ServerFailed as error:
        raise ServerFailed(why[0] if why else str(error)) from error
    finally:
        connection.close()


def open_browser(address: str) -> None:
    """Open the address where there is a browser with a window; one in the terminal would take that over."""
    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(address)
