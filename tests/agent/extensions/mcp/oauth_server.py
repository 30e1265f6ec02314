"""An MCP server by HTTP, and the authorization server that it sends clients to: on one loopback port."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

ECHO = {"name": "echo", "inputSchema": {"type": "object"}}


class OauthServer(ThreadingHTTPServer):
    """`tokens` are those that it takes; without `asks` it takes all requests. `seen`: method, path, token."""

    daemon_threads = True

    def __init__(self, asks: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.asks, self.base = asks, f"http://127.0.0.1:{self.server_port}"
        self.tokens: set[str] = set()
        self.seen: list[tuple[str, str, str]] = []
        self.expires_in = 3600
        self.count = 0
        self.packed: bytes | None = None  # the answer to a call, compressed
        self.status = 200  # of that answer
        self.refusal = ""  # of a login

    def new_tokens(self) -> dict[str, Any]:
        self.count += 1
        self.tokens = {f"access-{self.count}"}
        access, refresh = f"access-{self.count}", f"refresh-{self.count}"
        return {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": self.expires_in,
            "refresh_token": refresh,
        }


class Exchange(BaseHTTPRequestHandler):
    """One request."""

    server: OauthServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, status: int, body: Any = None, **headers: str) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        base, parts = self.server.base, urlsplit(self.path)
        self.server.seen.append(("GET", parts.path, ""))
        if parts.path.startswith("/.well-known/oauth-protected-resource"):
            return self.answer(200, {"resource": f"{base}/mcp", "authorization_servers": [base]})
        if parts.path.startswith("/.well-known/oauth-authorization-server"):
            found = {name: f"{base}/{name}" for name in ("authorize", "token", "register")}
            return self.answer(
                200,
                {
                    "issuer": base,
                    "authorization_endpoint": found["authorize"],
                    "token_endpoint": found["token"],
                    "registration_endpoint": found["register"],
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                },
            )
        if parts.path == "/authorize":
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            assert query["code_challenge_method"] == "S256" and query["resource"] == f"{base}/mcp"
            answer = {"error": self.server.refusal} if self.server.refusal else {"code": "the-code"}
            back = urlencode({**answer, "state": query["state"]})
            return self.answer(302, None, Location=f"{query['redirect_uri']}?{back}")
        return self.answer(405)

    def do_DELETE(self) -> None:
        self.answer(405)

    def do_POST(self) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.server.seen.append(("POST", self.path, token))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/register":
            return self.answer(201, {"client_id": "client-1", **json.loads(body)})
        if self.path == "/token":
            given = {name: values[0] for name, values in parse_qs(body.decode()).items()}
            fine = (
                given.get("code") == "the-code"
                or given.get("refresh_token") == f"refresh-{self.server.count}"
            )
            return (
                self.answer(200, self.server.new_tokens())
                if fine
                else self.answer(400, {"error": "invalid_grant"})
            )
        if self.server.asks and token not in self.server.tokens:
            return self.answer(401, {"error": "unauthorized"}, WWW_Authenticate="Bearer")
        message = json.loads(body)
        if "id" not in message:
            return self.answer(202)
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "x"},
            },
            "tools/list": {"tools": [ECHO]},
            "tools/call": {"content": [{"type": "text", "text": self.headers.get("X-Team", "hello")}]},
        }
        if message["method"] == "tools/call" and self.server.packed is not None:
            self.send_response(self.server.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(self.server.packed)))
            self.end_headers()
            self.wfile.write(self.server.packed)
            return None
        result = results.get(message["method"], {})
        return self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})


@contextmanager
def oauth_server(asks: bool = True) -> Iterator[OauthServer]:
    """A server that runs."""
    with OauthServer(asks) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
