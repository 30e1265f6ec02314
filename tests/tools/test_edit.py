"""An edit changes the matched span of the bytes and nothing else, whatever the file is made of."""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from compact.clearing import head_and_tail
from compact.page_references import with_result_id
from tests.narrowing import block_text
from tests.tables import each_row
from tools.base import ToolError
from tools.edit import TOOL, EditArguments
from tools.files import FileError
from tools.files.opening import load_file
from tools.files.workspace import SeenFile
from tools.patch import find_all, source_text, splice
from tools.text.encoding import TextForm, common_newline, decode_text, unify_newlines

from .file_session import FileSession


def edited(files: FileSession, content: bytes, old: str, new: str, **more: bool) -> bytes:
    files.seen("f", content)
    files.edit("f", old, new, **more)
    return files.path("f").read_bytes()


ENCODINGS = [
    ("latin-1", "cp1252", "café à la crème\nnaïve: x\n", b""),
    ("utf-16-le", "utf-16-le", "héllo 😀\nx = 1\n", b"\xff\xfe"),
    ("utf-16-be", "utf-16-be", "héllo 😀\nx = 1\n", b"\xfe\xff"),
    ("utf-32-le", "utf-32-le", "héllo 😀\nx = 1\n", b"\xff\xfe\0\0"),
    ("shift-jis", "cp932", "こんにちは、世界\nテスト x\n", b""),
    ("iso2022_jp", "iso2022_jp", "こんにちは、世界\nテスト x\n", b""),
    ("utf-16-le", "utf-16-le", "Windows x\nlog 😀\n", b""),
    ("utf-16-le", "utf-16-le", "x=1", b""),
    ("utf-16-be", "utf-16-be", '{"x":1}', b""),
    ("utf-16-be", "utf-16-be", "файл журнала\nстрока x\n", b""),
    ("utf-16-le", "utf-16-le", "这个函数返回结果\n如果出错就退出 x\n", b""),
]


@pytest.mark.parametrize(("codec", "named", "content", "mark"), ENCODINGS)
def test_an_encoding_is_named_and_kept(files: FileSession, codec: str, named: str, content: str, mark: bytes):
    data = mark + content.encode(codec)
    files.put("f", data)
    shown = files.do("read", file_path="f")
    assert content.split("\n")[0] in shown
    assert f"[decoded as {named}]" in shown
    files.edit("f", "x", "yy")
    assert files.path("f").read_bytes() == mark + content.replace("x", "yy").encode(codec)
    files.do("write", file_path="f", content=content)
    assert files.path("f").read_bytes() == data


@each_row(
    "data",
    [
        b"\0\0",
        b"a\0",
        b"text with a \0 in it\n",
        "naïve text, \0 two\n".encode("latin-1"),
        "no spaces at all: x\u0001\n".encode("utf-16-le"),
        bytes(range(256)) * 4,
        b"\x7fELF\2\1\1\0" + b"\0" * 56,
        b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0",
        "a b\n".encode("utf-16-le") + b"\0",
        "a \ud800".encode("utf-16-le", "surrogatepass"),
    ],
)
def test_bytes_that_only_look_wide_are_binary(data: bytes):
    assert decode_text(data) is None


def test_an_escape_sequence_alone_is_no_japanese():
    text = "\x1b$ and \x1b[1mbold\x1b[0m\n"
    assert decode_text(text.encode()) == (text, TextForm(newline="\n"))


def test_a_file_that_became_ascii_is_not_read_as_the_wide_text_that_it_was():
    assert decode_text(b"a b\n", hint="utf-16-le") == ("a b\n", TextForm(newline="\n"))


def test_what_the_encoding_cannot_say_is_refused(files: FileSession):
    data = "café à la crème\n".encode("latin-1")
    files.seen("f", data)
    assert "cp1252" in files.refused("edit", file_path="f", old_string="la", new_string="→")
    assert "cp1252" in files.refused("write", file_path="f", content="日本")
    assert files.path("f").read_bytes() == data


CODE = "int f(int x) {\n    return x * 2; // %s\n}\n\nvoid g() { f(1); }\n" + "int twice(int);\n" * 20
COMMENTS = [
    ("cp1251", "Функция умножает число на два и возвращает результат", "ошибка"),
    ("cp1251", "Функция возвращает число", "ошибка"),
    ("koi8_r", "Функция умножает число на два и возвращает результат", "ошибка"),
    ("cp866", "Функция умножает число на два и возвращает результат", "ошибка"),
    ("cp1253", "Η συνάρτηση επιστρέφει το διπλάσιο του αριθμού", "λάθος"),
    ("cp1255", "הפונקציה מחזירה את המספר כפול שתיים בלבד", "שגיאה"),
    ("cp1250", "funkcja zwraca liczbę pomnożoną przez dwa; jeśli błąd, kończy działanie", "źle"),
    ("cp1250", "vrátí číslo krát dvě; když dojde k chybě, skončí příliš žluťoučký kůň", "řeč"),
    ("cp1254", "sayıyı ikiyle çarpıp döndürür; geçersizse başka bir değer gösterilir", "şifre"),
    ("gb18030", "这个函数把参数乘以二然后返回结果，如果出错就退出", "错误"),
    ("big5", "這個函數把參數乘以二然後返回結果，如果出錯就退出", "錯誤"),
    ("euc_kr", "이 함수는 숫자에 이를 곱하여 결과를 반환하고 오류가 있으면 종료합니다", "오류"),
    ("cp932", "この関数は引数を二倍にして結果を返します", "エラー"),
    ("cp1252", "renvoie le double; la précision est limitée à l'échelle donnée, même négative", "ça"),
    ("cp1252", "gibt für größere Zahlen das Doppelte zurück", "übel"),
]


