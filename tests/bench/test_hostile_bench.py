"""Cost of a hostile server's answers for the whole program: seconds, processor time and peak memory.

Prints a line for each. The same program with an answer of one word is the first of them.
"""

import json
from pathlib import Path

import pytest

from tests.agent.measured_run import measured
from tests.agent.model.hostile_answers import (
    MEGABYTE,
    begin,
    call,
    calling,
    delta,
    forever,
    headed,
    packed,
    page,
    start,
    stop,
    text,
    whole,
)
from tests.agent.model.raw_server import HEAD, Answer, raw
from tests.agent.test_hostile_runs import MAX_PEAK_MB, environ_for, prompted
from tests.agent.ui.headless_run import environment

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]
BEGUN = HEAD + start() + begin(0)


def letters(letter: str) -> Answer:
    return forever(BEGUN, delta(0, "text_delta", text=letter))


def long(words: str) -> bytes:
    """A reply of four megabytes."""
    pieces = [delta(0, "text_delta", text=words * (1_000 // len(words)))] * 4_100
    return whole(begin(0), *pieces, stop(0))


def calls(name: str, **given: str) -> bytes:
    return calling(call("t", name, json.dumps(given)))


def heavy_answers() -> dict[str, Answer]:
    """By what they are; made here, as packing a gigabyte takes seconds."""
    return {
        "one word": whole(text()),
        "letters for ever": letters("a"),
        "nothing for ever": letters(""),
        "unknown blocks for ever": forever(HEAD + start(), lambda at: begin(at, type="odd") + stop(at)),
        "64 MB of packed letters": headed("content-encoding: gzip")
        + packed(start() + begin(0) + delta(0, "text_delta", text="a") * 600_000),
        "one packed line of 1 GB": headed("content-encoding: gzip") + packed(b"x" * MEGABYTE, 1_024),
        "4 MB of <": long("<"),
        "4 MB of words": long("word "),
        "4 MB of one word": long("a"),
        "4 MB of wide letters": long("日"),
        "a command of 4 MB": calls("bash", command="echo " + "a" * 4_100_000),
        "a file of 4 MB": calls("write", file_path="f", content="a\n" * 2_000_000),
        "a call nested 2,000,000 deep": calling(call("t", "bash", "[" * 2_000_000)),
        "1,999 calls of read": calling(*(call("t", "read", '{"file_path":"x"}', at) for at in range(1_999))),
        "3 MB of < as an error": page("400 Bad", b"<" * 3 * MEGABYTE),
        "an error for ever": forever(headed(status="400 Bad"), b"<"),
        "header lines for ever": forever(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"),
    }


def test_the_peak_of_memory_is_bounded(tmp_path: Path) -> None:
    peaks = {}
    for name, answer in heavy_answers().items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        with raw(prompted(answer, whole(text()))) as url:
            environ = environment(folder, None, **environ_for(url))
            found = measured(folder, environ, ["-p", "go", "--allowedTools", "bash", "write"])
        peaks[name] = found.peak
        print(
            f"{name:30} exit {found.code:3} {found.seconds:6.2f} s, processor {found.processor:5.2f} s, "
            f"peak {found.peak:4.0f} MB, printed {len(found.out) + len(found.err):,} bytes"
        )
    assert max(peaks.values()) < MAX_PEAK_MB
    assert min(peaks.values()) > 10  # they were measured
