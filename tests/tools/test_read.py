"""Reading: numbered lines in pages, images checked, nothing shown twice for nothing."""

from __future__ import annotations

import base64
import io
import json
import os
import random
import threading
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.narrowing import block_text, present
from tests.tables import each_row
from tools.base import ToolError, ToolResult
from tools.line_window import MAX_WIDTH_CHARS, MAX_WINDOW_BYTES, cut_text, number_lines, scan_file
from tools.read import TOOL
from tools.text.encoding import decode_text, unify_newlines
from transcripts.messages import ImageBlock

from .file_session import FileSession, child
from .pdf_document import pdf_document


def lines(count: int, start: int = 1) -> bytes:
    return b"".join(b"line %d\n" % n for n in range(start, start + count))


def test_lines_are_numbered_as_cat_does(files: FileSession):
    files.put("f", b"one\n\n\tthree\nlast")
    assert files.do("read", file_path="f") == "1\tone\n2\t\n3\t\tthree\n4\tlast"


def test_a_long_file_comes_in_pages(files: FileSession):
    files.put("f", lines(8123))
    page = files.do("read", file_path="f")
    assert page.startswith("1\tline 1\n")
    assert page.endswith("\n2000\tline 2000\n[lines 1-2000 of 8123; continue with offset=2001]")
    page = files.do("read", file_path="f", offset="8120", limit="2")
    assert page == "8120\tline 8120\n8121\tline 8121\n[lines 8120-8121 of 8123; continue with offset=8122]"
    assert files.do("read", file_path="f", offset=8122).endswith("[lines 8122-8123 of 8123]")
    assert files.do("read", file_path="f", offset=-1).startswith("8123\tline 8123\n")
    assert files.do("read", file_path="f", offset=-5000, limit=1).startswith("3124\tline 3124\n")


def test_a_file_that_a_sandboxed_command_left_in_its_own_tmp_is_not_there(files: FileSession):
    told = files.refused("read", file_path="/tmp/makeroom-there-is-none")
    assert "If a sandboxed command wrote it to its private /tmp, use bash" in told
    assert "Check the path" in files.refused("read", file_path="there-is-none")


def test_pages_are_as_small_as_the_window_wants_them(files: FileSession):
    files.context.page_bytes = lambda: 900
    for name, times in (("small", 200), ("large", 600_000)):
        files.put(name, b"12345678\n" * times)
        page = files.do("read", file_path=name)
        assert f"\n[lines 1-100 of {times}; continue with offset=101]" in page
        assert page.startswith("1\t12345678\n") and "\n100\t12345678\n[" in page
    files.put("wide", b"x" * 1_500)
    assert files.do("read", file_path="wide").startswith("1\txxx"), "a page has a line at least"


def test_pages_end_at_their_size_and_long_lines_are_cut(files: FileSession):
    files.put("f", (b"x" * 999 + b"\n") * 100)
    page = files.do("read", file_path="f")
    assert "[lines 1-50 of 100; continue with offset=51]" in page
    files.put("g", b"y" * 5000 + b"\nz\n")
    assert files.do("read", file_path="g") == f"1\t{'y' * 2000}…[+3,000 chars]\n2\tz"
    files.put("h", ("é" * 999 + "\n").encode() * 100)
    assert "[lines 1-25 of 100;" in files.do("read", file_path="h")


def test_large_and_small_files_are_shown_alike(files: FileSession):
    content = b"".join(b"%d %s\r\n" % (n, b"w" * (n % 60)) for n in range(200_000))
    files.put("large", content)
    assert len(content) > 4 * 1024 * 1024
    page = files.do("read", file_path="large", offset=150_000, limit=3)
    assert page.startswith("150000\t149999 ") and "of 200000; continue with offset=150003]" in page
    assert files.do("read", file_path="large", offset=-2).startswith("199999\t199998 ")
    files.edit("large", "150000 " + "w" * (150_000 % 60) + "\n", "here\n")
    assert b"\r\nhere\r\n" in files.path("large").read_bytes()


