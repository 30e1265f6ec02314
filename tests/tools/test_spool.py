"""No output that is kept holds a value that is to be hidden, wherever its bytes are cut."""

import ctypes
import hashlib
import os
import resource
import shutil
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tables import each_row
from tools.processes.spool import MAX_UNFILED_BYTES, Spool
from transcripts.secrets import SecretMasks, StreamRedactor
from transcripts.stored_outputs import OutputsFolder

MASKS = SecretMasks(("secret-secret-1", "secret-secret-12", "aaaaaaaab", "short"))


@given(
    st.lists(
        st.sampled_from(["secret-", "secret-1", "1", "2", "aaaa", "aab", "b", "short", "\n", "x"]),
        max_size=30,
    )
)
@example(["aaaa", "aaaa", "b"])
@example(["secret-", "secret-", "1", "2"])
def test_it_makes_no_difference_where_the_bytes_are_cut(pieces: list[str]) -> None:
    redactor = StreamRedactor(MASKS)
    shown = b"".join(redactor.feed(piece.encode()) for piece in pieces) + redactor.flush()
    for value in MASKS.values[:3]:
        assert value.encode() not in shown
    assert shown.count(b"short") == "".join(pieces).count("short")


def test_what_only_begins_like_a_secret_is_shown_when_nothing_follows() -> None:
    redactor = StreamRedactor(MASKS)
    assert redactor.feed(b"x secret-sec") == b"x "
    assert redactor.flush() == b"secret-sec" and redactor.flush() == b""
    assert redactor.feed(b"ret-1 y ") == b"ret-1 y "


