"""A profile as the supervisor of a sandbox gets it, for tests of what it does with one."""

from tools.sandbox.supervisor.profile_message import ProfileMessage

NAMES_NOTHING: ProfileMessage = {
    "folder": "/",
    "shown": [],
    "writable": [],
    "read_only": [],
    "program": [],
    "pinned": [],
    "held": [],
    "hidden": [],
    "records": [],
    "caches": [],
    "cache_layers": None,
    "project_writable": False,
    "proxy": None,
    "ports": [],
    "private": "",
    "scratch": "",
    "stage": "",
}
