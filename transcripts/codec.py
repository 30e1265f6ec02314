"""Encode facts as lines of a transcript and decode them: one JSON object a line, with a CRC-32 at its end.

    {"v":1,"seq":7,"ts":"2026-11-21T09:30:00.125Z","sid":"...","kind":"user",...,"crc":"9f3a01bc"}

The keys of a line are the field names of the fact; fields with their default value are omitted. The checksum
covers all bytes before it. Lines that were written on this machine also have a keyed hash, `mac`, and `prev`,
a link to the line before (session_key.py). A line of a newer version or of an unknown kind becomes an
`UnknownFact` and is kept unchanged.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin

from msgspec import NODEFAULT, DecodeError, Struct
from msgspec.json import Decoder
from msgspec.structs import fields

from .facts import FACT_TYPES, Clear, Display, Edit, Fact, Fold, StoredOutput, UnknownFact, Unthink
from .messages import Block, CacheMiss, ChannelBlock, Usage, blocks_from_record
from .secrets.masking import SecretMasks

FORMAT_VERSION = 1
_EDIT_TYPES: dict[str, type[Edit]] = {"clear": Clear, "fold": Fold, "unthink": Unthink}
_FACT_KINDS = {made: kind for kind, made in FACT_TYPES.items()}
_EDIT_NAMES = {made: name for name, made in _EDIT_TYPES.items()}
_NOTHING_SHOWN = Display()
CHECKSUM = "crc"  # the last key of a line
_ENVELOPE = ("v", "seq", "ts", "sid", "kind")  # these identify a line and are never masked
_CRC_KEY = b',"crc":"'
_CRC_BYTES = len(_CRC_KEY) + len('xxxxxxxx"}')
_parse_value = json.JSONDecoder().raw_decode
_decode = Decoder().decode


def _to_json(value: Any) -> Any:
    """Convert one of our values for the JSON encoder. Raises TypeError for a type that it does not know."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Clear | Fold | Unthink):
        return {"edit": _EDIT_NAMES[type(value)], **_fields_of(value)}
    if isinstance(value, StoredOutput | CacheMiss):
        return _fields_of(value)
    if isinstance(value, Display):
        values = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: each for name, each in values if each != getattr(_NOTHING_SHOWN, name)}
    if isinstance(value, Usage):
        return {name: count for name in value.__struct_fields__ if (count := getattr(value, name))}
    if isinstance(value, ChannelBlock):  # read again by `blocks_from_record`
        flags = {name: True for name in ("in_place", "introduces") if getattr(value, name)}
        return {"type": "makeroom", "text": value.text, **flags}
    if isinstance(value, Block):
        return value.to_json()
    raise TypeError(f"cannot encode {type(value).__name__} as JSON")


def _fields_of(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


_to_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_to_json).encode


class BadLine(ValueError):
    """A line that is not a fact of ours, or is damaged. The message names the defect."""


