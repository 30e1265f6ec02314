"""A power loss at any moment: what was acknowledged is there, the session loads, and it can be resumed."""

import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.tables import each_row
from transcripts.facts import Fact, User
from transcripts.folding import fold
from transcripts.load import read_transcript
from transcripts.messages import TextBlock
from transcripts.session_lock import RECORDS_FOLDER, path_of
from transcripts.store import Store

from .api_rules import as_sent, violations
from .sample_turn import SID, turn
from .simulated_disk import DiskRecorder, DiskState, SimulatedDisk, write_out

TORN = b'{"v":1,"seq":11,"ts":"2026'


@dataclass
class Scenario:
    """A session on a simulated disk.

    `states` are what a power loss could leave before each call: (facts acknowledged, facts appended, files).
    """

    project: Path
    seeds: int
    simulated: SimulatedDisk = field(init=False)
    recorder: DiskRecorder = field(init=False)
    appended: list[Fact] = field(default_factory=list)
    acknowledged: int = 0  # how many of `appended` are durable
    torn: bytes = b""  # what a crash left behind the last record, already synced
    states: list[tuple[int, int, DiskState]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.simulated = SimulatedDisk(self.project)
        self.recorder = DiskRecorder(self.simulated, self._note_states)

    def _note_states(self, name: str) -> None:
        for left in self.simulated.after_power_loss(self.seeds):
            assert any(self.torn in content for content in left.values() if content) or not self.torn
            self.states.append((self.acknowledged, len(self.appended), left))

    def turn(self, store: Store) -> None:
        for fact, durable in turn(len(self.appended) + 1):
            self.appended.append(fact)
            store.append(fact, durable)
            if durable and not store.pending and not store.journal.sync_failed:
                self.acknowledged = len(self.appended)
        self._note_states("between")

    def create(self) -> Store:
        return Store.create(self.project, SID, lambda line: None, self.recorder.disk())

    def resume(self) -> Store:
        return Store.resume(path_of(self.project, SID), pytest.fail, self.recorder.disk())[0]

    def fail(self, name: str, error: int) -> None:
        """Fail the next call of that name."""
        due = [error]
        self.recorder.fails = lambda called: due.pop() if called == name and due else 0


def two_turns(scenario: Scenario) -> None:
    store = scenario.create()
    scenario.turn(store)
    scenario.turn(store)
    store.close()


def resumed(scenario: Scenario) -> None:
    two_turns(scenario)
    store = scenario.resume()
    scenario.turn(store)
    store.close()


def resumed_behind_a_torn_record(scenario: Scenario) -> None:
    two_turns(scenario)
    path = path_of(scenario.project, SID)
    with path.open("ab") as file:
        file.write(TORN)
    node = scenario.simulated.live[str(path)]
    scenario.simulated.write(node, TORN)
    scenario.simulated.sync(str(path), node)
    scenario.torn = TORN
    store = scenario.resume()
    scenario.turn(store)
    store.close()


def a_sync_that_failed(scenario: Scenario) -> None:
    store = scenario.create()
    scenario.turn(store)
    scenario.fail("sync", errno.EIO)
    scenario.turn(store)
    scenario.turn(store)
    store.close()


def a_write_that_failed(scenario: Scenario) -> None:
    store = scenario.create()
    scenario.turn(store)
    scenario.fail("write", errno.ENOSPC)
    scenario.turn(store)
    store.close()


def a_file_removed_while_open(scenario: Scenario) -> None:
    store = scenario.create()
    scenario.turn(store)
    store.path.unlink()
    scenario.simulated.remove(str(store.path))
    scenario.acknowledged = 0  # what was removed need not be kept
    scenario.turn(store)
    store.close()


def a_folder_removed_while_open(scenario: Scenario) -> None:
    store = scenario.create()
    scenario.turn(store)
    shutil.rmtree(scenario.project / RECORDS_FOLDER)
    for path in list(scenario.simulated.live):
        scenario.simulated.remove(path)
    scenario.acknowledged = 0
    scenario.turn(store)
    store.close()


SCENARIOS: tuple[Callable[[Scenario], None], ...] = (
    two_turns,
    resumed,
    resumed_behind_a_torn_record,
    a_sync_that_failed,
    a_write_that_failed,
    a_file_removed_while_open,
    a_folder_removed_while_open,
)


def check(project: Path, acknowledged: list[Fact], appended: list[Fact]) -> None:
    """All that was acknowledged is there, nothing but what was appended, and the session can be resumed."""
    path = path_of(project, SID)
    if not path.exists():
        assert acknowledged == []
        return
    store, loaded = Store.resume(path, pytest.fail)
    assert [fact for fact in acknowledged if fact not in loaded.facts] == []
    assert [fact for fact in loaded.facts if fact not in appended] == []
    prompt = User(len(appended) + 1, 0.0, (TextBlock("go on"),))
    assert violations([as_sent(message) for message in fold([*loaded.facts, prompt]).view]) == []
    torn, aside = path.read_bytes()[loaded.whole_size :], path.with_suffix(".torn")
    before = aside.read_bytes() if aside.exists() else b""
    store.append(prompt, True)
    store.close()
    assert (aside.read_bytes() if aside.exists() else b"") == before + torn
    again = read_transcript(path)
    assert again.facts == [*loaded.facts, prompt]
    assert (again.torn_size, again.damaged) == (0, loaded.damaged)


def check_after_every_call(scenario_of: Callable[[Scenario], None], folder: Path, seeds: int) -> int:
    """Check every state that a power loss could leave. Returns how many there were."""
    (folder / "project").mkdir()
    scenario = Scenario(folder / "project", seeds)
    scenario_of(scenario)
    seen: list[tuple[int, DiskState]] = []
    for acknowledged, appended, left in scenario.states:
        if (acknowledged, left) in seen:
            continue
        seen.append((acknowledged, left))
        write_out(left, scenario.project, folder / "after")
        check(folder / "after", scenario.appended[:acknowledged], scenario.appended[:appended])
        shutil.rmtree(folder / "after")
    assert scenario.acknowledged == len(scenario.appended)
    return len(seen)


@each_row("scenario_of", SCENARIOS)
def test_a_power_loss_loses_nothing_that_was_acknowledged(
    tmp_path: Path, scenario_of: Callable[[Scenario], None]
) -> None:
    assert check_after_every_call(scenario_of, tmp_path, seeds=1) > 20


@pytest.mark.sweep
@pytest.mark.parametrize("scenario_of", SCENARIOS)
def test_many_random_power_losses_lose_nothing_that_was_acknowledged(
    tmp_path: Path, scenario_of: Callable[[Scenario], None]
) -> None:
    assert check_after_every_call(scenario_of, tmp_path, seeds=100) > 500