@pytest.mark.parametrize(("codec", "comment", "more"), COMMENTS)
def test_code_with_comments_in_another_encoding_is_read_and_continues_in_it(
    files: FileSession, codec: str, comment: str, more: str
):
    data = (CODE % comment).encode(codec)
    files.put("f.c", data)
    shown = files.do("read", file_path="f.c")
    assert comment in shown and f"[decoded as {codec}]" in shown
    files.edit("f.c", "void", f"// {more}\nvoid")
    assert files.path("f.c").read_bytes() == data.replace(b"void", f"// {more}\nvoid".encode(codec))


def test_where_the_encoding_is_unknown_nothing_is_added_that_it_would_have_to_say(files: FileSession):
    data = (CODE % "ošetřit").encode("cp1250")
    files.put("f.c", data)
    assert "[unknown encoding, decoded as " in files.do("read", file_path="f.c")
    refused = files.refused("edit", file_path="f.c", old_string="int f", new_string="// à\nint f")
    assert "unknown" in refused and "iconv -f" in refused
    assert "iconv -f" in files.refused("write", file_path="f.c", content="à\n")
    assert files.path("f.c").read_bytes() == data
    files.edit("f.c", "int f", "long f")
    assert files.path("f.c").read_bytes() == data.replace(b"int f", b"long f")
    read = decode_text(data)
    assert read and read[1].guessed
    files.do("write", file_path="f.c", content=read[0])
    assert files.path("f.c").read_bytes() == data
    files.path("f.c").write_bytes(data.decode("cp1250").encode())
    assert "ošetřit" in files.do("read", file_path="f.c")
    files.edit("f.c", "int f", "// à\nint f")
    assert "// à" in files.path("f.c").read_text()


def test_bytes_that_no_encoding_explains_get_no_utf_8_beside_them(files: FileSession):
    files.seen("f", b"a = '\x81\x8d\x9d\xff\xfe'\n")
    assert "unknown" in files.refused("edit", file_path="f", old_string="a", new_string="ä")
    files.edit("f", "a", "b")
    files.seen("f", "größer ".encode() * 3 + b"\xfc\n")
    files.edit("f", "\n", "ä\n")


def test_an_edit_continues_in_the_encoding_that_was_read(files: FileSession):
    files.put("f", b"x\xe9y\nfoo\n")
    assert "[decoded as cp1252]" in files.do("read", file_path="f")
    files.edit("f", "foo", "föö €")
    assert "föö €" in files.do("read", file_path="f")
    files.edit("f", "xéy", "x")
    files.edit("f", "föö €", "foo")
    assert files.path("f").read_bytes() == b"x\nfoo\n"
    files.edit("f", "foo", "éé")
    assert files.path("f").read_bytes() == b"x\n\xe9\xe9\n"
    files.path("f").write_bytes(b"x\n\xe9\xe9\nnew\n")
    files.edit("f", "new", "ô")
    assert files.path("f").read_bytes() == b"x\n\xe9\xe9\n\xf4\n"


def test_half_a_unit_at_the_end_of_UTF_16_stays(files: FileSession):
    data = b"\xff\xfe" + "a\nb\n".encode("utf-16-le") + b"\x41"
    assert edited(files, data, "b", "c") == b"\xff\xfe" + "a\nc\n".encode("utf-16-le") + b"\x41"


def test_invalid_bytes_elsewhere_are_kept(files: FileSession):
    data = "héllo wörld ünïcode\n".encode() + b"bad \xff\xfe\x80 bytes\nx = 1\n"
    files.put("f", data)
    assert "3 bytes are not valid UTF-8" in files.do("read", file_path="f")
    files.edit("f", "x = 1", "x = 2")
    assert files.path("f").read_bytes() == data.replace(b"x = 1", b"x = 2")
    assert edited(files, b"\xff\nx = 1\n", "x = 1", "x = 2") == b"\xff\nx = 2\n"


def test_no_replacement_sign_is_ever_written(files: FileSession):
    data = "héllo wörld ünïcode\n".encode() + b"bad \xff bytes\n"
    files.seen("f", data)
    missed = files.refused("edit", file_path="f", old_string="bad \ufffd bytes", new_string="good")
    assert "stands for bytes" in missed
    assert "\ufffd" in files.refused("edit", file_path="f", old_string="héllo", new_string="\ufffd")
    assert "\ufffd" in files.refused("write", file_path="f", content="bad \ufffd bytes\n")
    assert files.path("f").read_bytes() == data


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        (b"\xef\xbb\xbfa", "a"),
        ("é ".encode() + b"\xff", "é \ufffd"),
        ("déjà vu à l'été, ça".encode("cp1252"), "déjà vu à l'été, ça"),
    ],
    ids=["mark", "stray", "cp1252"],
)
def test_a_nul_after_the_beginning_leaves_a_text_that_can_be_edited(
    files: FileSession, start: bytes, shown: str
) -> None:
    before = start.ljust(7_990) + b"\nlast one\nfar"
    nul = b"\0 end\n"
    files.seen("t", before + nul)
    whole = files.do("read", file_path="t", offset=2)
    assert "2\tlast one\n3\tfar\ufffd end\n" in whole and "1 NUL character" in whole
    assert shown in files.do("read", file_path="t")
    result = files.do("edit", file_path="t", old_string="last one", new_string="last two")
    assert "3\tfar\ufffd end" in result
    assert files.path("t").read_bytes() == before.replace(b"one", b"two") + nul
    assert "stands for bytes" in files.refused("edit", file_path="t", old_string="two", new_string="\ufffd")
    assert "stands for bytes" in files.refused("write", file_path="t", content="\ufffd")
    files.put("t", before[:7_999] + nul)
    assert "is a binary file" in files.refused("read", file_path="t")
    files.seen("t", before[:8_000] + nul)


