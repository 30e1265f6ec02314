"""Run programs in a sandbox: namespaces, else bubblewrap, Landlock or Seatbelt, else none.

`start_supervisor` starts the process that runs them. A `SandboxProfile` defines the permitted accesses.
"""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .block_detection import *
    from .blocked_access import *
    from .command_socket import *
    from .guards.project_guard import *
    from .passage import *
    from .profile import *
    from .project_profile import *
    from .proxy.host_connection import *
    from .proxy.hosts import *
    from .proxy.network import *
    from .published_ports import *
    from .remembered_kind import *
    from .supervisor_client import *

__getattr__ = lazy_door(
    __name__,
    {
        "block_detection": "MAX_SCANNED_CHARS SandboxedRun find_blocked_access unnamed_refusal",
        "blocked_access": "BlockedAccess UnblockDecision short_path",
        "command_socket": "CommandHandle LeftProcess SupervisorLost",
        "guards.project_guard": "ProjectGuard",
        "passage": "Passage passage_for",
        "profile": "SandboxLevel SandboxProfile SandboxSetting",
        "project_profile": "sandbox_profile",
        "proxy.host_connection": (
            "HostConnection HostNotPublic HostUnreachable connect_to_host is_public_address"
        ),
        "proxy.hosts": "host_name is_mirror local_port",
        "proxy.network": "SandboxNetwork",
        "published_ports": "PublishedPorts",
        "remembered_kind": "KindMemory SandboxKind",
        "supervisor_client": "Supervisor start_supervisor",
    },
)
