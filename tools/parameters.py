"""The parameters of our tools as pydantic models, and how the model is told of them.

What only runs tools imports base.py, which does without pydantic: the first answer of the program does not
wait for its 70 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from .base import Access, ToolContext, ToolError, WrongValue
from .files.resolve_path import expanded_path, file_access, one_line_path, resolve_path

_OF_THE_CLASS = ("title", "description")  # what a schema says of the class that it was made of


class Arguments(BaseModel):
    """Base of a tool's parameters. Field descriptions are sent to the model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def parameters(cls) -> dict[str, bool]:
        """See tools.base.ArgumentsModel."""
        return {field.alias or name: field.is_required() for name, field in cls.model_fields.items()}

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> tuple[Self | None, list[WrongValue]]:
        """See tools.base.ArgumentsModel."""
        try:
            return cls.model_validate(given), []
        except ValidationError as error:
            return None, [(each["loc"], each["type"], each["input"], each["msg"]) for each in error.errors()]

    @classmethod
    def sent_schema(cls) -> Mapping[str, Any]:
        """See tools.base.ArgumentsModel."""
        return _schema_of(cls)


@cache
def _schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """The schema of a tool's arguments: 3 ms each, so made once for all sessions of a process."""
    schema = arguments.model_json_schema(schema_generator=_UntitledSchema)
    parts = schema.pop("$defs", {})
    return {key: _whole(value, parts) for key, value in schema.items() if key not in _OF_THE_CLASS}


def _whole(schema: Any, parts: Mapping[str, Any]) -> Any:
    """The schema with its parts in place: not every server follows references."""
    if isinstance(schema, list):
        return [_whole(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if (reference := schema.get("$ref")) is not None:
        part = parts[reference.removeprefix("#/$defs/")]
        return {key: _whole(value, parts) for key, value in part.items() if key not in _OF_THE_CLASS}
    return {key: _whole(value, parts) for key, value in schema.items()}


class _UntitledSchema(GenerateJsonSchema):
    """JSON Schema whose fields have no generated titles."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class FileArguments(Arguments):
    """Parameters with a path. They also keep what was found when the call was judged.

    The path that was judged is the one that is opened, and the content that a person was asked about is the
    one that is changed. Neither is part of what the model sent.
    """

    USE: ClassVar[Literal["read", "write"]] = "read"

    file_path: str = Field(description="Path of the file, absolute or relative to the current folder.")
    _path: str | None = PrivateAttr(default=None)
    _approved_sha256: str | None = PrivateAttr(default=None)

    @property
    def creates(self) -> bool:
        """Whether the file need not exist: no other name is sought for it."""
        return False

    def access(self, context: ToolContext) -> tuple[Access, ...]:
        """What using the path means; the path is kept. Raises ToolError where the text is no usable path."""
        path = self._path = resolve_path(context, self.file_path, self.creates)
        return (file_access(path, self.USE, context),)

    def real_path(self, context: ToolContext) -> str:
        """The real path that was judged, or is judged now. Raises ToolError as `access` does."""
        return self._path or self.access(context)[0].target

    def approve(self, sha256: str) -> None:
        """A person is asked about a change of the content with this hash ("": there is no file)."""
        self._approved_sha256 = sha256

    def is_approved(self, sha256: str) -> bool:
        """Whether this is the content that a person was asked about, if one was."""
        return self._approved_sha256 in (None, sha256)

    def title(self) -> str:
        """The path on one line, `~` expanded."""
        try:
            return one_line_path(expanded_path(self.file_path))
        except ToolError:
            return one_line_path(self.file_path)
