"""A pattern that is compiled on first use behaves as a compiled one."""

import re

import pytest

from transcripts.patterns import lazy_bytes_pattern, lazy_pattern


def test_a_lazy_pattern_does_what_the_compiled_one_does() -> None:
    lazy, compiled = lazy_pattern(r"(\w)b", re.IGNORECASE), re.compile(r"(\w)b", re.IGNORECASE)
    for _ in range(2):
        assert lazy.findall("ab xB") == compiled.findall("ab xB") == ["a", "x"]
        assert lazy.sub(r"\1", "ab") == "a" and lazy.fullmatch("abc") is None
    assert (lazy.pattern, lazy.flags) == (compiled.pattern, compiled.flags)
    assert lazy.search is lazy.search, "kept after the first lookup"
    assert lazy_bytes_pattern(b"a+").findall(b"aab") == [b"aa"]


def test_a_lazy_pattern_that_is_wrong_says_so_on_first_use() -> None:
    lazy = lazy_pattern("(")
    with pytest.raises(re.error):
        lazy.search("x")
