"""Detect the format of a recording and read its facts.

Pure: bytes in, facts out. Each format is a module with `recognizes(file)` and `read_session(file, session)`.
"""

from ..facts import Reply
from . import api_messages, atif, claude_code, codex, entire, makeroom_record, mini_swe_agent, pi, swe_agent
from .recording import Count, ImportedSession, ParsedFile, UnreadableRecording, parse_file

MAX_RECORDING_BYTES = 1 << 30  # a recording is read into memory
# Name -> description and module; tried in this order.
IMPORT_FORMATS = {
    "makeroom": ("makeroom transcripts", makeroom_record),
    "swe-agent": ("SWE-agent trajectories", swe_agent),
    "mini-swe-agent": ("mini-SWE-agent trajectories", mini_swe_agent),
    "atif": ("ATIF trajectories (Harbor)", atif),
    "claude-code": ("Claude Code sessions", claude_code),
    "codex": ("Codex rollouts", codex),
    "entire": ("compact transcripts (Entire)", entire),
    "pi": ("pi sessions", pi),
    "messages": ("lines with messages of the Messages API", api_messages),
}


def detect_format(raw: bytes) -> tuple[str, ParsedFile]:
    """Return the name of a file's format, and the parsed file.

    Raises UnreadableRecording for an empty file or an unknown format; the message lists the known ones.
    """
    file = parse_file(raw)
    for name, (_, module) in IMPORT_FORMATS.items():
        if module.recognizes(file):
            return name, file
    formats = ", ".join(what for what, _ in IMPORT_FORMATS.values())
    raise UnreadableRecording(f"unknown format; supported: {formats}")


def import_session(raw: bytes, count: Count) -> ImportedSession:
    """Read the facts of a recording, with tokens counted by `count`.

    Raises UnreadableRecording for an empty file, an unknown format, or a recording without a model's reply.
    """
    name, file = detect_format(raw)
    session = ImportedSession(name, count, damaged=file.damaged)
    IMPORT_FORMATS[name][1].read_session(file, session)
    if not any(isinstance(fact, Reply) for fact in session.facts):
        raise UnreadableRecording(f"the {name} recording contains no reply from a model")
    return session
