"""MCP servers: their configuration, their connections, and their tools, prompts and resources."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .approval import mcp_items, server_item, user_server_items
    from .calls import direct_tool
    from .entries import ServerEntry, plugin_entries, read_entry
    from .failures import ConnectionLost, ServerFailed
    from .files import FILE_SCOPES, FileScope, ServerFiles
    from .names import meant_call
    from .oauth import log_in, log_out, open_browser
    from .requirements import missing_requirement
    from .restriction import restricted_tool
    from .server import NOT_APPROVED, McpServer, Opener, client_servers
    from .source import McpServers, McpSetup

__getattr__ = lazy_door(
    __name__,
    {
        "approval": "mcp_items server_item user_server_items",
        "calls": "direct_tool",
        "entries": "ServerEntry plugin_entries read_entry",
        "failures": "ConnectionLost ServerFailed",
        "files": "FILE_SCOPES FileScope ServerFiles",
        "names": "meant_call",
        "oauth": "log_in log_out open_browser",
        "requirements": "missing_requirement",
        "restriction": "restricted_tool",
        "server": "NOT_APPROVED McpServer Opener client_servers",
        "source": "McpServers McpSetup",
    },
)
