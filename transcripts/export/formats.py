"""Export a session as Markdown, JSON, JSONL or one HTML page, each with secrets masked.

An export is made and written in pieces, since it may be as large as the transcript.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name

from msgspec import Struct, field

from ..codec import encode_fact, fact_from_json
from ..facts import Fact, Opened, Reply, Result, User
from ..folding import Folded, fold
from ..load import LazyResults
from ..messages import map_strings
from ..secrets.masking import SecretMasks
from ..view import Part
from ..view_renderer import each_message, result_block

# Suffix -> the function that yields the text of such a file. The module for HTML loads a Markdown parser.
EXPORTERS: Mapping[str, str] = {
    ".md": "transcripts.export.markdown:session_markdown",
    ".html": "transcripts.export.html_page:session_page",
    ".json": "transcripts.export.formats:session_json",
    ".jsonl": "transcripts.export.formats:session_lines",
}


class ExportedSession(Struct):
    """A session to be written to a file, with secrets masked by `mask`.

    `folded` lacks the content of `lazy_results`, which may be too large for memory; `facts` has all content.
    """

    sid: str
    folded: Folded
    lazy_results: LazyResults = field(default_factory=LazyResults)
    mask: Callable[[Fact], Fact] = lambda fact: fact

    @property
    def facts(self) -> Iterator[Fact]:
        """The facts, each with its content."""
        return map(self.whole, self.folded.facts)

    def whole(self, fact: Fact) -> Fact:
        """Return a fact of `folded` with its content."""
        return self.mask(self.lazy_results.whole(fact)) if fact.seq in self.lazy_results else fact


def export_pieces(
    folded: Folded,
    sid: str,
    suffix: str = ".md",
    lazy_results: LazyResults | None = None,
    masks: SecretMasks | None = None,
) -> Iterator[str]:
    """Yield the session as text in the format of a file with this suffix.

    `lazy_results` are those that the session was loaded with; `masks` masks exact values in addition to the
    known forms of secrets. Raises ValueError for an unknown suffix.
    """
    if suffix not in EXPORTERS:
        suffixes = ", ".join(EXPORTERS)
        wanted = f"a {suffix} file" if suffix else "a file without an extension"
        raise ValueError(f"cannot export to {wanted}: use one of {suffixes}")
    pieces: Iterator[str] = resolve_name(EXPORTERS[suffix])(
        mask_session(folded, sid, masks or SecretMasks(), lazy_results)
    )
    return pieces


def mask_session(
    folded: Folded, sid: str, masks: SecretMasks, lazy_results: LazyResults | None = None
) -> ExportedSession:
    """Return the session with the values of `masks` and every known form of a secret masked."""
    mask = fact_mask(sid, masks)
    return ExportedSession(sid, fold(map(mask, folded.facts)), lazy_results or LazyResults(), mask)


def fact_mask(sid: str, masks: SecretMasks) -> Callable[[Fact], Fact]:
    """Return a function that masks the values of `masks` and every known form of a secret in a fact."""
    mask_short = lru_cache(4_096)(masks.all)  # names, models and paths are in most facts

    def mask(text: str) -> str:
        return mask_short(text) if len(text) < 200 else masks.all(text)

    def masked(fact: Fact) -> Fact:
        row = json.loads(encode_fact(fact, sid))
        values = {name: value for name, value in row.items() if name not in ("kind", "sid", "ts")}
        made = fact_from_json(row | map_strings(values, mask, keys=False))[0]
        return fact if made == fact else made  # most facts hold no secret, and need no second copy

    return masked


def encoded(pieces: Iterable[str]) -> Iterator[bytes]:
    """Yield text as UTF-8, at most a million characters at once: no other thread runs in the meantime."""
    for text in pieces:
        for start in range(0, len(text), 1 << 20):
            yield text[start : start + (1 << 20)].encode()


def write_private(path: Path, pieces: Iterable[str]) -> None:
    """Write an export with mode 0600, since not every secret has a known form.

    Raises FileExistsError instead of overwriting a file, and other OSErrors, after which there is no file.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.writelines(encoded(pieces))
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def session_lines(session: ExportedSession) -> Iterator[str]:
    """Yield the facts as in a transcript, one per line."""
    return (encode_fact(fact, session.sid).decode() for fact in session.facts)


def session_json(session: ExportedSession) -> Iterator[str]:
    """Yield the conversation before any compaction as JSON, in the format of the Messages API."""
    conversation = (Opened, User, Reply, Result)
    plain = fold(fact for fact in session.folded.facts if isinstance(fact, conversation))
    opened = session.folded.opened

    def content(part: Part) -> dict[str, object]:
        if part.use is not None and isinstance(result := plain.fact_at(part.seq), Result):
            whole = session.whole(result)
            assert isinstance(whole, Result)
            return result_block(part.use, whole).to_json()
        return part.block.to_json()

    head = {
        "session": session.sid,
        "model": opened.model if opened else "",
        "folder": opened.folder if opened else "",
        "system": list(opened.system) if opened else [],
        "messages": [],
    }
    yield json.dumps(head, ensure_ascii=False, indent=1).removesuffix("]\n}")
    separator = "\n"
    for message in each_message(plain.entries, plain.edits):
        value = {"role": message.role, "content": [content(part) for part in message.parts]}
        text = json.dumps(value, ensure_ascii=False, indent=1)
        yield separator + "  " + text.replace("\n", "\n  ")
        separator = ",\n"
    yield "\n ]\n}\n"
