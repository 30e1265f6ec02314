"""Detect the format of a recording and read its facts.

Pure: bytes in, facts out. Each format is a module with `recognizes(file)` and `read_session(file, session)`.
"""

from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from ..facts import Reply
from ..storage.disk import read_regular
from . import api_messages, atif, claude_code, codex, entire, makeroom_record, mini_swe_agent, pi, swe_agent
from .recording import Count, ImportedSession, ParsedFile, UnreadableRecording, parse_file

MAX_RECORDING_BYTES = 1 << 30  # of a recording, which is read into memory


class ImportFormat(NamedTuple):
    """A format of recordings: what its files are, for the user, and the module that reads them."""

    what: str
    module: ModuleType


IMPORT_FORMATS = {  # by name; tried in this order
    "makeroom": ImportFormat("makeroom transcripts", makeroom_record),
    "swe-agent": ImportFormat("SWE-agent trajectories", swe_agent),
    "mini-swe-agent": ImportFormat("mini-SWE-agent trajectories", mini_swe_agent),
    "atif": ImportFormat("ATIF trajectories (Harbor)", atif),
    "claude-code": ImportFormat("Claude Code sessions", claude_code),
    "codex": ImportFormat("Codex rollouts", codex),
    "entire": ImportFormat("compact transcripts (Entire)", entire),
    "pi": ImportFormat("pi sessions", pi),
    "messages": ImportFormat("lines with messages of the Messages API", api_messages),
}


def detect_format(raw: bytes) -> tuple[str, ParsedFile]:
    """Return the name of a file's format, and the parsed file.

    Raises UnreadableRecording for an empty file or an unknown format; the message lists the known ones.
    """
    file = parse_file(raw)
    for name, each in IMPORT_FORMATS.items():
        if each.module.recognizes(file):
            return name, file
    formats = ", ".join(each.what for each in IMPORT_FORMATS.values())
    raise UnreadableRecording(f"unknown format; supported: {formats}")


def import_file(path: Path, count: Count) -> ImportedSession:
    """Read the facts of a recording in a file. Raises OSError, and what `import_session` raises."""
    return import_session(read_regular(path, MAX_RECORDING_BYTES), count)


def import_session(raw: bytes, count: Count) -> ImportedSession:
    """Read the facts of a recording, with tokens counted by `count`.

    Raises UnreadableRecording for an empty file, an unknown format, or a recording without a model's reply.
    """
    name, file = detect_format(raw)
    session = ImportedSession(name, count, damaged=file.damaged)
    IMPORT_FORMATS[name].module.read_session(file, session)
    if not any(isinstance(fact, Reply) for fact in session.facts):
        raise UnreadableRecording(f"the {name} recording contains no reply from a model")
    return session
