"""The arguments of our tools as Structs: parse the input of a call, and make the schema for the model.

A tool declares its parameters as the fields of a Struct; `Meta(description=...)` is sent to the model:

    class ReadArguments(FileArguments):
        offset: Annotated[int | None, Meta(description="First line, counted from 1.")] = None
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from msgspec import NODEFAULT, Meta, Struct, ValidationError, convert, json
from msgspec.structs import FieldInfo, fields

from tools.access import file_access
from tools.files import FileError, expanded_path, one_line_path, resolve_path

from .base import Access, ToolContext, WrongValue

_UNADVERTISED = "unadvertised"
UNADVERTISED = Meta(extra_json_schema={_UNADVERTISED: True})
"""Marks a parameter that is accepted but omitted from the model's schema."""
_DETAIL = "detail"
DETAIL = Meta(extra_json_schema={_DETAIL: True})
"""Marks a parameter that is accepted but omitted from the model's schema in a small window."""


class Arguments(Struct, forbid_unknown_fields=True, kw_only=True, dict=True):
    """Base of the parameters of a tool."""

    @classmethod
    def understood(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the input with the names and forms of other programs' tools replaced by ours."""
        return given

    @classmethod
    def parameters(cls) -> dict[str, bool]:
        """See tools.base.ArgumentsModel."""
        return {name: field.required for name, field in _fields_of(cls).items()}

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> tuple[Self | None, list[WrongValue]]:
        """See tools.base.ArgumentsModel."""
        given = cls.understood(given)
        declared = _fields_of(cls)
        values: dict[str, Any] = {}
        wrong: list[WrongValue] = []
        for name, field in declared.items():
            if name in given and (given[name] is not None or field.required):  # null: not given
                try:
                    values[field.name] = convert(given[name], field.type, strict=False)
                except ValidationError as error:
                    wrong.append(_wrong_value(cls, name, given[name], str(error)))
            elif field.required:
                wrong.append(WrongValue((name,), "missing"))
        wrong += [
            WrongValue((name,), kind="unknown", value=given[name]) for name in given if name not in declared
        ]
        return (None, wrong) if wrong else (cls(**values), [])

    @classmethod
    def sent_schema(cls, brief: bool = False) -> Mapping[str, Any]:
        """See tools.base.ArgumentsModel."""
        return _schema_of(cls, brief)


@cache
def _fields_of(arguments: type[Arguments]) -> dict[str, FieldInfo]:
    """Return the fields by the names that the model uses."""
    return {field.encode_name: field for field in fields(arguments)}


_MISSING_FIELD = "Object missing required field `"  # how msgspec begins this message


class _Complaint(NamedTuple):
    """A message of msgspec: the reason, and where in the value it applies, such as ("0", "label")."""

    reason: str
    place: tuple[str | int, ...]


def _complaint(message: str) -> _Complaint:
    """Split a message such as "Expected `str`, got `int` - at `$[0].label`"."""
    reason, _, place = message.partition(" - at `$")
    steps = place.rstrip("`").replace("[", ".").replace("]", "").split(".")
    return _Complaint(reason, tuple(int(step) if step.isdecimal() else step for step in steps if step))


def _wrong_value(arguments: type[Arguments], name: str, value: Any, message: str) -> WrongValue:
    reason, place = _complaint(message)
    if reason.startswith(_MISSING_FIELD):
        return WrongValue((name, *place, reason.removeprefix(_MISSING_FIELD).rstrip("`")), "missing")
    schema = _schema_of(arguments)["properties"].get(name, {})
    for step in place:
        schema = schema.get("items", {}) if isinstance(step, int) else schema["properties"][step]
    if choices := schema.get("enum"):
        reason = f"it must be one of {', '.join(map(str, choices))}"
    for step in place:
        try:
            value = value[step]
        except (LookupError, TypeError):  # it was decoded from text: the whole text is shown
            break
    return WrongValue((name, *place), kind="wrong", value=value, reason=reason)


@cache
def _schema_of(arguments: type[Arguments], brief: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments; made once for all sessions of a process."""
    generated = json.schema(arguments)
    schema: dict[str, Any] = _plain(generated, generated["$defs"])
    unmentioned = {_UNADVERTISED, _DETAIL} if brief else {_UNADVERTISED}
    # The brief description of a tool explains what the name and type of a parameter do not.
    unsaid = {_DETAIL, "description", "default", "minimum"} if brief else {_DETAIL}
    properties = {
        name: {key: value for key, value in each.items() if key not in unsaid}
        for name, each in schema["properties"].items()
        if unmentioned.isdisjoint(each)
    }
    if brief:
        del schema["additionalProperties"]  # the error about an unknown name is clear enough
        if not schema["required"]:
            del schema["required"]
    return {**schema, "properties": properties}


def _plain(schema: Any, parts: Mapping[str, Any]) -> Any:
    """Return the schema without references, titles and null: they cost tokens, and some servers lack them."""
    if isinstance(schema, list):
        return [_plain(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        part = parts[schema["$ref"].removeprefix("#/$defs/")]
        return _plain({key: value for key, value in part.items() if key != "description"}, parts)
    described = {key: value for key, value in schema.items() if key not in ("title", "$defs")}
    if described.get("default", NODEFAULT) is None:
        del described["default"]
    others = [each for each in described.get("anyOf", ()) if each != {"type": "null"}]
    if len(others) == 1:
        described = {**others[0], **{key: value for key, value in described.items() if key != "anyOf"}}
    if "enum" in described:
        described["enum"] = [each for each in described["enum"] if each is not None]
    return {key: _plain(value, parts) for key, value in described.items()}


class FileArguments(Arguments):
    """Parameters with a path, which also keep what was judged before the call runs.

    The path that was judged is the one that is opened, and the content that the user approved is the one that
    is changed. Neither comes from the model.
    """

    USE: ClassVar[Literal["read", "write"]] = "read"

    file_path: Annotated[str, Meta(description="Path of the file, absolute or relative to the project.")]

    def __post_init__(self) -> None:
        self._path: str | None = None
        self._approved_sha256: str | None = None

    @property
    def creates(self) -> bool:
        """Return whether the file need not exist, so that no similar name is searched for."""
        return False

    def access(self, context: ToolContext) -> tuple[Access, ...]:
        """Return the access that using the path needs, and keep the path.

        Raises ToolError for an unusable path.
        """
        path = self._path = resolve_path(context, self.file_path, self.creates)
        return (file_access(path, self.USE, context),)

    def real_path(self, context: ToolContext) -> str:
        """Return the real path that was judged, or judge it now. Raises ToolError as `access` does."""
        return self._path or self.access(context)[0].target

    def approve(self, sha256: str) -> None:
        """Note that the user is asked about a change of the content with this hash; "" for a new file."""
        self._approved_sha256 = sha256

    def is_approved(self, sha256: str) -> bool:
        """Return whether this is the content that the user was asked about, if they were."""
        return self._approved_sha256 in (None, sha256)

    def title(self) -> str:
        """Return the path on one line, `~` expanded."""
        try:
            return one_line_path(expanded_path(self.file_path))
        except FileError:
            return one_line_path(self.file_path)
