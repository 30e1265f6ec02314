"""Facts to lines and back: one JSON object a line, with a CRC-32 of what stands before it.

    {"v":1,"seq":7,"ts":"2026-11-21T09:30:00.125Z","sid":"...","kind":"user",...,"crc":"9f3a01bc"}

Fields that hold their default are left out, so that a line stays readable by eye. A line of a newer
version or of an unknown kind comes back as `UnknownFact` and is kept as it was.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from typing import Any

from .facts import KIND_OF, KINDS, Clear, Edit, Fact, Fold, StoredOutput, UnknownFact, Unthink
from .messages import Block, Usage, block_to_json, blocks_from_json, replace_surrogates_in_json

VERSION = 1
_PARSE = json.JSONDecoder().raw_decode
_CRC = b',"crc":"'
_TAIL = len(_CRC) + 8 + 2  # ,"crc":"xxxxxxxx"}


class BadLine(ValueError):
    """The line is no record of ours, or its bytes are damaged. The message says what is wrong."""


def encode(fact: Fact, sid: str) -> bytes:
    """The fact as one line, newline included. Lone surrogates are replaced: no file can hold them."""
    if isinstance(fact, UnknownFact):
        payload = dict(fact.raw)
    else:
        payload = {"v": VERSION, "seq": fact.seq, "ts": _stamp(fact.ts), "sid": sid}
        payload["kind"] = KIND_OF[type(fact)]
        payload.update(_body(fact))
    return seal(payload)


def seal(payload: Mapping[str, Any]) -> bytes:
    """A payload as one line, its checksum and newline added."""
    try:
        body = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        body = json.dumps(
            replace_surrogates_in_json(payload), ensure_ascii=False, separators=(",", ":")
        ).encode()
    head = body[:-1]
    return b'%b%b%08x"}\n' % (head, _CRC, zlib.crc32(head))


def decode(line: bytes) -> tuple[Fact, str]:
    """The fact of a line, and its session id.

    Raises:
        BadLine: not JSON, no record, or the checksum does not fit.
    """
    line = line.rstrip(b"\r\n").removeprefix(b"\xef\xbb\xbf")
    _check_crc(line)
    try:
        raw = parse(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON: {error}") from error
    return from_raw(raw)


def from_raw(raw: Any) -> tuple[Fact, str]:
    """The fact of a parsed line; one whose fields we cannot read is `UnknownFact` and kept as it is.

    Raises BadLine where there is no number, time, session or kind.
    """
    if not isinstance(raw, dict):
        raise BadLine("not an object")
    try:
        version, seq, ts = int(raw["v"]), int(raw["seq"]), _seconds(raw["ts"])
        sid, kind = str(raw["sid"]), str(raw["kind"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadLine(f"no record: {error!r}") from error
    if seq < 1:
        raise BadLine(f"no record has the number {seq}")
    if version <= VERSION and kind in KINDS:
        try:
            return _build(KINDS[kind], seq, ts, raw), sid
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
            pass  # as unreadable as a kind that we do not know, and kept in the same way
    return UnknownFact(seq, ts, kind, {key: value for key, value in raw.items() if key != "crc"}), sid


def parse(line: bytes) -> Any:
    """The JSON value of a line; quicker than json.loads, which looks for other encodings first."""
    text = line.decode()
    value, end = _PARSE(text)
    if end != len(text):
        raise ValueError(f"more than one value: something stands behind character {end}")
    return value


def _check_crc(line: bytes) -> None:
    if len(line) <= _TAIL or line[-_TAIL : -_TAIL + len(_CRC)] != _CRC:
        raise BadLine("no checksum at the end of the line")
    if line[-10:-2] != b"%08x" % zlib.crc32(line[:-_TAIL]):
        raise BadLine("the checksum does not fit")


def _body(fact: Fact) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name, default in _defaults(type(fact)):
        value = getattr(fact, name)
        if default is not MISSING and value == default:
            continue
        body[name] = _ENCODE[name](value) if name in _ENCODE else value
    return body


def _build(made: type[Any], seq: int, ts: float, raw: Mapping[str, Any]) -> Fact:
    values = {}
    for name, reader in _READERS[made]:
        if name in raw:
            values[name] = raw[name] if reader is None else reader(raw[name])
    fact: Fact = made(seq, ts, **values)  # TypeError where one is missing
    return fact


def _defaults(made: type[Any]) -> tuple[tuple[str, Any], ...]:
    return _DEFAULTS[made]


def _stamp(ts: float) -> str:
    moment = datetime.fromtimestamp(ts, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _blocks(blocks: tuple[Block, ...]) -> list[dict[str, Any]]:
    return [block_to_json(block) for block in blocks]


def _edit(edit: Edit) -> dict[str, Any]:
    match edit:
        case Clear():
            head = {"edit": "clear", "seq": edit.seq, "block": edit.block, "field": edit.field}
            return {**head, "text": edit.text, "saves": edit.saves}
        case Fold():
            head = {"edit": "fold", "first": edit.first, "last": edit.last}
            return {**head, "blocks": _blocks(edit.blocks), "tokens": edit.tokens}
        case Unthink():
            return {"edit": "unthink", "first": edit.first, "last": edit.last}


def _read_edit(raw: Mapping[str, Any]) -> Edit:
    match raw["edit"]:
        case "clear":
            return Clear(raw["seq"], raw["block"], raw["field"], raw["text"], raw.get("saves", 0))
        case "fold":
            return Fold(raw["first"], raw["last"], blocks_from_json(raw["blocks"]), raw.get("tokens", 0))
        case "unthink":
            return Unthink(raw["first"], raw["last"])
    raise BadLine(f"unknown edit {raw['edit']!r}")


_DEFAULTS = {
    made: tuple(
        (f.name, f.default if f.default_factory is MISSING else f.default_factory())
        for f in fields(made)
        if f.name not in ("seq", "ts")
    )
    for made in KINDS.values()
}
_USAGE = tuple(f.name for f in fields(Usage))
_STORED = tuple(f.name for f in fields(StoredOutput))

_ENCODE: dict[str, Callable[[Any], Any]] = {
    "blocks": _blocks,
    "content": _blocks,
    "edits": lambda edits: [_edit(edit) for edit in edits],
    "usage": lambda usage: {name: getattr(usage, name) for name in _USAGE if getattr(usage, name)},
    "stored": lambda stored: {name: getattr(stored, name) for name in _STORED},
    "human": dict,
    "about": dict,
    "tools": lambda tools: [dict(tool) for tool in tools],
}
_DECODE: dict[str, Callable[[Any], Any]] = {
    "blocks": blocks_from_json,
    "content": blocks_from_json,
    "edits": lambda raw: tuple(_read_edit(edit) for edit in raw),
    "usage": lambda raw: Usage(**{name: int(raw[name]) for name in _USAGE if name in raw}),
    "stored": lambda raw: StoredOutput(**{name: raw[name] for name in _STORED}),
    "tools": tuple,
    "system": tuple,
    "tokens": lambda raw: tuple(raw) if isinstance(raw, list) else raw,
}
_READERS = {made: tuple((name, _DECODE.get(name)) for name, _ in _DEFAULTS[made]) for made in KINDS.values()}