TEXTS = st.text(alphabet=st.sampled_from("ab\n\n\r é\u2028"), max_size=80)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(-8, 12), st.integers(1, 9))
def test_the_window_of_a_stream_is_that_of_the_whole(text: str, offset: int, limit: int):
    offset = offset or 1
    data = text.encode()
    found = decode_text(data)
    assert found is not None
    expected = unify_newlines(text).split("\n")
    if not expected[-1]:
        expected.pop()
    first = max(1, len(expected) + offset + 1) if offset < 0 else offset
    if text:
        view = cut_text(*found, (offset, limit))
        assert (view.first, view.lines, view.total) == (first, expected[first - 1 :][:limit], len(expected))
        assert view.more == (first + len(view.lines) <= len(expected))
    file = Path(FOLDER[0], "f")
    file.write_bytes(data)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        stream = scan_file(descriptor, len(data), (offset, limit), threading.Event())
    finally:
        os.close(descriptor)
    assert stream is not None
    assert (stream.first, stream.lines, stream.total) == (first, expected[first - 1 :][:limit], len(expected))
    if text:
        assert number_lines(stream) == number_lines(view)


FOLDER: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    FOLDER[:] = [str(tmp_path_factory.mktemp("streams"))]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, MAX_WIDTH_CHARS + 300), min_size=1, max_size=60), st.sampled_from("xé"))
def test_no_page_is_larger_than_allowed(widths: list[int], char: str):
    text = "\n".join(char * width for width in widths)
    found = decode_text(text.encode())
    assert found is not None
    if not text:
        return
    view = cut_text(*found, (1, 2000))
    shown = [line[:MAX_WIDTH_CHARS] for line in view.lines]
    assert sum(len(line.encode()) + 1 for line in shown) <= MAX_WINDOW_BYTES or len(shown) == 1
    assert shown == [char * min(width, MAX_WIDTH_CHARS) for width in widths][: len(shown)]


def test_a_repeated_read_is_a_stub_while_the_first_is_in_view(files: FileSession):
    files.put("f", lines(3))

    def record(result: ToolResult, seq: int) -> ToolResult:
        present(TOOL.record)(result, files.context, seq)
        return result

    in_view = {7}
    files.context.in_view = lambda seq: seq in in_view
    first = record(files.result("read", file_path="f"), 7)
    second = record(files.result("read", file_path="f"), 9)
    assert "1\tline 1" in block_text(first.content[0])
    assert block_text(second.content[0]).startswith("File unchanged since r")
    assert second.about["unchanged"] == 7
    third = files.result("read", file_path="f")  # the stub did not take the place of what it points to
    assert block_text(third.content[0]).startswith("File unchanged since r")
    assert "2\tline 2" in files.do("read", file_path="f", offset=2)
    in_view.clear()
    record(files.result("read", file_path="f"), 11)
    in_view |= {11}
    assert files.do("read", file_path="f").startswith("File unchanged")
    files.put("f", lines(4))
    assert "4\tline 4" in files.do("read", file_path="f")


def test_a_stub_for_an_attached_file_names_the_attachment_which_shows_no_id(files: FileSession):
    files.put("f", lines(3))
    files.context.in_view = lambda seq: seq == 5
    files.context.restore_seen(files.result("read", file_path="f").about, 5, attached=True)
    told = files.result("read", file_path="f")
    assert block_text(told.content[0]).startswith("File unchanged since the user attached it above. That ")
    assert told.about["unchanged"] == 5


def test_a_stub_is_only_for_the_same_lines(files: FileSession):
    files.put("f", lines(30))
    files.context.in_view = lambda seq: True
    present(TOOL.record)(files.result("read", file_path="f", limit=10), files.context, 3)
    assert files.do("read", file_path="f", limit=10).startswith("File unchanged")
    assert "30\tline 30" in files.do("read", file_path="f")


def test_after_an_edit_the_file_is_shown_again(files: FileSession):
    files.put("f", lines(3))
    files.context.in_view = lambda seq: True
    present(TOOL.record)(files.result("read", file_path="f"), files.context, 3)
    files.edit("f", "line 2", "zwei")
    assert "2\tzwei" in files.do("read", file_path="f")