def test_binary_files_are_refused_with_size_and_kind(files: FileSession):
    files.put("f", b"\x7fELF\x02\x01\x01" + bytes(100))
    error = files.refused("read", file_path="f")
    assert "107 bytes" in error and "ELF" in error
    files.put("g", b"text with a \0 in it\n")
    assert "binary" in files.refused("read", file_path="g")
    files.context.seen[str(files.path("g"))] = SeenFile(load_file(str(files.path("g"))).sha256)
    for tool, more in (("edit", {"old_string": "text", "new_string": "x"}), ("write", {"content": "x"})):
        assert "binary" in files.refused(tool, file_path="g", **more)


def test_a_byte_order_mark_is_kept_and_not_shown(files: FileSession):
    mark = b"\xef\xbb\xbf"
    files.put("f", mark + b"one\ntwo\n")
    assert files.do("read", file_path="f") == "1\tone\n2\ttwo"
    files.edit("f", "one", "1")
    assert files.path("f").read_bytes() == mark + b"1\ntwo\n"
    files.do("write", file_path="f", content="\ufeffnew\n")
    assert files.path("f").read_bytes() == mark + b"new\n"
    files.put("g", mark)
    assert files.do("read", file_path="g") == "[file is empty]"


@pytest.mark.parametrize(
    ("content", "old", "new", "result"),
    [
        (b"a\r\nb\r\nc\r\n", "b\n", "x\ny\n", b"a\r\nx\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\rb\rc\r", "a\nb\n", "x\ny\nz\n", b"x\ry\rz\rc\r"),
        (b"a\r\nb\nc\r\nd\r\n", "c", "x\ny", b"a\r\nb\nx\r\ny\r\nd\r\n"),
        (b"a\r\nb\nc\r\n", "a\nb\nc\n", "a\nb\nx\nc\n", b"a\r\nb\nx\r\nc\r\n"),
        (b"a\nb\r\nc\n", "b\n", "b\nx\n", b"a\nb\r\nx\nc\n"),
        (b"one line", "one", "a\nb", b"a\nb line"),
        (b"a\rx\nb\nc\n", "a\nx\n", "a\n\n", b"a\n\nb\nc\n"),
    ],
)
def test_line_ends_are_kept_and_new_ones_follow_the_common_newline(
    files: FileSession, content: bytes, old: str, new: str, result: bytes
):
    assert edited(files, content, old, new) == result


def test_write_keeps_the_line_ends_of_what_it_replaces(files: FileSession):
    files.seen("f", b"a\r\nb\r\n")
    files.do("write", file_path="f", content="x\ny\nz\n")
    assert files.path("f").read_bytes() == b"x\r\ny\r\nz\r\n"
    files.do("write", file_path="f", content="x\r\ny\r\n")
    assert files.path("f").read_bytes() == b"x\r\ny\r\n"
    files.seen("mixed", b"a\r\nb\nc\nd\r\ne\r\n")
    files.do("write", file_path="mixed", content="a\nb\nb2\nc\nD\ne\n")
    assert files.path("mixed").read_bytes() == b"a\r\nb\nb2\nc\nD\r\ne\r\n"


def test_a_line_end_never_grows_together_with_its_neighbour(files: FileSession):
    data = b"a\rb\n\nc\rd\r"
    files.seen("f", data)
    try:
        files.edit("f", "b\n", "q\n")
    except (FileError, ToolError):
        assert files.path("f").read_bytes() == data
    else:
        assert unify_newlines(files.path("f").read_bytes().decode()) == "a\nq\n\nc\nd\n"


def test_a_place_without_bytes_of_its_own_is_refused_for_its_encoding(files: FileSession):
    files.seen("f", "日本語のテスト\n".encode("iso2022_jp"))
    told = files.refused("edit", file_path="f", old_string="語の", new_string="文の")
    assert "without changing bytes around it (iso2022_jp)." in told


def test_only_line_ends_is_not_an_edit(files: FileSession):
    files.seen("f", b"a\r\nb\r\n")
    assert "line endings" in files.refused("edit", file_path="f", old_string="a\r\nb", new_string="a\nb")


def test_the_end_of_the_file_stays_unchanged(files: FileSession):
    assert edited(files, b"a\nb", "a", "x") == b"x\nb"
    assert edited(files, b"a\nb", "b", "x") == b"a\nx"
    assert edited(files, b"a\nb\n", "b", "x") == b"a\nx\n"


def test_only_real_line_ends_are_line_ends(files: FileSession):
    data = "a  \t\nb\x0cc\u2028d\x85e\x1cf\n g\t \n".encode()
    files.put("f", data)
    shown = files.do("read", file_path="f")
    assert shown.count("\n") == 2 and "3\t g\t " in shown
    files.edit("f", "d", "D")
    assert files.path("f").read_bytes() == data.replace(b"d", b"D")


