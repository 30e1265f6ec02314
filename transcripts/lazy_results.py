"""Results that the conversation does not show: left in the file when it is loaded, and fetched on demand.

Most bytes of a long session are tool outputs that a compaction has cleared or folded. Their lines are checked
but not parsed: the fact in memory has numbers, flags and `about`, but no content. The conversation folds to
the same messages until a fact is undone or rewound; before that, all content must be fetched.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from .codec import FORMAT_VERSION, BadLine, decode_line, fact_from_json, parse_line
from .disk import opened_fd
from .facts import Compacted, Fact, Opened, Result, Rewound, Undone
from .fold import Folded, fold, replace_facts

MIN_LAZY_LINE_BYTES = 2_048  # a shorter line is parsed faster than it is fetched again
_RESULT_HEAD = re.compile(
    rb'\{"v":%d,"seq":\d{1,15},"ts":"[0-9TZ:.+-]{1,40}","sid":"[^"\\]{0,200}",'
    rb'"kind":"result","of":\d{1,15},"block":\d{1,9},"content":\[' % FORMAT_VERSION
)
_CONTENT_END = b'],"tokens":['
_CHECKSUM = re.compile(rb',"crc":"([0-9a-f]{8})"\}\r?\n?\Z')
_CHECKSUM_MAX_BYTES = 24
_RESULT_KEYS = {"v", "ts", "sid", "kind", *(field.name for field in fields(Result))}


class LazyResults(dict[int, tuple[int, int]]):
    """The results without content in memory: seq -> (offset, length) of the line in the file, in bytes."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        self.path = path

    def fetch(self, *seqs: int) -> Iterator[Fact]:
        """The whole facts, one after the other. Raises OSError or BadLine where the file has changed."""
        assert self.path is not None, "results are left in a file only"
        with opened_fd(self.path, os.O_RDONLY) as fd:
            for seq in seqs:
                offset, length = self[seq]
                fact, _ = decode_line(os.pread(fd, length, offset))
                if fact.seq != seq:
                    raise BadLine(f"record {seq} is not where it was")
                yield fact


def parse_without_content(line: bytes) -> tuple[Result, str] | None:
    """The fact, without its content, of a line that is a large result in the form that we write; its sid.

    The checksum of the whole line is verified. None for any other line.
    """
    if len(line) < MIN_LAZY_LINE_BYTES or (head := _RESULT_HEAD.match(line)) is None:
        return None
    checksum = _CHECKSUM.search(line, len(line) - _CHECKSUM_MAX_BYTES)
    end = line.rfind(_CONTENT_END, head.end())  # one within `about` would leave no valid JSON behind it
    if checksum is None or end < 0:
        return None
    if int(checksum[1], 16) != zlib.crc32(memoryview(line)[: checksum.start()]):
        return None
    try:
        raw = parse_line(line[: head.end()] + line[end : checksum.start()] + b"}")
    except ValueError:
        return None
    if raw["content"] or not raw.keys() <= _RESULT_KEYS:
        return None
    tokens = raw["tokens"]  # the size must be known without the content
    if not isinstance(tokens, list) or any(type(count) is not int for count in tokens) or sum(tokens) <= 0:
        return None
    raw.pop("human", None)
    fact, sid = fact_from_json(raw)
    return (fact, sid) if isinstance(fact, Result) else None


def fetch_shown(facts: list[Fact], lazy_results: LazyResults) -> list[Fact]:
    """The facts with the content of every result that the conversation shows; those are lazy no longer."""
    edits = fold(fact for fact in facts if isinstance(fact, Opened | Compacted | Undone | Rewound)).edits
    rewound = [range(fact.to, fact.seq) for fact in facts if isinstance(fact, Rewound)]
    shown = [
        fact.seq
        for fact in facts
        if isinstance(fact, Result)
        and fact.seq in lazy_results
        and not any(fact.seq in stretch for stretch in rewound)
        and edits.covering(fact.of) is None
        and "content" not in edits.clears.get((fact.seq, 0), ())
    ]
    whole = dict(zip(shown, lazy_results.fetch(*shown), strict=True))
    for seq in shown:
        del lazy_results[seq]
    return [whole.get(fact.seq, fact) for fact in facts]


def fetch_everything(folded: Folded, lazy_results: LazyResults | None) -> Folded:
    """The session with all content. Raises OSError and BadLine where the file has changed."""
    if not lazy_results:
        return folded
    seqs = [fact.seq for fact in folded.facts if fact.seq in lazy_results]
    return replace_facts(folded, dict(zip(seqs, lazy_results.fetch(*seqs), strict=True)))