def test_a_session_opened_again_knows_what_was_read(files: FileSession, tmp_path: Path):
    files.put("f", lines(30))
    files.put("g", lines(30))
    results = [
        files.result("read", file_path="f"),
        files.result("read", file_path="g", offset=3, limit=2),
        files.result("edit", file_path="f", old_string="line 7\n", new_string="sieben\n"),
    ]
    again = FileSession(tmp_path)
    again.context.in_view = lambda seq: seq == 2
    for seq, result in enumerate(results, 1):
        again.context.restore_seen(result.about, seq)
    assert again.context.seen.keys() == files.context.seen.keys()
    assert again.do("read", file_path="g", offset=3, limit=2).startswith("File unchanged")
    again.edit("f", "sieben", "seven")
    assert "7\tseven" in again.do("read", file_path="f")


def test_a_session_opened_again_knows_in_which_encoding_it_was_read(files: FileSession, tmp_path: Path):
    files.put("f", b"x\xe9y\nfoo\n")
    results = [files.result("read", file_path="f")]
    results.append(files.result("edit", file_path="f", old_string="foo", new_string="föö €"))
    again = FileSession(tmp_path)
    for seq, result in enumerate(results, 1):
        again.context.restore_seen(result.about, seq)
    again.edit("f", "föö", "ééé")
    assert files.path("f").read_bytes() == "xéy\nééé €\n".encode("cp1252")


def test_invisible_characters_are_counted_and_left_in_place_except_tags(files: FileSession):
    files.put("f", "a\u202eb\U000e0041\n\x1b[31mred\n".encode())
    shown = files.do("read", file_path="f")
    assert "a\u202eb\n" in shown and "\x1b[31mred" in shown
    assert "contain 2 invisible characters" in shown


def image(width: int, height: int, kind: str = "PNG", noise: bool = False, **options: bool) -> bytes:
    from PIL import Image as pillow

    picture = pillow.new("RGB", (width, height), (200, 30, 30))
    if noise:
        picture = pillow.frombytes("RGB", (width, height), random.Random(1).randbytes(width * height * 3))
    output = io.BytesIO()
    picture.save(output, kind, **options)
    return output.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_images_are_reported_by_their_bytes_and_passed_unchanged(files: FileSession, kind: str):
    data = image(40, 30, kind)
    files.put("no-ending", data)
    result = files.result("read", file_path="no-ending")
    block = result.content[0]
    assert isinstance(block, ImageBlock)
    assert block.media_type == f"image/{kind.lower()}"
    assert base64.b64decode(block.data) == data
    assert "40x30" in block_text(result.content[1])


def test_lines_of_an_image_are_refused_in_a_note(files: FileSession):
    files.put("p.png", image(4, 3))
    result = files.result("read", file_path="p.png", offset=10)
    assert isinstance(result.content[0], ImageBlock)
    assert "offset and limit were ignored" in str(result.content[-1])
    assert "ignored" not in files.do("read", file_path="p.png")


def test_large_images_are_scaled(files: FileSession):
    from PIL import Image as pillow

    files.put("wide.png", image(4000, 1000))
    files.put("heavy.png", image(1500, 1500, noise=True))
    for name, size in (("wide.png", (1568, 392)), ("heavy.png", (1500, 1500))):
        block = files.result("read", file_path=name).content[0]
        assert isinstance(block, ImageBlock)
        assert len(block.data) <= 5 * 1024 * 1024
        assert pillow.open(io.BytesIO(base64.b64decode(block.data))).size == size