def test_a_miss_several_matches_overlaps_and_no_change_are_refused(files: FileSession):
    data = b"foo\nbar\nfoo\naaa\n"
    files.seen("f", data)
    missed = files.refused("edit", file_path="f", old_string="nope", new_string="x")
    assert missed.startswith("String to replace not found in file.\nNothing similar was found.")
    assert missed.endswith("\nString: nope")
    several = files.refused("edit", file_path="f", old_string="foo", new_string="x")
    assert several.startswith("Found 2 matches of the string to replace, but replace_all is false.")
    assert "lines 1, 3" in several
    for replace_all in (False, True):
        overlapping = files.refused(
            "edit", file_path="f", old_string="aa", new_string="x", replace_all=replace_all
        )
        assert "2 matches" in overlapping and "line 4" in overlapping and "4, 4" not in overlapping
    same = files.refused("edit", file_path="f", old_string="foo", new_string="foo")
    assert "exactly the same" in same
    assert files.path("f").read_bytes() == data


def test_many_matches_and_a_long_text_are_named_in_short(files: FileSession):
    files.seen("f", b"x\n" * 25)
    several = files.refused("edit", file_path="f", old_string="x", new_string="y")
    assert "lines 1, 2, " in several and ", 19, 20 and 5 more.\nString: x" in several
    files.seen("f", b"x\n" * 20)
    several = files.refused("edit", file_path="f", old_string="x", new_string="y")
    assert ", 19, 20.\nString: x" in several
    missed = files.refused("edit", file_path="f", old_string="z" * 1_001, new_string="y")
    assert missed.endswith(f"\nString: {'z' * 1_000}… (1,001 characters)")
    missed = files.refused("edit", file_path="f", old_string="z" * 1_000, new_string="y")
    assert missed.endswith(f"\nString: {'z' * 1_000}")


def test_half_a_character_is_refused(files: FileSession):
    data = b"a\n"
    files.seen("f", data)
    for half in ("\ud800", "\udcff"):
        assert "surrogate" in files.refused("edit", file_path="f", old_string="a", new_string=half)
        assert "surrogate" in files.refused("edit", file_path="f", old_string=half, new_string="b")
        assert "surrogate" in files.refused("write", file_path="f", content=half)
        assert "surrogate" in files.refused("write", file_path=f"x{half}", content="x")
    assert files.path("f").read_bytes() == data


def test_a_nul_does_not_come_into_text(files: FileSession):
    files.seen("f", b"a = 1\n")
    assert "NUL" in files.refused("edit", file_path="f", old_string="1", new_string="'a\0b'")
    assert "NUL" in files.refused("write", file_path="f", content="a\0b")
    assert "NUL" in files.refused("write", file_path="new", content="\0")
    files.do("write", file_path="f", content="a\\0b\n")


def test_a_file_must_be_read_before_it_is_changed(files: FileSession):
    files.put("f", b"a\n")
    unread = "File has not been read yet. Read it first before writing to it."
    assert files.refused("edit", file_path="f", old_string="a", new_string="b") == unread
    assert files.refused("write", file_path="f", content="b") == unread
    assert files.refused("edit", file_path="none", old_string="a", new_string="b").startswith("File does not")


def test_a_binary_file_is_refused_as_such_before_it_was_read(files: FileSession):
    files.put("f", b"a\0b")
    assert "is a binary file" in files.refused("write", file_path="f", content="b")


def test_replace_all_replaces_all_but_not_in_a_file_that_changed(files: FileSession):
    assert edited(files, b"x=1\r\ny\r\nx=1\r\n", "x=1\n", "z\n", replace_all=True) == b"z\r\ny\r\nz\r\n"
    assert edited(files, b"abab", "ab", "c", replace_all=True) == b"cc"
    files.put("f", b"z\nz\nz\n")
    error = files.refused("edit", file_path="f", old_string="z", new_string="q", replace_all=True)
    assert "modified since read" in error


def test_an_edit_shows_what_it_did(files: FileSession):
    files.seen("f", b"".join(b"line %d\n" % n for n in range(1, 21)))
    result = files.result("edit", file_path="f", old_string="line 10\n", new_string="ten\nzehn\n")
    assert block_text(result.content[0]).endswith("9\tline 9\n10\tten\n11\tzehn\n12\tline 11")
    assert result.human.note == "+2 -1"
    assert "@@ -7,7 +7,8 @@" in result.human.diff
    assert result.about["path"] == str(files.path("f"))


