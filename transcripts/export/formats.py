"""Export a session as Markdown, JSON, JSONL or one HTML page, each with secrets masked."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name

from ..codec import encode_fact, fact_from_json
from ..errors import StoreError
from ..facts import Fact, Opened, Reply, Result, User
from ..folding import Folded, fold
from ..load import LazyResults
from ..messages import map_strings
from ..secrets.masking import SecretMasks

# Suffix -> the function that returns the text of such a file. The module for HTML loads a Markdown parser.
EXPORTERS: Mapping[str, str] = {
    ".md": "transcripts.export.markdown:session_markdown",
    ".html": "transcripts.export.html_page:session_page",
    ".json": "transcripts.export.formats:session_json",
    ".jsonl": "transcripts.export.formats:session_lines",
}


def export_text(
    folded: Folded,
    sid: str,
    suffix: str = ".md",
    lazy_results: LazyResults | None = None,
    masks: SecretMasks | None = None,
) -> str:
    """Return the session as text in the format of a file with this suffix.

    `lazy_results` are those that the session was loaded with; `masks` masks exact values in addition to the
    known forms of secrets. Raises ValueError for an unknown suffix.
    """
    if suffix not in EXPORTERS:
        suffixes = ", ".join(EXPORTERS)
        wanted = f"a {suffix} file" if suffix else "a file without an extension"
        raise ValueError(f"cannot export to {wanted}: use one of {suffixes}")
    with suppress(StoreError):  # if the transcript was removed meanwhile, export the facts in memory
        folded = lazy_results.complete(folded) if lazy_results else folded
    text: str = resolve_name(EXPORTERS[suffix])(mask_session(folded, sid, masks or SecretMasks()), sid)
    return text


WRITTEN_CHARS = 1 << 20  # at once: while a text is encoded, no other thread runs


def mask_session(folded: Folded, sid: str, masks: SecretMasks) -> Folded:
    """Return the session with the values of `masks` and every known form of a secret masked."""
    return fold(masked_facts(folded.facts, sid, masks))


def masked_facts(facts: Iterable[Fact], sid: str, masks: SecretMasks) -> Iterator[Fact]:
    """Yield facts with the values of `masks` and every known form of a secret masked."""
    mask_short = lru_cache(4_096)(masks.all)  # names, models and paths are in most facts

    def mask(text: str) -> str:
        return mask_short(text) if len(text) < 200 else masks.all(text)

    for fact in facts:
        row = json.loads(encode_fact(fact, sid))
        values = {name: value for name, value in row.items() if name not in ("kind", "sid", "ts")}
        yield fact_from_json(row | map_strings(values, mask, keys=False))[0]


def write_private(path: Path, text: str) -> None:
    """Write an export with mode 0600, since not every secret has a known form.

    Raises FileExistsError instead of overwriting a file, and other OSErrors, after which there is no file.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", newline="") as file:
            for start in range(0, len(text), WRITTEN_CHARS):
                file.write(text[start : start + WRITTEN_CHARS])
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def session_lines(folded: Folded, sid: str) -> str:
    """Return the facts as in a transcript, one per line."""
    return b"".join(encode_fact(fact, sid) for fact in folded.facts).decode()


def session_json(folded: Folded, sid: str) -> str:
    """Return the conversation before any compaction as JSON, in the format of the Messages API."""
    plain = fold(fact for fact in folded.facts if isinstance(fact, Opened | User | Reply | Result))
    opened = folded.opened
    value = {
        "session": sid,
        "model": opened.model if opened else "",
        "folder": opened.folder if opened else "",
        "system": list(opened.system) if opened else [],
        "messages": [
            {"role": message.role, "content": [part.block.to_json() for part in message.parts]}
            for message in plain.view
        ],
    }
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