def broken_images() -> dict[str, bytes]:
    png, jpeg = image(60, 50), image(60, 50, "JPEG")
    bomb = bytearray(png)
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2
    bomb[29:33] = zlib.crc32(bytes(bomb[12:29])).to_bytes(4, "big")
    text = b"tEXt" + png[16:29]
    flipped = bytearray(png)
    flipped[len(png) // 2] ^= 0xFF
    return {
        "cut": png[: len(png) // 2],
        "head only": png[:10],
        "no header": png[:12] + text + zlib.crc32(text).to_bytes(4, "big") + png[-12:],
        "flipped": bytes(flipped),
        "bomb": bytes(bomb),
        "jpeg cut": jpeg[: len(jpeg) // 2],
        "jpeg head": jpeg[:4],
        "gif": b"GIF89a" + bytes(4),
        "webp": b"RIFF\x20\0\0\0WEBPVP8 " + bytes(20),
    }


@pytest.mark.parametrize(
    "name", ["cut", "head only", "no header", "flipped", "bomb", "jpeg cut", "jpeg head", "gif", "webp"]
)
def test_a_broken_image_is_text(files: FileSession, name: str):
    files.put("f.png", broken_images()[name])
    result = files.result("read", file_path="f.png")
    assert not any(isinstance(block, ImageBlock) for block in result.content)
    text = block_text(result.content[0])
    assert "is not shown" in text
    assert " at 0x" not in text  # it is the same each time


def test_of_encoded_data_only_the_beginning_is_shown(files: FileSession):
    data = base64.b64encode(bytes(range(256)) * 40).decode()
    files.put("plot.ipynb", f'{{"image/png": "{data}"}}\n"next"\n'.encode())
    shown = files.do("read", file_path="plot.ipynb").splitlines()
    assert shown == [f'1\t{{"image/png": "{data[:100]}…[+{len(data) - 98:,} chars]', '2\t"next"']
    files.put("long.txt", b"word, " * 1_000)
    assert len(files.do("read", file_path="long.txt")) > 2_000


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Title\n", "words \ud800"]},
        {
            "cell_type": "code",
            "execution_count": 3,
            "source": 'print("x")',
            "outputs": [
                {"output_type": "stream", "text": ["\x1b[1mx\x1b[0m\r\n", "y\u202e\n"]},
                {"output_type": "display_data", "data": {"text/plain": "<Figure>", "image/png": "aGVsbG8="}},
                {"output_type": "error", "ename": "KeyError", "evalue": "'k'", "traceback": []},
            ],
        },
        {"cell_type": "code", "source": [], "outputs": [{"output_type": "stream", "text": "ab\n" * 10_000}]},
    ],
    "nbformat": 4,
}


def test_a_notebook_is_shown_by_cells_and_its_json_where_lines_are_asked_for(files: FileSession):
    files.put("n.ipynb", json.dumps(NOTEBOOK).encode())
    shown = files.do("read", file_path="n.ipynb")
    assert shown.startswith(
        "[cells[0]: markdown]\n# Title\nwords \ufffd\n\n"
        '[cells[1]: code, run 3]\nprint("x")\n[output]\nx\ny\n<Figure>\n[image/png: not shown]\n'
        "KeyError: 'k'\n\n[cells[2]: code]\n\n[output]\nab\n"
    )
    assert shown.endswith(
        "\nab\n[a notebook: 3 of 3 cells. To edit it, read its JSON with offset and limit]\n"
        "[invisible characters removed: 1]"
    )
    assert "characters omitted ...]" in shown and len(shown) < 3_000
    assert files.do("read", file_path="n.ipynb", offset=1).startswith('1\t{"cells": [{"cell_type"')
    files.context.page_bytes = lambda: 250
    small = files.do("read", file_path="n.ipynb")
    assert "[a notebook: 2 of 3 cells, the rest is omitted. To edit it" in small
    files.seen("n.ipynb", json.dumps(NOTEBOOK).encode())
    assert "has been updated" in files.edit("n.ipynb", r"print(\"x\")", "pass")


def test_the_cells_of_a_notebook_are_shown_once_and_do_not_stand_for_its_json(files: FileSession):
    files.put("n.ipynb", b'{"cells": [{"cell_type": "raw", "source": "x"}]}')
    result = files.result("read", file_path="n.ipynb")
    files.context.in_view = lambda seq: True
    present(TOOL.record)(result, files.context, 7)
    assert "File unchanged" in files.do("read", file_path="n.ipynb")
    assert files.do("read", file_path="n.ipynb", offset=1).startswith('1\t{"cells"')


@pytest.mark.parametrize("data", ["", "{}", "[" * 100_000, '{"cells": [1]}', '{"cells": [{"source": "x"}]}'])
def test_what_is_only_named_like_a_notebook_is_text(files: FileSession, data: str):
    files.put("n.ipynb", data.encode())
    assert files.do("read", file_path="n.ipynb")[:9] == (f"1\t{data}" if data else "[file is empty]")[:9]


def test_a_directory_is_listed_whatever_it_holds(files: FileSession):
    files.put("sub/b", b"")
    files.path("sub/a").mkdir()
    files.path("sub/circle").symlink_to("links form a loop")
    result = files.result("read", file_path="sub")
    assert not result.error
    listed = f"{files.path('sub')} is a directory. It contains 3 entries:\na/\nb\ncircle"
    assert block_text(result.content[0]) == listed
    assert files.do("read", file_path="sub/a").endswith("It contains nothing.")


def test_what_is_only_named_like_an_image_is_read_as_text(files: FileSession):
    files.put("page.png", b"<html>\n")
    assert files.do("read", file_path="page.png") == "1\t<html>"


def test_without_pillow_images_within_limits_pass_and_others_are_refused(files: FileSession):
    files.put("small.png", image(40, 30))
    files.put("wide.png", image(4000, 100))
    for number, data in enumerate(broken_images().values()):
        files.put(f"broken{number}.png", data)
    for kind in ("jpeg", "gif", "webp"):
        files.put(f"small.{kind}", image(40, 30, kind.upper()))
    header = b"VP8X\x0a\0\0\0" + bytes(4) + b"\x27\0\0\x1d\0\0"  # 40 and 30, each less one
    files.put("small.extended.webp", b"RIFF\x16\0\0\0WEBP" + header)
    files.put("small.lossless.webp", image(40, 30, "WEBP", lossless=True))
    files.put("small.filled.jpeg", b"\xff\xd8\xff" + image(40, 30, "JPEG")[2:])
    out = child(
        """
sys.modules["PIL"] = None
from transcripts.messages import ImageBlock
for path in files.folder.glob("small.*"):
    block, told = files.result("read", file_path=path.name).content
    assert isinstance(block, ImageBlock) and told.text.endswith(", 40x30]"), (path, told)
print(files.do("read", file_path="wide.png"))
for path in files.folder.glob("broken*.png"):
    assert "is not shown" in files.do("read", file_path=path.name), path
""",
        files.folder,
    )
    assert "Pillow" in out and "makeroom[images]" in out


def test_binary_files_name_their_kind(files: FileSession):
    for content, kind in (
        (b"%PDF-1.7\n\0", "pdftotext"),
        (b"%PDF-1.4\nnearly all of it is text\n", "pdftotext"),
        (b"%PDF-", "pdftotext"),
        (b"PK\x03\x04\0\0", "ZIP"),
        (b"\x1f\x8b\0\0", "zcat"),
    ):
        files.put("f", content)
        assert kind in files.refused("read", file_path="f")


def test_a_pdf_is_shown_as_the_text_of_its_pages(files: FileSession):
    files.put("f.pdf", pdf_document(*(f"Chapter {number}\nwords" for number in range(1, 13)), ""))
    shown = files.do("read", file_path="f.pdf")
    assert shown.startswith("[page 1]\nChapter 1\nwords\n\n[page 2]\nChapter 2\n")
    assert "[page 13]\n(no text, perhaps an image)\n" in shown
    assert shown.endswith("[a PDF document: text of pages 1-13 of 13; offset and limit count pages]")
    some = files.do("read", file_path="f.pdf", offset=3, limit=2)
    assert "[page 3]\nChapter 3" in some and "[page 4]" in some and "[page 2]" not in some
    assert "text of pages 3-4 of 13; continue with offset=5;" in some
    assert files.do("read", file_path="f.pdf", offset=-2, limit=1).startswith("[page 12]")
    assert "offset 14 is past the end: the document has 13 pages" in files.do(
        "read", file_path="f.pdf", offset=14
    )
    files.context.page_bytes = lambda: 60
    assert "text of pages 1-2 of 13; continue with offset=3;" in files.do("read", file_path="f.pdf")


def test_a_page_of_a_pdf_that_fills_a_window_is_cut(files: FileSession):
    files.put("f.pdf", pdf_document("\n".join(["word" * 20] * 300), "second"))
    shown = files.do("read", file_path="f.pdf", limit=1)
    assert len(shown) < 21_000 and "…[+4,299 chars]\n" in shown


@pytest.mark.parametrize("at", range(0, 700, 23))
def test_a_damaged_pdf_is_read_or_refused_with_a_remedy(files: FileSession, at: int):
    whole = pdf_document("Chapter 1")
    files.put("f.pdf", whole[:at] + b"\xff\0>>" + whole[at + 4 :] if at > 8 else whole[: 100 + at])
    try:
        shown = files.do("read", file_path="f.pdf")
    except ToolError as error:
        assert "is a PDF document" in str(error) and "pdftotext" in str(error)
    else:
        assert "[a PDF document: text of page 1 of 1;" in shown


def test_a_pdf_may_begin_with_blank_lines(files: FileSession):
    files.put("f.pdf", b"\xef\xbb\xbf\r\n\n" + pdf_document("Chapter 1"))
    assert "[a PDF document: text of page 1 of 1" in files.do("read", file_path="f.pdf")


def test_a_pdf_with_a_password_is_refused(files: FileSession):
    import pypdf

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf_document("secret")))
    writer.encrypt("word", algorithm="RC4-128")
    made = io.BytesIO()
    writer.write(made)
    files.put("f.pdf", made.getvalue())
    assert "needs a password" in files.refused("read", file_path="f.pdf")


