"""Run programs in a sandbox: namespaces, else bubblewrap, Landlock or Seatbelt, else none.

`start_supervisor` starts the process that runs them. A `SandboxProfile` defines the permitted accesses.
"""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .block_detection import MAX_SCANNED_CHARS, SandboxedRun, find_blocked_access
    from .blocked_access import BlockedAccess, UnblockDecision, short_path
    from .command_socket import CommandHandle, SupervisorLost
    from .guards.project_guard import ProjectGuard, project_guard
    from .profile import SandboxLevel, SandboxProfile, SandboxSetting
    from .project_profile import sandbox_profile
    from .proxy.host_connection import HostConnection, HostNotPublic, HostUnreachable, connect_to_host
    from .proxy.hosts import host_name, hosts_with, is_mirror, local_port
    from .proxy.local_ports import LocalPorts
    from .proxy.server import NetworkProxy
    from .published_ports import PublishedPorts
    from .remembered_kind import KindMemory, SandboxKind
    from .supervisor_client import Supervisor, start_supervisor

__getattr__ = lazy_door(
    __name__,
    {
        "block_detection": "MAX_SCANNED_CHARS SandboxedRun find_blocked_access",
        "blocked_access": "BlockedAccess UnblockDecision short_path",
        "command_socket": "CommandHandle SupervisorLost",
        "guards.project_guard": "ProjectGuard project_guard",
        "profile": "SandboxLevel SandboxProfile SandboxSetting",
        "project_profile": "sandbox_profile",
        "proxy.host_connection": "HostConnection HostNotPublic HostUnreachable connect_to_host",
        "proxy.hosts": "host_name hosts_with is_mirror local_port",
        "proxy.local_ports": "LocalPorts",
        "proxy.server": "NetworkProxy",
        "published_ports": "PublishedPorts",
        "remembered_kind": "KindMemory SandboxKind",
        "supervisor_client": "Supervisor start_supervisor",
    },
)