@pytest.mark.parametrize(
    ("content", "old", "new", "told"),
    [
        ("def f():\n\treturn 1\n", "def f():\n    return 1", "x", "whitespace"),
        ("a  =  1\n", "a = 1", "x", "whitespace"),
        ("say “hello”\n", 'say "hello"', "x", "quotes"),
        ("a – b\n", "a - b", "x", "dashes"),
        ("one\ntwo\n", "1\tone\n2\ttwo", "x", "line numbers"),
        ("one\ntwo\n", "1→one\n2→two", "x", "line numbers"),
        ("new text here\n", "old text here", "new text here", "already in the file, on line 1"),
        ('a "b"\nc\n', 'a \\"b\\"\\nc', "x", "escaped once too often"),
        ('{"a": "x\\ny"}\n', '"x\ny"', "x", "double the backslash in the call. It is on line 1"),
        ("one\ntwo", "two\n", "x", "remove the one at the end of old_string"),
        ("a\nb\nc\nd\n", "a\n# ... existing code ...\nd", "x", "edit each part separately"),
        (
            "alpha\ndef compute(a, b):\n    return a\n",
            "def compute(a, c):\n    return a",
            "x",
            "2\tdef comp",
        ),
        ("alpha\nbeta\n", "quite another thing", "x", "Nothing similar"),
        ("f('a')\nx\nf('a')\n", 'f("a")', "x", "this text is in the file 2 times: include lines around"),
        (" a = 1\n b\n a = 1\n b\n", "a = 1\nb", "x", "this text is in the file 2 times"),
        ("say “a”\n-\nsay “a”\n", 'say "a"', "x", "this text is in the file 2 times"),
    ],
)
def test_a_miss_is_diagnosed(files: FileSession, content: str, old: str, new: str, told: str):
    files.seen("f", content.encode())
    assert told in files.refused("edit", file_path="f", old_string=old, new_string=new)
    assert files.path("f").read_bytes() == content.encode()


@pytest.mark.parametrize(
    ("content", "old", "theirs", "given"),
    [
        ("a\u00a0= 1\n", "a = 1", "U+00A0 (no-break space)", "U+0020 (space)"),
        ("cafe\u0301 = 1\n", "caf\u00e9 = 1", "U+0301 (combining acute accent)", "U+00E9 (latin small"),
        ("x = caf\u00e9(1)\n", "cafe\u0301(1)", "U+00E9 (latin small letter e with acute)", "U+0301"),
        ("\uff11 and 2\n", "1 and 2", "U+FF11 (fullwidth digit one)", "U+0031 (digit one)"),
        ("a  \u2013 b\n", "a - b", "U+2013 (en dash)", "U+002D (hyphen-minus)"),
        ("⚠\ufe0f Warning: ❤\ufe0f and\n", "⚠ Warning: ❤ and", "U+FE0F (variation selector-16)", "nothing"),
        ("⚠ 1\u20e3 ok\n", "⚠\ufe0f 1\ufe0f\u20e3 ok", "nothing", "U+FE0F (variation selector-16)"),
        ("x\n👩\u200d💻 ب\u200cب\n", "👩💻 بب", "U+200D (zero width joiner), U+200C (zero width", "nothing"),
        ("a\u200b = \ufeff1\n", "a  = 1", "U+200B (zero width space), U+FEFF (zero", "U+0020 (space)"),
        ("p\nsay \u201chi\u201d\n", 'p\nsay "hi"', "U+201D (right double quotation mark)", "U+0022"),
    ],
)
def test_characters_that_look_alike_are_named_by_code_point(
    files: FileSession, content: str, old: str, theirs: str, given: str
):
    files.seen("f", content.encode())
    told = files.refused("edit", file_path="f", old_string=old, new_string="x")
    in_file, _, in_old = told.partition(" where old_string has ")
    assert theirs in in_file and given in in_old and "similar-looking" in told


def test_an_edit_is_called_done_only_where_the_text_was_nearly_found(files: FileSession):
    lines = ["return x", *[f"line {number}" for number in range(40)], "def target(a, b):", "    pass"]
    files.seen("f", "\n".join(lines).encode())
    wrong = files.refused("edit", file_path="f", old_string="def target(a, c):", new_string="return x")
    assert "def target(a, b):" in wrong and "done" not in wrong
    blank = files.refused("edit", file_path="f", old_string="\tpass", new_string="return x")
    assert "Only whitespace differs" in blank
    strange = files.refused("edit", file_path="f", old_string="quite @ else !", new_string="return x")
    assert "Nothing similar" in strange
    done = files.refused(
        "edit", file_path="f", old_string="def target(a):\n    pass", new_string="def target(a, b):\n    pass"
    )
    assert "already in the file, on line 42" in done
    long = "\n".join(lines[5:12])
    assert "on line 6" in files.refused("edit", file_path="f", old_string="@ @", new_string=long)


def test_a_hint_that_is_cut_says_so_and_shows_where_it_differs(files: FileSession):
    lines = [f"value_{number} = {number}" for number in range(140)]
    files.seen("f", "\n".join(lines).encode())
    wanted = [*lines[5:95], "value_95  =  95", *lines[96:105]]
    told = files.refused("edit", file_path="f", old_string="\n".join(wanted), new_string="x")
    assert "96\tvalue_95 = 95" in told and "6\tvalue_5\n" not in told
    assert "[60 of the 100 lines 6-105; the first difference is on line 96]\nString: " in told
    short = files.refused("edit", file_path="f", old_string="value_1  =  1\nvalue_2 = 2", new_string="x")
    assert "\n3\tvalue_2 = 2\n[differing lines: 2]\nString: " in short


@pytest.mark.parametrize(
    ("content", "old", "new"),
    [
        ("timeout = 30\nretries = 3\n", "timeout = 31", "timeout = 3"),  # the beginning of another number
        ("call(a, b, c, d)\n", "call(a, b, c, e)", "call(a, b"),
        ("x(one, two, three)\nelse:\n    y()\n", "x(one, two, four)\nelse:\n    y()", "else:"),
    ],
)
def test_an_edit_is_not_called_done_for_text_that_was_there_before(
    files: FileSession, content: str, old: str, new: str
):
    files.seen("f", content.encode())
    told = files.refused("edit", file_path="f", old_string=old, new_string=new)
    assert "The closest match is below" in told and "done" not in told


