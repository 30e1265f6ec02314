"""Recall, speed and index size of searches. Only shares are asserted.

`MAKEROOM_RECORDINGS=FOLDER python -m pytest -m bench -n 0 -s tests/bench/test_search_bench.py` also asks
recorded sessions about themselves (search_cases.py) and for the names that they use again, in two halves, and
all of them what a developer may look for later (recorded_questions.py). MAKEROOM_LOCOMO names the folder of
the conversations of LoCoMo, a JSON file for each (github.com/snap-research/locomo). MAKEROOM_SEARCH_MB sets
the size of the large record (default: 60).
"""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from agent.replay.references import references
from tests.bench.recorded_questions import RECORDED_QUESTIONS
from tests.bench.search_cases import cases_of
from transcripts.codec import encode_fact
from transcripts.facts import Fact, Reply, Result, User
from transcripts.file_states import SEARCH_FOLDER
from transcripts.importers import MAX_RECORDING_BYTES, import_session
from transcripts.listing import ProjectRecords
from transcripts.messages import TextBlock, ToolUseBlock
from transcripts.search import update_index
from transcripts.search.ranking import search_records
from transcripts.session_lock import path_of
from transcripts.storage.disk import read_regular

pytestmark = pytest.mark.bench
MIN_FOUND_SHARE = 0.8  # of the questions about recorded sessions, their source among the first five
MIN_NAMED_SHARE = 0.95  # of the names that are used again, among the first three hits
MIN_CALLS_BETWEEN = 20  # since a result showed a name: newer ones may still be in view
MAX_INDEX_SHARE = 0.15  # of the size of the records
SUBJECTS = ("adoption", "pottery", "marathon", "violin", "garden", "camping", "surgery", "visa", "podcast")
DETAILS = ("lake", "grandmother", "ticket", "teacher", "neighbour", "kitchen", "festival", "letter")
OPENINGS = ("How did it go with the {0}?", "Any news about your {0}?", "You wanted to tell me of the {0}.")
ANSWERS = ("It went well, the {1} made all the difference.", "Better than I thought! There was a {1}, too.")
CHAT = (
    "That sounds lovely.",
    "I am so happy for you!",
    "Take care.",
    "Let me know how it goes.",
    "Same here.",
)
QUESTIONS = ("What did {who} say about the {0} and the {1}?", "When was the {1} part of {who}'s {0}?")


def write(home: Path, sid: str, facts: list[Fact]) -> int:
    path = path_of(home, sid)
    path.parent.mkdir(exist_ok=True)
    lines = [encode_fact(fact, sid) for fact in facts]
    with path.open("ab") as file:
        file.writelines(lines)
    return sum(map(len, lines))


def chat(home: Path, rng: random.Random) -> list[tuple[str, str, int]]:
    """Sessions of two friends; (question, session, seq of the turn that answers it) for each subject."""
    asked = []
    pairs = [(subject, detail) for subject in SUBJECTS for detail in rng.sample(DETAILS, 3)]
    rng.shuffle(pairs)
    for number in range(12):
        facts: list[Fact] = []
        for subject, detail in pairs[number::12]:
            for text in (rng.choice(OPENINGS), rng.choice(ANSWERS), *rng.sample(CHAT, 3)):
                who = ("Ann", "Ben")[len(facts) % 2]
                said = (TextBlock(f"{who}: {text.format(subject, detail)}"),)
                seq, at = len(facts) + 1, 1.7e9 + number * 86_400
                facts.append(User(seq, at, said) if who == "Ann" else Reply(seq, at, said))
            asked.append(
                (rng.choice(QUESTIONS).format(subject, detail, who="Ben"), f"s{number:02}", len(facts) - 3)
            )
        write(home, f"s{number:02}", facts)
    return asked