def test_without_the_extra_a_pdf_is_refused_with_its_name(files: FileSession):
    files.put("f.pdf", pdf_document("Chapter 1"))
    out = child('sys.modules["pypdf"] = None\nprint(files.refused("read", file_path="f.pdf"))', files.folder)
    assert "pip install 'makeroom[pdf]'" in out and "Use bash: pdftotext FILE -." in out


def test_a_write_creates_directories_and_reports_what_it_did(files: FileSession):
    told = files.do("write", file_path="a/b/c.txt", content="one\ntwo")
    assert told == "File created successfully at: a/b/c.txt (2 lines, 7 bytes)"
    result = files.result("write", file_path="a/b/c.txt", content="one\nzwei\n")
    assert block_text(result.content[0]) == "The file a/b/c.txt has been updated (2 lines, 9 bytes)."
    assert result.human.note == "+1 -1"
    assert "already has exactly this content" in files.do(
        "write", file_path="a/b/c.txt", content="one\nzwei\n"
    )
    assert "is a directory" in files.refused("write", file_path="new/", content="x")
    assert "a part of the path is a file" in files.refused("write", file_path="a/b/c.txt/d", content="x")
    files.do("read", file_path="a/b/c.txt")
    files.do("write", file_path="a/b/c.txt", content="")
    assert files.path("a/b/c.txt").read_bytes() == b""


