"""Log in to MCP servers with OAuth: tokens are in a private file, the browser returns to a loopback address.

The library does discovery, registration, PKCE and refreshing. The browser is only opened by an explicit
login. When the tokens no longer work, the server requires a new login.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import parse_qs, urlsplit

from agent.settings_files import json_object_in
from agent.version import __version__
from transcripts.storage import make_private_folders, replace_file
from transcripts.wording import cause_of

from .entries import ServerEntry
from .failures import NeedsLogin, ServerFailed
from .remote import load_library, open_remote
from .server import MCP_CONNECT_TIMEOUT_S
from .session import McpSession, object_in

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthMetadata, OAuthToken

Value = TypeVar("Value")
LOGIN_TIMEOUT_S = 300.0  # for the user in the browser
CALLBACK_PATH = "/callback"
# Shows the URL for the browser. The function it gets takes the URL that the browser was redirected to.
ShowAddress = Callable[[str, Callable[[str], bool]], Awaitable[None]]


class TokenFile:
    """The tokens and the registration for one server; implements the library's TokenStorage.

    provider  the provider that uses it
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.provider: OAuthClientProvider | None = None

    def load(self) -> dict[str, Any]:
        """Return the stored values; none if the file cannot be read."""
        return json_object_in(self.path, 256 * 1024)

    def _store(self, **more: Any) -> None:
        make_private_folders(self.path.parent)
        replace_file(self.path, json.dumps({**self.load(), **more}).encode())

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthToken

        return _validated(OAuthToken.model_validate, self.load().get("tokens"))

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires = None if tokens.expires_in is None else time.time() + tokens.expires_in
        metadata = self.provider.context.oauth_metadata if self.provider is not None else None
        self._store(
            tokens=_plain(tokens),
            expires=expires,
            metadata=None if metadata is None else _plain(metadata),
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        return _validated(OAuthClientInformationFull.model_validate, self.load().get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._store(client=_plain(client_info))

    def forget(self) -> bool:
        """Remove the file; return whether there was one. Raises OSError."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True


def _plain(value: OAuthToken | OAuthClientInformationFull | OAuthMetadata) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_none=True)


def _validated(validate: Callable[[object], Value], stored: object) -> Value | None:
    """Return a stored value as the library has it; None if it does not accept the value."""
    if isinstance(stored, dict):
        with suppress(ValueError):
            return validate(stored)
    return None


def token_file(state_dir: Path, entry: ServerEntry) -> TokenFile:
    """Return the file of the tokens for a server, which depends on its URL."""
    digest = hashlib.sha256(f"{entry.name}\0{entry.url}".encode()).hexdigest()[:16]
    return TokenFile(state_dir / "mcp-tokens" / f"{digest}.json")


def stored_auth(state_dir: Path, entry: ServerEntry) -> httpx2.Auth | None:
    """Return the signer of requests with the tokens of an earlier login; None if there are none."""
    store = token_file(state_dir, entry)
    if "tokens" not in store.load():
        return None

    async def refuse(address: str = "") -> NoReturn:
        raise NeedsLogin("it requires a login")

    return _provider(store, entry, f"http://127.0.0.1{CALLBACK_PATH}", show=refuse, answer=refuse)


def _provider(
    store: TokenFile,
    entry: ServerEntry,
    redirect: str,
    *,
    show: Callable[[str], Awaitable[None]],
    answer: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> OAuthClientProvider:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata, OAuthMetadata

    about = OAuthClientMetadata.model_validate(
        {
            "redirect_uris": [redirect],
            "client_name": f"makeroom {__version__}",
            "token_endpoint_auth_method": "none",
        }
    )
    provider = OAuthClientProvider(entry.url, about, store, show, answer)
    store.provider = provider
    stored = store.load()
    provider.context.token_expiry_time = stored.get("expires")
    metadata = _validated(OAuthMetadata.model_validate, stored.get("metadata"))
    if metadata is not None:
        provider.context.oauth_metadata = metadata
    return provider


class BrowserAnswer:
    """Waits for the URL that the browser is redirected to, at the loopback server or from the user.

    Only an answer with the state of the login counts: any page in the browser could send another one first.
    """

    def __init__(self) -> None:
        self._state: list[str] | None = None
        self.came: asyncio.Future[Mapping[str, list[str]]] = asyncio.get_running_loop().create_future()
        self.redirect = ""
        self._server: asyncio.Server | None = None

    async def listen(self, port: int = 0) -> None:
        """Listen on the loopback address. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=16 * 1024)
        self.redirect = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{CALLBACK_PATH}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ValueError):  # a line that is too long
                line = (await reader.readline()).decode("latin-1").split(" ")
                writer.write(_page(found=len(line) == 3 and self.take(line[1])))
                await writer.drain()
        except OSError:
            pass  # the browser closed the connection
        finally:
            writer.close()

    def expect(self, address: str) -> None:
        """Wait for the answer to the login at a URL."""
        self._state = parse_qs(urlsplit(address).query).get("state")

    def take(self, address: str) -> bool:
        """Take a URL; return whether it is the awaited one."""
        try:
            parts = urlsplit(address.strip())
        except ValueError:
            return False
        query = parse_qs(parts.query)
        if parts.path != CALLBACK_PATH or not ({"code", "error"} & set(query)):
            return False
        if query.get("state") != self._state:
            return False
        if not self.came.done():
            self.came.set_result(query)
        return True

    async def result(self) -> AuthorizationCodeResult:
        """Return the answer in the form of the library. Raises ServerFailed."""
        from mcp.shared.auth import AuthorizationCodeResult

        try:
            query = await asyncio.wait_for(asyncio.shield(self.came), LOGIN_TIMEOUT_S)
        except TimeoutError:
            raise ServerFailed(f"no answer from the browser within {LOGIN_TIMEOUT_S:.0f} s") from None
        if "error" in query:
            reasons = query.get("error_description") or query["error"]
            raise ServerFailed(f"the login was refused: {reasons[0]}")
        first = {key: values[0] for key, values in query.items()}
        return AuthorizationCodeResult(code=first["code"], state=first.get("state"), iss=first.get("iss"))

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