OMISSIONS = [
    "# ... existing code ...",
    "    // ... existing code ...",
    "/* ... existing imports ... */",
    "<!-- ... rest of the page ... -->",
    "// … rest of file unchanged",
    "{/* ... existing props ... */}",
    "-- ... remaining columns",
    "// ... other methods ...",
    "# ... (omitted for brevity)",
    "(rest of methods ...)",
    "    (unchanged code ...)",
    "(* ... rest of the module ... *)",
]
LOSING_OMISSIONS = [
    "/* unchanged */",
    "    # rest of the code remains the same",
    "// existing code here",
    "{/* existing code */}",
    "# [rest of function unchanged]",
    "<!-- same as before -->",
    "# ...",
    "// Keep the existing implementation.",
    "// rest of methods ...",
    "... (remaining code unchanged)",
    "[... rest of file ...]",
    "// (unchanged code ...)",
    "/* rest of methods ... */",
    "-- rest of query",
    "// leave the rest unchanged",
    "// snip",
    "# rest unchanged",
    "-- remaining columns unchanged",
    "// [...existing implementation...]",
    "# all other methods stay the same",
    "# Rest of the file stays as it was",
    "... rest of the code remains the same ...",
    "'''... existing code ...'''",
    "# --- rest of file unchanged ---",
    "# ... more methods ...",
    "// ...rest",
    "# [truncated]",
    "// same as original",
    "# ... übriger Code unverändert ...",
    "# TODO: rest of implementation",
    '" ... rest of vimrc ...',
    "// etc.",
    "# и так далее ...",
    "// 其余代码不变",
    "// body unchanged",
    "// other routes...",
    "# Keep everything else as is",
    "-- rest",
    "    pass  # TODO keep",
    "/* existing styles */",
    "# -- lines 40-80 unchanged --",
    "// >>> unchanged <<<",
    "      - ... existing steps ...",
    '" rest of the vimrc',
    "@rem rest of the script",
    "# ⋮",
    "// + 12 more methods",
    "# Include the rest of the original file here",
    "_(rest of the section unchanged)_",
    "# (Keep _fetch_quarterly_data, _clean_number)",
    "... (rest of the HTML code)",
    "# visualization omitted for brevity",
    "// --- REST OF THE LOGIC (Unchanged) ---",
    "// rest of the code will remain same",
    "// implement the rest of your code here",
    "// [Previous code remains exactly the same until the end]",
    "# remaining methods go here",
    "/* continues as before */",
    "[lines omitted]",
    *(
        "  " + comment.replace("x", "rest of the file unchanged", 1)
        for comment in (
            *("## x", "/// x", "/** x */", "* x", ";; x", "%% x", ":: x", "{{!-- x --}}", "{# x #}", "! x"),
            *("{{/* x */}}", "<%-- x --%>", "<%# x %>", "(* x *)", "{- x -}", "dnl x", "@* x *@", "#| x |#"),
            *(".. x", "(; x ;)", "#= x =#", "#[ x ]#", "<# x #>", "--[[ x ]]", "NB. x", "//! x"),
        )
    ),
]


@each_row(
    "line",
    [
        "function f() { /* existing code */ }",
        "<p><!-- unchanged --></p>",
        "pass  # ... existing code ...",
        '    "# ... rest of the cell\\n",',
    ],
)
def test_a_comment_beside_code_may_stand_for_code_as_well(files: FileSession, line: str):
    files.seen("f", b"a\nb\nc\n")
    told = files.refused("edit", file_path="f", old_string="a\nb\nc", new_string=f"a\n{line}")
    assert "Write that code out" in told
    files.edit("f", "a\nb\nc", "d  # existing code of b and c\nf(/* code */ 1, /* ... */)")


@each_row("line", LOSING_OMISSIONS)
def test_words_for_code_that_is_left_out_are_not_written_where_lines_vanish(files: FileSession, line: str):
    files.seen("f", b"a\nb\nc\n")
    told = files.refused("edit", file_path="f", old_string="a\nb\nc", new_string=f"a\n{line}")
    assert line.strip() in told and "Write that code out" in told
    assert "Write that code out" in files.refused("write", file_path="f", content=line)
    files.edit("f", "a\nb", f"a\nb\n{line}")  # nothing is lost
    files.edit("f", f"b\n{line}\nc", f"d\n{line}")  # the file has it
    assert files.path("f").read_text() == f"a\nd\n{line}\n"


@pytest.mark.parametrize("line", OMISSIONS)
def test_a_comment_for_code_that_is_left_out_is_not_written(files: FileSession, line: str):
    files.seen("f", b"a\nb\n")
    told = files.refused("edit", file_path="f", old_string="a", new_string=f"a\n{line}\nc")
    assert line.strip() in told and "Write that code out" in told
    assert "Write that code out" in files.refused("write", file_path="f", content=f"a\n{line}\n")
    files.do("write", file_path="new", content=f"{line}\nb")  # nothing can be lost there
    files.edit("new", f"{line}\nb", f"c\n{line}")
    assert files.path("new").read_text() == f"c\n{line}"


@pytest.mark.parametrize(
    "line", ["x = ...  # existing", "# existing code", "print('...existing')", "# ... and so on"]
)
def test_other_dots_and_comments_are_written(files: FileSession, line: str):
    assert edited(files, b"a\n", "a", line) == f"{line}\n".encode()


