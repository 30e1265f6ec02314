"""Put the code of a mutant into the functions of a module that is imported already."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator
from types import CodeType, FunctionType

Key = tuple[str, str, int]  # the file, the qualified name and the first line of a function


class CannotSwap(Exception):
    """The functions of a mutant do not fit into those of the imported module."""


class Functions:
    """The functions that are alive, by their code."""

    def __init__(self) -> None:
        self._by_key: dict[Key, list[FunctionType]] = defaultdict(list)
        gc.unfreeze()  # frozen objects are not listed
        for each in gc.get_objects():
            if type(each) is FunctionType:
                self._by_key[_key(each.__code__)].append(each)

    def swap(self, path: str, source: str, mutated: str) -> None:
        """Give each function of a module the code that it has in the mutated text. Raises CannotSwap."""
        whole = compile(source, path, "exec", dont_inherit=True)
        other = compile(mutated, path, "exec", dont_inherit=True)
        swapped = 0
        try:
            for old, new in _pairs(whole, other):
                for function in self._by_key.get(_key(old), ()):
                    function.__code__ = new
                    swapped += 1
        except ValueError as error:  # another number of functions, or of variables of an outer one
            raise CannotSwap(str(error)) from error
        if not swapped:
            raise CannotSwap(f"no function of {path} is imported")


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the functions within two code objects in pairs. Raises ValueError where they do not match."""
    is_function = bool(old.co_flags & 0x02)  # CO_NEWLOCALS: classes and modules do not have it
    olds = [each for each in old.co_consts if isinstance(each, CodeType)]
    news = [each for each in new.co_consts if isinstance(each, CodeType)]
    if is_function and [each.co_name for each in olds] != [each.co_name for each in news]:
        return  # a fault removed an inner function: the code of the outer one is enough
    for one, two in zip(olds, news, strict=True):
        if one.co_name != two.co_name:
            raise ValueError(f"{one.co_name} is {two.co_name} in the mutant")
        yield one, two
        yield from _pairs(one, two)


def _key(code: CodeType) -> Key:
    return code.co_filename, code.co_qualname, code.co_firstlineno