def plain_fts5(home: Path) -> sqlite3.Connection:
    """The same turns in a plain FTS5 table with the porter tokenizer, to compare with."""
    from transcripts.load import read_transcript
    from transcripts.render_text import fact_text

    table = sqlite3.connect(":memory:")
    table.execute("CREATE VIRTUAL TABLE t USING fts5(text, sid UNINDEXED, seq UNINDEXED, tokenize='porter')")
    for sid in ProjectRecords(home).sids():
        facts = read_transcript(path_of(home, sid)).facts
        table.executemany("INSERT INTO t VALUES (?, ?, ?)", [(fact_text(f), sid, f.seq) for f in facts])
    return table


def test_chat_is_found_by_questions_better_than_by_plain_fts5(tmp_path: Path) -> None:
    asked = chat(tmp_path, random.Random(7))
    table, counts = plain_fts5(tmp_path), Counter[str]()
    for question, sid, seq in asked:
        words = " OR ".join(f'"{word.strip("?.,")}"' for word in question.replace("'s", "").split())
        rows = table.execute(
            "SELECT sid, seq FROM t WHERE t MATCH ? ORDER BY rank LIMIT 20", (words,)
        ).fetchall()
        found = search_records(tmp_path, question, ProjectRecords(tmp_path).sids(), 20, 60).found
        for name, hits in (("plain", rows), ("ours", [(one.sid, one.fact.seq) for one in found])):
            sessions = list(dict(hits))
            counts[f"{name}, the session first"] += sessions[:1] == [sid]
            counts[f"{name}, the session among five"] += sid in sessions[:5]
            counts[f"{name}, the turn among five"] += (sid, seq) in hits[:5]
    shares = {name: count / len(asked) for name, count in counts.items()}
    print(
        "\nmade-up chat:",
        *(f"  {name}: {100 * share:.0f} %" for name, share in sorted(shares.items())),
        sep="\n",
    )
    for what in ("the session first", "the turn among five"):
        assert shares[f"ours, {what}"] >= shares[f"plain, {what}"]


