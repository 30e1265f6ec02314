"""Values that no kept output may hold, in bytes that come in pieces."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tools.spool import CAP, IN_MEMORY, Spool
from tools.stream_redactor import StreamRedactor
from transcripts.masking import SecretMasks

MASKS = SecretMasks(("secret-secret-1", "secret-secret-12", "aaaaaaaab", "short"))


@given(
    st.lists(
        st.sampled_from(["secret-", "secret-1", "2", "aaaa", "aab", "b", "short", "\n", "x"]), max_size=30
    )
)
def test_it_makes_no_difference_where_the_bytes_are_cut(pieces: list[str]) -> None:
    veil = StreamRedactor(MASKS)
    shown = b"".join(veil.feed(piece.encode()) for piece in pieces) + veil.rest()
    for value in MASKS.values[:3]:
        assert value.encode() not in shown
    assert shown.count(b"short") == "".join(pieces).count("short")


def test_what_only_begins_like_a_secret_is_shown_when_nothing_follows() -> None:
    veil = StreamRedactor(MASKS)
    assert veil.feed(b"x secret-sec") == b"x "
    assert veil.rest() == b"secret-sec" and veil.rest() == b""
    assert veil.feed(b"ret-1 y") == b"ret-1 y"


def test_neither_memory_nor_the_file_of_an_output_holds_the_value(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "out" / "1.txt", masks=MASKS)
    line = b"0123456789 secret-secret-1\n"
    for at in range(IN_MEMORY // 2):
        spool.feed((line * 7)[at * 5 % len(line) : at * 5 % len(line) + 5])
    spool.feed(b"secret-s")
    spool.close()
    stored = spool.stored(tmp_path)
    kept = (tmp_path / "out" / "1.txt").read_bytes()
    assert stored is not None and stored.size == len(kept) == spool.total
    assert kept.endswith(b"secret-s")
    assert b"secret-secret" not in kept + spool.tail() + spool.head() and b"****" in kept


def test_without_values_to_hide_nothing_is_held_back(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "1.txt", cap=CAP)
    spool.feed(b"secret-s")
    assert spool.tail() == b"secret-s"
