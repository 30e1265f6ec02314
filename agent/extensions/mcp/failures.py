"""Failures of MCP servers; the text of each says why, for the user and the model."""


class ServerFailed(Exception):
    """A server did not do what it was asked for."""


class ConnectionLost(ServerFailed):
    """The connection to a server has ended."""


class NeedsLogin(ServerFailed):
    """A server wants the user to log in."""
