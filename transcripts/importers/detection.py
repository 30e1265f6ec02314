"""The formats of recordings: detect the format of a file, and read its facts.

Pure: bytes in, facts out. Each format is a module with `recognizes(file)` and `read_session(file, session)`.
"""

from ..facts import Reply
from . import api_messages, claude_code, makeroom_record, pi, swe_agent
from .recording import Count, ImportedSession, ParsedFile, UnreadableRecording, parse_file

MAX_RECORDING_BYTES = 1 << 30  # a recording is read at once
# Name -> what it is, and the module that reads it; in the order in which they are tried.
IMPORT_FORMATS = {
    "makeroom": ("our own transcripts (.transcripts/*.jsonl)", makeroom_record),
    "swe-agent": ("SWE-agent trajectories (*.traj)", swe_agent),
    "claude-code": ("Claude Code sessions (~/.claude/projects/*/*.jsonl)", claude_code),
    "pi": ("pi sessions (~/.pi/agent/sessions/*/*.jsonl)", pi),
    "messages": ("plain Messages API messages, one a line", api_messages),
}


def detect_format(raw: bytes) -> tuple[str, ParsedFile]:
    """The name of the format of a file's bytes, and the file parsed.

    Raises UnreadableRecording where it is empty, or of no known format: the message lists those.
    """
    file = parse_file(raw)
    for name, (_, module) in IMPORT_FORMATS.items():
        if module.recognizes(file):
            return name, file
    known = "; ".join(what for what, _ in IMPORT_FORMATS.values())
    raise UnreadableRecording(f"no known format. Give one of: {known}")


def import_session(raw: bytes, count: Count) -> ImportedSession:
    """The facts of a recording, their tokens counted by `count`.

    Raises UnreadableRecording where it is empty, of no known format, or without any reply of a model.
    """
    name, file = detect_format(raw)
    session = ImportedSession(name, count, damaged=file.damaged)
    IMPORT_FORMATS[name][1].read_session(file, session)
    if not any(isinstance(fact, Reply) for fact in session.facts):
        raise UnreadableRecording(f"a {name} recording without any reply of a model: nothing to replay")
    return session
