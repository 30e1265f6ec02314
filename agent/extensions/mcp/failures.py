"""Failures of MCP servers. The text of each is the reason, for the user and the model."""


class ServerFailed(Exception):
    """A request to a server failed."""


class ConnectionLost(ServerFailed):
    """The connection to a server has ended."""


class NeedsLogin(ServerFailed):
    """A server requires a login."""
