"""MCP servers: their configuration, their connections, and their tools, prompts and resources."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .approval import *
    from .calls import *
    from .entries import *
    from .failures import *
    from .files import *
    from .names import *
    from .oauth import *
    from .requirements import *
    from .server import *
    from .source import *
    from .tool import *

__getattr__ = lazy_door(
    __name__,
    {
        "approval": "mcp_items server_item user_server_items",
        "calls": "direct_tool",
        "entries": "ServerEntry plugin_entries",
        "failures": "ConnectionLost ServerFailed",
        "files": "FILE_SCOPES FileScope ServerFiles",
        "names": "meant_call",
        "oauth": "log_in log_out open_browser",
        "requirements": "missing_requirement",
        "server": "NOT_APPROVED McpServer Opener client_servers",
        "source": "McpServers McpSetup",
        "tool": "restricted_tool",
    },
)