def test_neither_memory_nor_the_file_of_an_output_holds_the_value(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "out" / "1.txt", masks=MASKS)
    line = b"0123456789 secret-secret-1\n"
    spool.feed(line * (2 * MAX_UNFILED_BYTES // len(line)))
    for at in range(500):
        spool.feed((line * 7)[at * 40 % len(line) : at * 40 % len(line) + 40])
    spool.feed(b"secret-s")
    spool.close()
    stored = spool.stored(tmp_path)
    kept = (tmp_path / "out" / "1.txt").read_bytes()
    assert stored is not None and stored.size == len(kept) == spool.total
    assert kept.endswith(b"secret-s")
    assert b"secret-secret" not in kept + spool.tail() + spool.head() and b"****" in kept


def test_without_values_to_hide_nothing_is_held_back(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "1.txt")
    spool.feed(b"secret-s")
    assert spool.tail() == b"secret-s"


def test_the_longest_of_several_values_is_hidden_whole() -> None:
    redactor = StreamRedactor(MASKS)
    assert redactor.feed(b"a secret-secret-12, secret-secret-1.") + redactor.flush() == b"a ****, ****."


def test_a_value_too_short_to_be_a_secret_is_shown() -> None:
    redactor = StreamRedactor(SecretMasks(("1234567", "12345678")))
    assert redactor.feed(b"1234567 12345678 ") == b"1234567 **** "


def test_where_no_file_can_be_made_none_is_made_later(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    spool = Spool(tmp_path / "out" / "1.txt")
    spool.feed(b"x" * (MAX_UNFILED_BYTES + 1))
    assert (spool.error is not None and "directory" in spool.error.lower()) or spool.error == "File exists"
    (tmp_path / "out").unlink()
    spool.feed(b"y")
    assert spool.stored(tmp_path) is None and not (tmp_path / "out").exists()
    assert spool.tail(2) == b"xy"


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_the_command_removes_or_replaces_is_created_again(
    tmp_path: Path, is_replaced: bool
) -> None:
    spool = Spool(tmp_path / "out" / "1.txt")
    spool.feed(b"x" * (MAX_UNFILED_BYTES + 1))
    shutil.rmtree(tmp_path / "out")
    if is_replaced:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "1.txt").write_text("something else")
    spool.feed(b"y" * MAX_UNFILED_BYTES)
    spool.close()
    stored = spool.stored(tmp_path)
    assert stored is not None and (tmp_path / stored.path).stat().st_size == stored.size
    whole = OutputsFolder(tmp_path / "out").read(stored)
    assert whole == "x" * (MAX_UNFILED_BYTES + 1) + "y" * MAX_UNFILED_BYTES


def test_what_comes_after_the_end_makes_no_second_file(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "out" / "1.txt", masks=MASKS)
    spool.feed(b"x" * MAX_UNFILED_BYTES + b"\n")
    spool.close()
    stored = spool.stored(tmp_path)
    spool.flush()
    spool.feed(b"late")
    assert stored is not None and spool.stored(tmp_path) == stored
    assert [file.name for file in (tmp_path / "out").glob("*.txt")] == ["1.txt"]


def test_a_full_disk_ends_the_file_and_what_it_holds_is_described(tmp_path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    (disk := tmp_path / "disk").mkdir()
    if os.geteuid() != 0 or libc.mount(b"none", bytes(disk), b"tmpfs", 0, b"size=160k"):
        pytest.skip("a small disk cannot be mounted here")
    try:
        spool = Spool(disk / "out" / "1.txt")
        data = bytes(range(256)) * 1_000
        spool.feed(data[:140_000])
        spool.feed(data[140_000:])
        spool.close()
        stored, kept = spool.stored(tmp_path), (disk / "out" / "1.txt").read_bytes()
        assert spool.error == "No space left on device"
        assert stored is not None and 140_000 <= stored.size == len(kept) < len(data)
        assert kept == data[: len(kept)] and stored.sha256 == hashlib.sha256(kept).hexdigest()
        assert spool.total == len(data)
    finally:
        libc.umount2(bytes(disk), 2)


@each_row("size", [0, 10, 600_000, 1_000_000])
def test_what_came_since_is_reported_with_what_is_missing_of_it(tmp_path: Path, size: int) -> None:
    spool = Spool(tmp_path / "1.txt")
    spool.feed(b"before")
    for _ in range(10):
        spool.feed(b"x" * (size // 10))
    data, missing = spool.since(6)
    assert data == b"x" * (size - missing)
    assert (missing == 0) is (size <= 10)
    assert spool.since(spool.total) == (b"", 0)
    spool.close()


# Put together here so that no scanner takes this file for a leak.
CLOUD = "AKIA" + "ABCDEFGHIJ234567"
PRINTED = f"""id={CLOUD} x
DB_PASSWORD=swordfish
src/prod.env:3:API_TOKEN="a b c d"
  password: "x7Kp-22Lq9z"
-----BEGIN {"RSA PRIVATE KEY"}-----
MIIEowIBAAKCAQEA
abc+/=
-----END {"RSA PRIVATE KEY"}-----
url=postgres://app:hunter22@db/x
for token in self.tokens: password = secret_of(name)
git clone https://{{user}}:{{password}}@host ${{TOKEN}}
"""
SHOWN = """id=[AWS key id masked] x
DB_PASSWORD=[secret masked]
src/prod.env:3:API_TOKEN="[secret masked]"
  password: "[secret masked]"
[private key masked]
url=postgres://[password masked]@db/x
for token in self.tokens: password = secret_of(name)
git clone https://{user}:{password}@host ${TOKEN}
"""


@pytest.mark.parametrize("size", [1_000, 64])
def test_known_forms_and_assigned_secrets_are_masked_in_what_commands_print(size: int) -> None:
    redactor = StreamRedactor(SecretMasks())
    data = PRINTED.encode()
    pieces = [redactor.feed(data[at : at + size]) for at in range(0, len(data), size)]
    assert (b"".join(pieces) + redactor.flush()).decode() == SHOWN


def test_a_secret_in_two_pieces_is_masked_wherever_they_are_parted() -> None:
    key = f"-----BEGIN {'RSA PRIVATE KEY'}-----\nMIIEpAIBAAKCAQEAx9\n-----END {'RSA PRIVATE KEY'}-----"
    data = (
        'PASSWORD="Sw0rdf1sh-77x"\nAuthorization: Bearer b3ar3rT0kenValue99\n'
        f"Set-Cookie: session=c00k1eV4lue8f7e6; Path=/\ncurl https://bob:U7rlPassw0rd@a.example/\n{key}\nend\n"
    ).encode()
    secrets = (b"Sw0rdf1sh-77x", b"b3ar3rT0kenValue99", b"c00k1eV4lue8f7e6", b"U7rlPassw0rd", b"MIIEpAIB")
    for at in range(1, len(data)):
        redactor = StreamRedactor(SecretMasks())
        shown = redactor.feed(data[:at]) + redactor.feed(data[at:]) + redactor.flush()
        assert not [secret for secret in secrets if secret in shown], at
        assert shown.endswith(b"\nend\n")
    long = b'{"a": "' + b"x y " * 8_000 + b'", "password": '
    redactor = StreamRedactor(SecretMasks())
    assert b"Sw0rdf1sh" not in redactor.feed(long) + redactor.feed(b'"Sw0rdf1sh-77x"}\n')


def test_the_rest_of_a_secret_is_masked_whose_beginning_was_shown() -> None:
    redactor = StreamRedactor(SecretMasks())
    assert redactor.feed(b'API_TOKEN="a ') == b'API_TOKEN="a '
    assert redactor.feed(b'b c d"\nend\n') == b'[secret masked]"\nend\n'


def test_a_prompt_is_not_held_back_and_a_key_in_two_pieces_is_masked() -> None:
    redactor = StreamRedactor(SecretMasks())
    assert redactor.feed(b"Overwrite f? [y/N] ") == b"Overwrite f? [y/N] "
    assert redactor.feed(b"\nPassword:") == b"\nPassword:"
    assert redactor.feed(CLOUD[:9].encode()) == b""
    assert redactor.feed(CLOUD[9:].encode() + b"\n") == b"[AWS key id masked]\n"
    assert redactor.feed(b"\xff\xfe text\n") == b"\xff\xfe text\n"


def test_of_a_file_that_does_not_fit_on_the_disk_again_the_size_that_was_written_counts(
    tmp_path: Path,
) -> None:
    spool = Spool(tmp_path / "out" / "o.txt")
    spool.feed(b"line\n" * 1_000)
    spool.keep()
    spool.path.unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_001, before[1]))
    try:
        spool.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    stored = spool.stored(tmp_path)
    assert stored is not None and stored.size == spool.path.stat().st_size == 1_001
    assert stored.sha256 == hashlib.sha256(spool.path.read_bytes()).hexdigest() and spool.error
