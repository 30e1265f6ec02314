"""A class with lazily written methods is what the standard library would have made of it."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from transcripts.lazy_dataclass import lazy_dataclass

OPTIONS = [
    {"frozen": True, "slots": True}, {"slots": True}, {"slots": True, "eq": False}, {"frozen": True}, {},
]  # fmt: skip
Decorator = Callable[..., Callable[[type], Any]]


def classes(decorator: Decorator, **options: bool) -> tuple[Any, Any]:
    """A class and one that inherits from it, made by a decorator."""

    @decorator(**options)
    class Place:
        """Somewhere."""

        name: str
        at: int = 1
        tags: tuple[str, ...] = dataclasses.field(default=(), repr=False, compare=False)
        more: tuple[int, ...] = dataclasses.field(default_factory=tuple)

    @decorator(**options)
    class Town(Place):
        size: int = dataclasses.field(init=False, default=5)
        made: list[str] = dataclasses.field(default_factory=list)

        def __post_init__(self) -> None:
            self.made.append(self.name)

        def __repr__(self) -> str:
            return f"town {self.name}"

    return Place, Town


def behaviour(place: Any, town: Any) -> list[object]:
    """What can be seen of them."""
    one, same, other = place("a"), place("a", 1, ("x",), (1,)[1:]), place("a", at=2)
    seen: list[object] = [
        repr(one),
        one == same,
        one == other,
        one != other,
        one == town("a"),
        repr(town("a")),
    ]
    seen += [town("a").made, town("a").size, town("a") == town("a"), one.more is same.more]
    seen += [repr(dataclasses.replace(one, at=3)), dataclasses.asdict(one), dataclasses.astuple(town("b"))]
    seen += [[each.name for each in dataclasses.fields(town)], town.__match_args__, hasattr(one, "__dict__")]
    seen += [place.__hash__ is None, repr(copy.copy(one)), copy.deepcopy(town("c")).made, place.__doc__]
    seen += [str(inspect.signature(place)), town.__qualname__, place.__module__]
    for change in (lambda: setattr(one, "at", 7), lambda: delattr(one, "at"), place, lambda: hash(one)):
        try:
            change()
            seen.append("done")
        except Exception as error:  # noqa: BLE001  the kind of the error is what is compared
            seen.append(type(error))
    match other:
        case place(name, at):
            seen += [name, at]
    return seen


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_behaves_as_one_of_the_standard_library(options: dict[str, bool]) -> None:
    assert behaviour(*classes(lazy_dataclass, **options)) == behaviour(
        *classes(dataclasses.dataclass, **options)
    )


def test_equal_frozen_values_have_one_hash_whichever_is_asked_first() -> None:
    place, _ = classes(lazy_dataclass, frozen=True, slots=True)
    fresh, _ = classes(lazy_dataclass, frozen=True, slots=True)
    assert hash(place("a")) == hash(place("a", 2 - 1, ("not compared",)))
    assert fresh("a") == fresh("a") and hash(fresh("a")) == hash(place("a"))
    with pytest.raises(dataclasses.FrozenInstanceError, match="at"):
        place("a").at = 3


@lazy_dataclass(frozen=True, slots=True)
class Sent:
    """What a pickle finds by its name."""

    text: str
    parts: tuple[str, ...] = ()


def test_values_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Sent("a", ("b",)))) == Sent("a", ("b",))


def test_methods_are_written_at_the_first_call_and_once() -> None:
    place, town = classes(lazy_dataclass, slots=True)
    before = place.__init__, place.__eq__
    assert place("a") == place("a")
    after = place.__init__, place.__eq__
    assert before[0] is not after[0] and before[1] is not after[1]
    town("b")
    assert (place.__init__, place.__eq__) == after
