"""The profile of a sandbox as its supervisor gets it. Types only: the supervisor never imports this."""

from __future__ import annotations

from typing import TypedDict


class ProfileMessage(TypedDict):
    """The fields of a `SandboxProfile` as JSON, and directories of the session.

    private  the session's private directory
    scratch  the directory in it for temporary files, where no sandbox has its own /tmp
    stage    the directory in it where the stage is mounted (stage.py)
    """

    folder: str
    shown: list[str]
    writable: list[str]
    read_only: list[str]
    program: list[str]
    pinned: list[str]
    held: list[str]
    hidden: list[str]
    records: list[str]
    caches: list[str]
    cache_layers: str | None
    project_writable: bool
    proxy: str | None
    ports: list[str]
    private: str
    scratch: str
    stage: str