@pytest.mark.parametrize("line", ["[...]", "(...)", "...", "(existing)", "[the_rest]", "(rest, of, code)"])
def test_brackets_that_are_code_are_written_where_lines_vanish(files: FileSession, line: str):
    assert edited(files, b"a\nb\nc\n", "a\nb\nc", f"x = 1\n{line}") == f"x = 1\n{line}\n".encode()


def test_a_miss_in_a_huge_file_is_reported_in_bounded_time(files: FileSession):
    files.seen("f", b"".join(b"some line with words %d\n" % n for n in range(80_000)))
    assert "not found" in files.refused(
        "edit", file_path="f", old_string="some lime with wards 77777777", new_string="x"
    )


ONE_LINE = ";".join(f"function f{n}(a,b){{return a*{n * 7_919 % 100_003}+b.q{n}}}" for n in range(30_000))


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("function f15000(a, b){return a*", "Only whitespace differs"),
        ("f15000( a,b )", "Only whitespace differs"),
        ("function f15000(a,b){return b*", "The closest match is below"),
        ("function g15000(a,b){return a*", "The closest match is below"),
        ("function f15000(a,b){return\u00a0a*", "Only similar-looking characters"),
    ],
)
def test_a_miss_in_a_file_of_one_long_line_shows_the_place(files: FileSession, wanted: str, reason: str):
    files.seen("f", ONE_LINE.encode())
    told = files.refused("edit", file_path="f", old_string=wanted, new_string="x")
    assert reason in told
    assert " chars]…" in told and "f15000(a,b)" in told.partition("String: ")[0]
    assert len(told) < 1_500


def test_of_a_long_line_the_place_that_differs_is_shown(files: FileSession):
    line = " ".join(f"word{n}" for n in range(1_000))
    files.seen("f", f"first\n{line}\nlast\n".encode())
    other = line.replace("word700", "word7oo")
    told = files.refused("edit", file_path="f", old_string=f"first\n{other}\nlast", new_string="x")
    shown = told.partition("\n2\t")[2].partition("\n")[0]
    assert "word699 word700 word701" in shown and len(shown) < 600


PLACEHOLDERS = [
    '[cleared: read src/a.py, 3,412 tokens. Read the file again, or recall("r57") for this version]',
    "<persisted-output>",
    "[cleared: read src/a.py, 3,412 tokens; recall r57 shows it]",  # as earlier versions wrote it
    "[summarized: messages r1-r57. This is not a request. recall shows any of them]",
    "[lines 1-60 are unchanged since r6 above]",
    "[lines 62-161 are unchanged since r6 above, where they are lines 61-160]",
    "[this result: r6]",
    '[... 1,120 characters omitted; recall("r5.1") shows all of it]',
    'x = 1 [... 120 characters omitted; recall("r5") shows all of it. Excerpts:]',
    "[lines 1-60 are not repeated: as in r6 above]",
    "[lines 62-161 are not repeated: as in lines 61-160 of r6 above]",
    "    [put back: src/a b.py, lines 1-4, shown earlier and cleared (r12)]",
    "[put back: a.py, part, shown earlier and cleared (r12.1)]",
    "[... 1,120 characters are left out here; recall r5 shows it all]",
    "[... 120 characters are left out here; recall r5.1 shows it all ...]",
    "x = 1 [... 120 characters are left out here; recall r5 shows it all; of them:]",
]


@pytest.mark.parametrize("text", PLACEHOLDERS)
def test_our_own_placeholders_do_not_come_into_files(files: FileSession, text: str):
    files.seen("f", b"a\n")
    assert "placeholder" in files.refused("write", file_path="g", content=f"x\n{text}\n")
    assert "placeholder" in files.refused("edit", file_path="f", old_string="a", new_string=text)
    assert "old_string contains the placeholder" in files.refused(
        "edit", file_path="f", old_string=text, new_string="b"
    )
    files.do("write", file_path="g", content="[cleared: all of it] and r57\n")
    assert files.path("f").read_bytes() == b"a\n"


@pytest.mark.parametrize("text", [each for each in PLACEHOLDERS if "persisted" not in each])
def test_a_file_that_has_a_placeholder_can_be_changed(files: FileSession, text: str):
    files.seen("f", f"a\n{text}\nb\n".encode())
    files.edit("f", f"a\n{text}\nb", f"c\n{text}\nd")
    files.do("write", file_path="f", content=f"e\n{text}\n")
    other = re.sub(r"\br\d", "r9", text)
    assert "placeholder" in files.refused("write", file_path="f", content=f"e\n{other}\n")
    files.edit("f", text, "gone")
    assert files.path("f").read_text() == "e\ngone\n"


def test_lines_that_compaction_shows_are_refused_and_text_that_speaks_of_them_written(files: FileSession):
    line = "[lines 1-60 are unchanged since r6 above]"
    moved = "[lines 1-60 are unchanged since r6 above, where they are lines 3-62]"
    own = block_text(with_result_id((), 6)[0])
    cut = head_and_tail("a" * 2_000, 100, "r5.1").split("\n")[1]
    for each in (line, moved, own, cut):
        assert each in files.refused("write", file_path="g", content=f"x = 1\n{each}\ny = 2\n")
        for content in (f'told = "{each}"\n', f"Such as `{each}`\n"):
            files.do("write", file_path="h", content=content)


