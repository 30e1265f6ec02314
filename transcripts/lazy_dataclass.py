"""A dataclass that has its methods written when one of them is first called: a tenth of the time to define.

The standard library compiles up to seven methods for each class, 0.4 ms, which was half of the time that
importing this program took; most of its classes are not used in a run. Here a class has its fields, its slots
and its match arguments at once. The methods are those of the standard library, taken from a twin.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any


def lazy_dataclass(*, frozen: bool = False, slots: bool = False, eq: bool = True) -> Callable[[Any], Any]:
    """As `dataclasses.dataclass` with these arguments; what a class defines itself stays as it is."""

    def define(cls: Any) -> Any:
        cls.__doc__ = cls.__doc__ or cls.__name__  # else a signature is written there, which takes as long
        wanted = {"__init__": True, "__repr__": True, "__eq__": eq, "__hash__": eq and frozen}
        names = [name for name, is_wanted in wanted.items() if is_wanted and name not in vars(cls)]
        is_hashable = not eq or frozen or "__hash__" in vars(cls)
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        if not is_hashable:
            made.__hash__ = None
        for name in names:
            setattr(made, name, _writing_first(made, name, names, {"frozen": frozen, "slots": slots}))
        if frozen:
            made.__setattr__ = made.__delattr__ = _refusing(made)
        if frozen and slots:
            made.__getstate__, made.__setstate__ = _state, _set_state
        return made

    return define


def _writing_first(cls: type, name: str, names: list[str], options: Mapping[str, Any]) -> Callable[..., Any]:
    """The method of that name until it is first called: writes all of them, and calls the one."""

    def write(self: object, *args: Any, **named: Any) -> Any:
        twin = _twin(cls, options)
        for each in names:
            setattr(cls, each, vars(twin)[each])
        return getattr(cls, name)(self, *args, **named)

    return write


def _twin(cls: Any, options: Mapping[str, Any]) -> type:
    """A class with the same fields, made by the standard library."""
    fields = [(one.name, one.type, _copy(one)) for one in dataclasses.fields(cls)]
    also = {"__post_init__": None} if hasattr(cls, "__post_init__") else {}
    return dataclasses.make_dataclass(cls.__name__, fields, namespace=also, **options)


def _copy(one: dataclasses.Field[Any]) -> Any:
    kept: dict[str, Any] = {"init": one.init, "repr": one.repr, "hash": one.hash, "compare": one.compare}
    if one.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=one.default_factory, **kept)
    return dataclasses.field(default=one.default, **kept)


def _refusing(cls: Any) -> Callable[..., None]:
    """What sets or deletes no attribute of the class, and any other one that a subclass has."""

    def change(self: object, name: str, *value: object) -> None:
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")
        (super(cls, self).__setattr__ if value else super(cls, self).__delattr__)(name, *value)

    return change


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = lazy_dataclass