def _page(*, found: bool) -> bytes:
    """Return the HTTP response to the browser."""
    page = "<!doctype html><title>makeroom</title><p>makeroom received the answer. You can close this page."
    status = "200 OK" if found else "404 Not Found"
    body = page if found else ""
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}"
    return f"{head}\r\nConnection: close\r\n\r\n{body}".encode()


async def log_in(state_dir: Path, entry: ServerEntry, show: ShowAddress) -> None:
    """Log in to a server, and store the tokens. Raises ServerFailed."""
    await asyncio.to_thread(load_library)
    from mcp.shared.auth import OAuthClientInformationFull

    store = token_file(state_dir, entry)
    settings = object_in(entry.raw.get("oauth"))
    port = settings.get("callbackPort")
    callback = BrowserAnswer()

    async def redirect(address: str) -> None:
        callback.expect(address)
        await show(address, callback.take)

    try:
        await callback.listen(port if isinstance(port, int) else 0)
    except OSError as error:
        raise ServerFailed(f"cannot listen for the login: {cause_of(error)}") from error
    try:
        store.forget()
        if isinstance(settings.get("clientId"), str):
            registration = {"client_id": settings["clientId"], "redirect_uris": [callback.redirect]}
            await store.set_client_info(OAuthClientInformationFull.model_validate(registration))
        auth = _provider(store, entry, callback.redirect, show=redirect, answer=callback.result)
        await _greet(entry, auth)
        if "tokens" not in store.load():
            raise ServerFailed("the server does not require a login")
    except OSError as error:
        raise ServerFailed(f"{store.path}: {cause_of(error)}") from error
    finally:
        callback.close()


async def _greet(entry: ServerEntry, auth: httpx2.Auth) -> None:
    """Initialize a session with the server, which begins the login. Raises ServerFailed."""
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


def log_out(state_dir: Path, entry: ServerEntry) -> bool:
    """Forget the tokens for a server; return whether there were any. Raises OSError."""
    return token_file(state_dir, entry).forget()


def open_browser(address: str) -> None:
    """Open the URL in a graphical browser, since a text browser would take over the terminal."""
    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(address)
