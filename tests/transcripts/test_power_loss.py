"""The power goes at any moment: what was acknowledged is there, the session loads, and it is gone on with."""

import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from transcripts.facts import Fact, User
from transcripts.fold import fold
from transcripts.load import read_record
from transcripts.messages import TextBlock
from transcripts.session_lock import RECORDS_FOLDER, path_of
from transcripts.store import Store, create_store, resume_store

from .api_rules import complaints
from .simulated_disk import Left, Platter, Recorder, lay_out
from .test_store import SID, turn

TORN = b'{"v":1,"seq":11,"ts":"2026'


@dataclass
class Film:
    """A session on a disk whose calls are written down; `moments` are what a loss could leave, and when."""

    project: Path
    seeds: int
    platter: Platter = field(init=False)
    recorder: Recorder = field(init=False)
    said: list[Fact] = field(default_factory=list)
    sure: int = 0  # as many of `said` were acknowledged
    torn: bytes = b""  # what a crash left behind the last record, on the disk for sure
    moments: list[tuple[int, int, Left]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.platter = Platter(self.project)
        self.recorder = Recorder(self.platter, self._keep)

    def _keep(self, name: str) -> None:
        for left in self.platter.losses(self.seeds):
            assert any(self.torn in content for content in left.values() if content) or not self.torn
            self.moments.append((self.sure, len(self.said), left))

    def turn(self, store: Store) -> None:
        for fact, durable in turn(len(self.said) + 1):
            self.said.append(fact)
            store.append(fact, durable)
            if durable and not store.pending and not store.journal.sync_failed:
                self.sure = len(self.said)
        self._keep("between")

    def create(self) -> Store:
        return create_store(self.project, SID, lambda line: None, self.recorder.disk())

    def resume(self) -> Store:
        return resume_store(path_of(self.project, SID), pytest.fail, self.recorder.disk())[0]

    def fail(self, name: str, error: int) -> None:
        """Fail the next call of that name."""
        due = [error]
        self.recorder.fails = lambda called: due.pop() if called == name and due else 0


def two_turns(film: Film) -> None:
    store = film.create()
    film.turn(store)
    film.turn(store)
    store.close()


def gone_on_with(film: Film) -> None:
    two_turns(film)
    store = film.resume()
    film.turn(store)
    store.close()


def gone_on_with_behind_a_torn_record(film: Film) -> None:
    two_turns(film)
    path = path_of(film.project, SID)
    with path.open("ab") as file:
        file.write(TORN)
    node = film.platter.live[str(path)]
    film.platter.write(node, TORN)
    film.platter.synced(str(path), node)
    film.torn = TORN
    store = film.resume()
    film.turn(store)
    store.close()


def a_sync_that_failed(film: Film) -> None:
    store = film.create()
    film.turn(store)
    film.fail("sync", errno.EIO)
    film.turn(store)
    film.turn(store)
    store.close()


def a_write_that_failed(film: Film) -> None:
    store = film.create()
    film.turn(store)
    film.fail("write", errno.ENOSPC)
    film.turn(store)
    store.close()


def a_file_removed_while_open(film: Film) -> None:
    store = film.create()
    film.turn(store)
    store.path.unlink()
    film.platter.removed(str(store.path))
    film.sure = 0  # whoever removed it wanted it gone
    film.turn(store)
    store.close()


def a_folder_removed_while_open(film: Film) -> None:
    store = film.create()
    film.turn(store)
    shutil.rmtree(film.project / RECORDS_FOLDER)
    for path in list(film.platter.live):
        film.platter.removed(path)
    film.sure = 0
    film.turn(store)
    store.close()


SCENES: tuple[Callable[[Film], None], ...] = (
    two_turns,
    gone_on_with,
    gone_on_with_behind_a_torn_record,
    a_sync_that_failed,
    a_write_that_failed,
    a_file_removed_while_open,
    a_folder_removed_while_open,
)


def check(project: Path, sure: list[Fact], said: list[Fact]) -> None:
    """What was acknowledged is there; nothing is there that nobody said; and it can be gone on with."""
    path = path_of(project, SID)
    if not path.exists():
        assert sure == []
        return
    store, loaded = resume_store(path, pytest.fail)
    assert [fact for fact in sure if fact not in loaded.facts] == []
    assert [fact for fact in loaded.facts if fact not in said] == []
    word = User(len(said) + 1, 0.0, (TextBlock("go on"),))
    assert complaints([json.loads(message.json) for message in fold([*loaded.facts, word]).view]) == []
    torn, aside = path.read_bytes()[loaded.whole_size :], path.with_suffix(".torn")
    before = aside.read_bytes() if aside.exists() else b""
    store.append(word, True)
    store.close()
    assert (aside.read_bytes() if aside.exists() else b"") == before + torn
    again = read_record(path)
    assert again.facts == [*loaded.facts, word]
    assert (again.torn_size, again.damaged) == (0, loaded.damaged)


def film_and_check(scene: Callable[[Film], None], folder: Path, seeds: int) -> int:
    """Returns how many disks were looked at."""
    (folder / "project").mkdir()
    film = Film(folder / "project", seeds)
    scene(film)
    seen: list[tuple[int, Left]] = []
    for sure, said, left in film.moments:
        if (sure, left) in seen:
            continue
        seen.append((sure, left))
        lay_out(left, film.project, folder / "after")
        check(folder / "after", film.said[:sure], film.said[:said])
        shutil.rmtree(folder / "after")
    assert film.sure == len(film.said)
    return len(seen)


@pytest.mark.parametrize("scene", SCENES)
def test_nothing_that_was_acknowledged_is_lost_with_the_power(
    tmp_path: Path, scene: Callable[[Film], None]
) -> None:
    assert film_and_check(scene, tmp_path, seeds=2) > 40


@pytest.mark.sweep
@pytest.mark.parametrize("scene", SCENES)
def test_the_power_goes_in_many_ways(tmp_path: Path, scene: Callable[[Film], None]) -> None:
    assert film_and_check(scene, tmp_path, seeds=100) > 500