def write_conversation(home: Path, talk: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """Write each session of a conversation of LoCoMo; return session and seq of the turns by their ids."""
    places = {}
    for name in filter(re.compile(r"session_\d+").fullmatch, talk):
        sid = f"s{int(name.removeprefix('session_')):02}"
        at = time.mktime(time.strptime(talk[f"{name}_date_time"], "%I:%M %p on %d %B, %Y"))
        facts: list[Fact] = []
        for seq, turn in enumerate(talk[name], 1):
            photo = f" [photo: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            said = (TextBlock(f"{turn['speaker']}: {turn.get('text', '')}{photo}"),)
            is_first = turn["speaker"] == talk["speaker_a"]
            facts.append(User(seq, at + seq, said) if is_first else Reply(seq, at + seq, said))
            places[turn["dia_id"]] = (sid, seq)
        write(home, sid, facts)
    return places


def test_questions_about_the_dialogues_of_locomo(tmp_path: Path) -> None:
    folder = os.environ.get("MAKEROOM_LOCOMO")
    if not folder:
        pytest.skip("MAKEROOM_LOCOMO names no folder")
    counts = Counter[str]()
    for path in sorted(Path(folder).glob("*.json")):
        talk = json.loads(path.read_text())
        (home := tmp_path / path.stem).mkdir()
        places = write_conversation(home, talk)
        update_index(home, lambda: False)
        for asked in talk["qa"]:
            sources = {
                places[id]
                for id in re.findall(r"D\d+:\d+", " ".join(asked.get("evidence", ())))
                if id in places
            }
            if not sources:
                continue
            found = search_records(home, asked["question"], ProjectRecords(home).sids(), 20, 60).found
            hits = [(one.sid, one.fact.seq) for one in found]
            sessions = list(dict(hits))
            sources_in = {sid for sid, _ in sources}
            counts["questions"] += 1
            counts["the session first"] += not sources_in.isdisjoint(sessions[:1])
            counts["a session among five"] += not sources_in.isdisjoint(sessions[:5])
            counts["a turn among five"] += not sources.isdisjoint(hits[:5])
    questions = counts.pop("questions")
    print(
        f"\n{questions} questions:",
        *(f"{what} {100 * count / questions:.1f} %" for what, count in counts.items()),
        sep="\n  ",
    )
    assert counts["a session among five"] >= 0.9 * questions


def recordings() -> list[list[Fact]]:
    folder = os.environ.get("MAKEROOM_RECORDINGS")
    if not folder:
        pytest.skip("MAKEROOM_RECORDINGS names no folder")
    read = [read_regular(path, MAX_RECORDING_BYTES) for path in sorted(Path(folder).glob("*.jsonl"))]
    return [import_session(data, lambda blocks: (1,) * len(blocks)).facts for data in read]


def test_recorded_sessions_answer_questions_about_themselves(tmp_path: Path) -> None:
    found, asked, spent = Counter[str](), Counter[str](), 0.0
    for number, facts in enumerate(recordings()):
        half, sid, at = "ab"[number % 2], f"s{number}", 0
        for case in cases_of(facts):
            known = sum(fact.seq < case.before for fact in facts)
            write(tmp_path, sid, facts[at:known])
            at = max(at, known)
            search_records(tmp_path, "to bring the index up to date", [sid], 1, 600)
            began = time.process_time()
            hits = search_records(tmp_path, case.question, [sid], 5, 600).found
            spent += time.process_time() - began
            asked[f"half {half}, {case.kind}"] += 1
            found[f"half {half}, {case.kind}"] += any(hit.fact.seq in case.sources for hit in hits)
    for name, count in sorted(asked.items()):
        print(f"\n{name}: {found[name]} of {count}, {100 * found[name] / count:.0f} %", end="")
    print(f"\n{1000 * spent / asked.total():.1f} ms of CPU a query")
    assert found.total() >= MIN_FOUND_SHARE * asked.total()


def test_identifiers_that_are_used_again_are_found_by_name(tmp_path: Path) -> None:
    found, asked, spent = Counter[str](), Counter[str](), 0.0
    for number, facts in enumerate(recordings()):
        half, sid, at = "ab"[number % 2], f"s{number}", 0
        replies = [fact.seq for fact in facts if isinstance(fact, Reply)]
        for user, references_there in references(facts).items():
            known = sum(fact.seq < user for fact in facts)
            write(tmp_path, sid, facts[at:known])
            at = known
            for one in references_there:
                if sum(one.sources[-1] < seq < user for seq in replies) < MIN_CALLS_BETWEEN:
                    continue
                began = time.process_time()
                hits = search_records(tmp_path, one.name, [sid], 3, 600).found
                spent += time.process_time() - began
                asked[half] += 1
                whole = re.compile(rf"(?<!\w){re.escape(one.name)}(?!\w)")
                found[half] += any(whole.search(hit.text) for hit in hits)
    for half, count in sorted(asked.items()):
        print(f"\nhalf {half}: {found[half]} of {count} names among the first three", end="")
    print(f"\n{1000 * spent / asked.total():.1f} ms of CPU a query")
    assert found.total() >= MIN_NAMED_SHARE * asked.total()


def test_questions_of_a_developer_are_answered_better_than_by_plain_fts5(tmp_path: Path) -> None:
    folder = os.environ.get("MAKEROOM_RECORDINGS")
    for path, facts in zip(sorted(Path(folder).glob("*.jsonl")) if folder else (), recordings(), strict=True):
        write(tmp_path, path.stem, facts)
    update_index(tmp_path, lambda: False)
    sids, table = ProjectRecords(tmp_path).sids(), plain_fts5(tmp_path)
    merits: dict[str, list[float]] = {}
    for number, asked in enumerate(RECORDED_QUESTIONS):
        answers = {
            seq
            for seq, text in table.execute("SELECT seq, text FROM t WHERE sid = ?", (asked.session,))
            if asked.answer in text
        }
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", asked.question))
        plain = table.execute(
            "SELECT sid, seq FROM t WHERE t MATCH ? ORDER BY rank LIMIT 20", (words,)
        ).fetchall()
        ours = search_records(tmp_path, asked.question, sids, 20, 60).found
        for name, hits in (("plain", plain), ("ours", [(one.sid, one.fact.seq) for one in ours])):
            ranks = (at for at, (sid, seq) in enumerate(hits, 1) if sid == asked.session and seq in answers)
            merits.setdefault(f"{name}, half {'ab'[number % 2]}", []).append(1 / next(ranks, 1_000))
    for name, each in sorted(merits.items()):
        among = sum(merit >= 0.2 for merit in each) / len(each)
        print(
            f"\n{name}: mean reciprocal rank {sum(each) / len(each):.3f}, among five {100 * among:.0f} %",
            end="",
        )
    for half in "ab":
        assert sum(merits[f"ours, half {half}"]) >= sum(merits[f"plain, half {half}"])


def work(files: Iterator[tuple[Path, str]], size: int) -> Iterator[Fact]:
    """Facts of about so many bytes: calls that read files, and what they show."""
    seq, left = 1, size
    while left > 0:
        path, text = next(files)
        call = ToolUseBlock(f"t{seq}", "read", {"file_path": str(path)})
        yield Reply(seq, 1.7e9 + seq, (TextBlock(f"Let me see what {path.stem} does."), call))
        yield Result(seq + 1, 1.7e9 + seq, seq, 1, (TextBlock(text),), (len(text) // 4,))
        seq, left = seq + 2, left - len(text) - 500


def pages() -> Iterator[tuple[Path, str]]:
    """Pages of up to 300 lines of this installation's Python files, numbered as `read` does, for ever."""
    files = sorted(Path(json.__file__).parents[1].rglob("*.py"))
    random.Random(5).shuffle(files)
    for path in cycle(files):
        with suppress(OSError, UnicodeDecodeError):
            lines = path.read_text("utf-8").splitlines()
            for at in range(0, len(lines), 300):
                page = (f"{number:>6}\t{line}" for number, line in enumerate(lines[at : at + 300], at + 1))
                yield path, "\n".join(page)


@pytest.mark.timeout(900)
def test_a_large_record_is_searched_within_ten_milliseconds(tmp_path: Path) -> None:
    rng, size = random.Random(3), int(os.environ.get("MAKEROOM_SEARCH_MB", "60")) * 1_000_000
    files = pages()
    written = sum(write(tmp_path, f"s{n:02}", list(work(files, size // 20))) for n in range(20))
    began = time.process_time()
    update_index(tmp_path, lambda: False)
    spent = time.process_time() - began
    index = sum(path.stat().st_size for path in (tmp_path / SEARCH_FOLDER).iterdir())
    print(f"\n{written / 1e6:.0f} MB of records, indexed at {written / 1e6 / spent:.1f} MB/s of CPU")
    print(f"the index has {100 * index / written:.1f} % of their size")
    assert index <= MAX_INDEX_SHARE * written
    sids, words = ProjectRecords(tmp_path).sids(), Counter(re.findall(r"[a-z_]{4,}", next(files)[1]))
    for _ in range(200):
        words.update(re.findall(r"[a-z_]{4,}", next(files)[1]))
    common = [word for word, _ in words.most_common(60)]
    for name, known in (("any", sorted(words)), ("common", common)):
        times = []
        for _ in range(30):
            query = " ".join(rng.sample(known, 5))
            began = time.process_time()
            search_records(tmp_path, query, sids, 10, 600)
            times.append(1000 * (time.process_time() - began))
        print(f"5 words, {name}: median {sorted(times)[15]:.1f} ms of CPU, slowest {max(times):.1f} ms")