def test_parallel_edits_of_one_file_queue_up(files: FileSession):
    files.seen("f", b"".join(b"line %d.\n" % n for n in range(40)))

    async def all_at_once() -> None:
        await asyncio.gather(
            *(
                files.act("edit", file_path="f", old_string=f"line {n}.", new_string=f"done {n}.")
                for n in range(40)
            )
        )

    asyncio.run(all_at_once())
    assert files.path("f").read_bytes() == b"".join(b"done %d.\n" % n for n in range(40))


PIECES = st.sampled_from(
    [
        *"\n|\r\n|\r|a|bc|x = 1|\t|  |\x0c|é|😀|日本|\u2028".encode().split(b"|"),
        *b"\xff|\xc3|\x80|\xe9|\x82\xa0\x83e|\x85".split(b"|"),
    ]
)
TEXTS = st.lists(PIECES, min_size=1, max_size=40).map(b"".join)
BODIES = st.one_of(TEXTS, st.binary(min_size=1, max_size=60))
MARKS = ["", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le"]


@st.composite
def file_contents(draw: st.DrawFn) -> bytes:
    """Random bytes, or random text in one of the marked encodings."""
    kind = draw(st.sampled_from(MARKS))
    if not kind:
        return draw(BODIES)
    text = draw(st.text(alphabet=st.sampled_from("ab\n\r é日😀\t\u2028\x0c"), min_size=1, max_size=40))
    marks = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff", "utf-32-le": b"\xff\xfe\0\0"}
    return marks.get(kind, b"") + text.encode(kind) + draw(st.sampled_from([b"", b"", b"\x41"]))


NEW = st.text(alphabet=st.sampled_from("ab\n\r é日x"), max_size=12)


def check_span(data: bytes, start: int, size: int, new: str) -> None:
    """Edit a random span of the file; compare with what a splice of the raw text must give."""
    decoded = decode_text(data)
    assume(decoded is not None and decoded[0])
    assert decoded is not None
    text = decoded[0]
    flat = unify_newlines(text)
    begin = start % len(flat)
    old = flat[begin : begin + max(1, size)]
    flat_new = unify_newlines(new)
    assume(not any("\ud800" <= char <= "\udfff" for char in old))
    places = find_all(flat, old)
    folder = Path(tempfile.mkdtemp(dir=ROOT_OF_SPANS[0]))
    files = FileSession(folder)
    path = files.put("f", data)
    files.context.seen[str(path)] = SeenFile(load_file(str(path)).sha256)
    try:
        files.edit("f", old, new)
    except (FileError, ToolError):
        assert path.read_bytes() == data
        return
    assert len(places) == 1 and old != flat_new
    assert_only_the_span(data, path.read_bytes(), text, old, flat_new)
    assert files.litter() == []


def assert_only_the_span(before: bytes, after: bytes, text: str, old: str, new: str) -> None:
    """The reference: find the span in the raw text by its own walk, then compare what is around it."""
    found = decode_text(before)
    assert found is not None
    form = found[1]
    bounds = [0, *(index for index in range(1, len(text) + 1) if text[index - 1 : index + 1] != "\r\n")]
    spans = ((start, end) for start in bounds for end in bounds if end > start)
    start, end = next(span for span in spans if unify_newlines(text[slice(*span)]) == old)
    head = form.mark + form.encode(text[:start])
    tail = before[len(head) + len(form.encode(text[start:end])) :]
    assert after.startswith(head) and after.endswith(tail)
    middle = form.decode(after[len(head) : len(after) - len(tail)])
    assert unify_newlines(middle) == new
    ends = "\r\n|\r|\n"
    near = re.findall(ends, text[end:])[:1] or re.findall(ends, text[:start])[-1:]
    allowed = {common_newline(text) or "\n", *re.findall(ends, text[start:end]), *near}
    assert set(re.findall("\r\n|\r|\n", middle)) <= allowed


ROOT_OF_SPANS: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def spans(tmp_path_factory: pytest.TempPathFactory) -> None:
    ROOT_OF_SPANS[:] = [str(tmp_path_factory.mktemp("spans"))]


ANY = {"data": file_contents(), "start": st.integers(0, 60), "size": st.integers(1, 10), "new": NEW}
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@settings(max_examples=80, deadline=None, suppress_health_check=SLOW)
@given(**ANY)
@example(data=b"a\rb\n\nc\r", start=2, size=2, new="q\n")
@example(data=b"\xff\xfea\x00\r\x00\n\x00", start=0, size=1, new="\n")
def test_no_byte_outside_the_span_changes(data: bytes, start: int, size: int, new: str):
    check_span(data, start, size, new)


@pytest.mark.sweep
@settings(max_examples=10_000, deadline=None, suppress_health_check=SLOW)
@given(**ANY)
def test_no_byte_outside_the_span_changes_in_ten_thousand_files(data: bytes, start: int, size: int, new: str):
    check_span(data, start, size, new)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=30).map(b"".join), st.integers(0, 30), st.integers(1, 8))
def test_putting_back_what_was_there_gives_the_same_bytes(data: bytes, start: int, size: int):
    decoded = decode_text(data)
    assume(decoded is not None and decoded[0])
    assert decoded is not None
    source = source_text(data, *decoded)
    begin = start % len(source.flat)
    old = source.flat[begin : begin + size]
    assume(not any("\ud800" <= char <= "\udfff" for char in old))
    assert splice(source, [begin], old, old) == data


def test_the_tool_says_what_it_takes():
    assert TOOL.name == "edit" and list(EditArguments.__struct_fields__) == [
        "file_path",
        "old_string",
        "new_string",
        "replace_all",
    ]