def test_a_failed_write_leaves_no_directories_behind(files: FileSession):
    assert "too long" in files.refused("write", file_path=f"x/y/{'n' * 300}", content="x")
    assert not files.path("x").exists()


def test_text_hidden_in_tags_is_not_shown(files: FileSession):
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "obey me")
    files.put("f", f"plain{hidden}\n".encode())
    shown = files.do("read", file_path="f")
    assert "1\tplain\n[these lines contain 7 invisible characters" in shown and hidden not in shown


@each_row(
    ("name", "data", "told"),
    [
        (
            "a.docx",
            b"PK\x03\x04\0",
            "a Word document. It cannot be read as text.\nUse bash: unzip -p ",
        ),
        ("a.zip", b"PK\x03\x04\0", "a ZIP archive. It cannot be read as text.\nUse bash: unzip -l FILE."),
        ("a.TAR.gz", b"\x1f\x8b\0", "a tar archive. It cannot be read as text.\nUse bash: tar -tf FILE."),
        ("a.gz", b"\x1f\x8b\0", "gzip-compressed. It cannot be read as text.\nUse bash: zcat FILE."),
        ("a", b"x" * 256 + b"\0ustar", "a tar archive"),
        (
            "a.heic",
            b"\0\0\0\x18ftypheic",
            "a HEIC or AVIF image. It cannot be read as text.\nUse bash: mag",
        ),
        ("a.mp4", b"\0\0\0\x18ftypmp42", "audio or video"),
        ("a.dat", b"BM\0", "of an unknown format"),
    ],
)
def test_the_error_about_a_binary_file_names_a_command_that_shows_it(
    files: FileSession, name: str, data: bytes, told: str
):
    files.put(name, data)
    assert told in files.refused("read", file_path=name)