def encode_fact(fact: Fact, sid: str) -> bytes:
    """Return a fact as one line with its newline. Lone surrogates are replaced, since UTF-8 has none."""
    if isinstance(fact, UnknownFact):
        return seal(fact.raw)
    ts = datetime.fromtimestamp(fact.ts, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    made = type(fact)
    head = {"v": FORMAT_VERSION, "seq": fact.seq, "ts": ts, "sid": sid, "kind": _FACT_KINDS[made]}
    values = ((name, getattr(fact, name), default) for name, default in _defaults(made))
    return seal(head | {name: value for name, value, default in values if value != default})


def seal(raw: Mapping[str, Any]) -> bytes:
    """Return a JSON object as one line with its checksum and newline."""
    head = _to_text(raw).encode("utf-8", "replace")[:-1]
    return b'%b%b%08x"}\n' % (head, _CRC_KEY, zlib.crc32(head))


def mask_line(line: bytes, masks: SecretMasks) -> bytes:
    """Return a line with the values of `masks` masked in its fields, and a new checksum.

    The line is decoded and encoded again, so call this only for lines that contain one of `masks.encoded`.
    """
    raw = json.loads(line)
    del raw[CHECKSUM]
    return seal({key: each if key in _ENVELOPE else masks.in_json(each) for key, each in raw.items()})


def decode_line(line: bytes) -> tuple[Fact, str]:
    """Return the fact of a line and its session id.

    Raises BadLine if the checksum is missing or wrong, or if the line is not JSON or not a fact.
    """
    line = line.rstrip(b"\r\n").removeprefix(b"\xef\xbb\xbf")
    if line[-_CRC_BYTES : -_CRC_BYTES + len(_CRC_KEY)] != _CRC_KEY:
        raise BadLine("no checksum at the end of the line")
    if line[-10:-2] != b"%08x" % zlib.crc32(line[:-_CRC_BYTES]):
        raise BadLine("the checksum does not match")
    try:
        raw = parse_line(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON: {error}") from error
    return fact_from_json(raw)


def holds_record(data: bytes) -> bool:
    """Return whether at least one line of the data is a fact."""
    for line in data.splitlines():
        with suppress(BadLine):
            decode_line(line)
            return True
    return False


def fact_from_json(raw: Any) -> tuple[Fact, str]:
    """Return the fact of a parsed line and its session id; an UnknownFact if its fields cannot be read.

    Raises BadLine if the number, time, session id or kind is missing or invalid.
    """
    try:
        version = int(raw["v"])
        seq = raw["seq"]
        ts = datetime.fromisoformat(raw["ts"]).timestamp()
        sid = str(raw["sid"])
        kind = str(raw["kind"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadLine(f"not a transcript line: {error!r}") from error
    # Larger numbers do not fit the integers of the search index.
    if type(seq) is not int or not 1 <= seq < 10**15:
        raise BadLine(f"invalid sequence number {seq!r}")
    if version <= FORMAT_VERSION and (made := FACT_TYPES.get(kind)) is not None:
        # If a field is missing or cannot be read, the line is kept like one of an unknown kind.
        with suppress(KeyError, TypeError, ValueError, OverflowError, RecursionError):
            return made(seq, ts, **_values(raw, _readers(made))), sid
    fields = {key: value for key, value in raw.items() if key not in ("prev", "mac", CHECKSUM)}
    return UnknownFact(seq, ts=ts, kind=kind, raw=fields), sid


def parse_line(line: bytes) -> Any:
    """Return the JSON value of a line. Raises ValueError if it is not exactly one JSON value.

    msgspec reads lines in half of json's time, but rejects NaN, lone surrogates and numbers beyond a float,
    which old transcripts may contain; json reads those lines.
    """
    try:
        return _decode(line)
    except DecodeError:
        text = line.decode()
    value, end = _parse_value(text)
    if end != len(text):
        raise ValueError(f"unexpected data after character {end}")
    return value


def _values(raw: Mapping[str, Any], readers: Sequence[_Reader]) -> dict[str, Any]:
    """Return the fields that an object has. Raises TypeError for one of a wrong type, and what readers do."""
    values: dict[str, Any] = {}
    for name, convert, kinds, items in readers:
        if name in raw:
            value = values[name] = convert(raw[name]) if convert else raw[name]
            if type(value) not in kinds or (items and not items.issuperset(map(type, value))):
                raise TypeError(f"{name} is of a wrong type")
    return values


def _edit_from_json(raw: Mapping[str, Any]) -> Edit:
    made = _EDIT_TYPES[raw["edit"]]
    edit: Edit = made(**_values(raw, _readers(made)))
    return edit


def _stored_from_json(raw: Mapping[str, Any] | None) -> StoredOutput | None:
    return None if raw is None else StoredOutput(**_values(raw, _readers(StoredOutput)))


def _display_from_json(raw: Any) -> Display:
    """Return what the user saw of a result; fields of a wrong type are ignored, to keep the result."""
    given = raw if isinstance(raw, Mapping) else {}
    return Display(
        **{
            name: given[name]
            for name, _, kinds, _ in _readers(Display)
            if name in given and type(given[name]) in kinds
        }
    )


_FROM_JSON: dict[str, Callable[[Any], Any]] = {
    "blocks": blocks_from_record,
    "content": blocks_from_record,
    "edits": lambda raw: tuple(_edit_from_json(edit) for edit in raw),
    "usage": Usage.from_json,
    "cache_miss": CacheMiss.from_json,
    "stored": _stored_from_json,
    "human": _display_from_json,
    "tools": tuple,
    "marks": tuple,
    "system": tuple,
    "tokens": lambda raw: tuple(raw) if isinstance(raw, list) else raw,
}


@cache
def _defaults(made: type[Fact]) -> tuple[tuple[str, Any], ...]:
    """Return the name and the default of each field of a type of fact after `seq` and `ts`."""
    return tuple(
        (field.name, field.default if field.default_factory is NODEFAULT else field.default_factory())
        for field in fields(made)[2:]
    )


class _Reader(NamedTuple):
    """Reads one field of an object: the types that its value may have, and those of the items of a tuple."""

    name: str
    convert: Callable[[Any], Any] | None
    kinds: frozenset[type]
    items: frozenset[type]


def _kinds(hint: Any) -> frozenset[type]:
    """Return the types of the values that a field's annotation allows."""
    if isinstance(hint, UnionType):
        return frozenset().union(*map(_kinds, get_args(hint)))
    kind = get_origin(hint) or hint
    return frozenset({dict if kind is Mapping else kind})


def _items(hint: Any) -> frozenset[type]:
    """Return the types of the items of a tuple, empty for other fields."""
    return _kinds(get_args(hint)[0]) if get_origin(hint) is tuple else frozenset()


@cache
def _readers(made: type[Struct]) -> tuple[_Reader, ...]:
    """Return the readers of the fields of a type, for a fact those after `seq` and `ts`."""
    skipped = 2 if made in _FACT_KINDS else 0
    return tuple(
        _Reader(
            each.name, convert=_FROM_JSON.get(each.name), kinds=_kinds(each.type), items=_items(each.type)
        )
        for each in fields(made)[skipped:]
    )
