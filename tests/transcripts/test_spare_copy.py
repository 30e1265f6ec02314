"""Whatever a command does to the records of a project is undone, also after the process was killed."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.open_files import open_files
from transcripts.load import read_transcript
from transcripts.recovery import recover_transcripts
from transcripts.session_lock import RECORDS_FOLDER, lock_holder
from transcripts.spare_copy import SpareCopy, lock_folder, make_spare_copy
from transcripts.store import Store
from transcripts.stored_outputs import OutputsFolder

from .sample_turn import SID, ToldLines, append_all, turn

OLD = "20261120-080000-aaaa"
OTHER_DISK = Path("/dev/shm")
DAMAGE = {
    "rm": "rm -rf .transcripts .task_outputs",
    "git clean": "git init -q . && git clean -fdxq",
    "sed -i": "grep -rlZ files . | xargs -0 sed -i s/files/folders/g",
    "perl -i": "find . -type f -print0 | xargs -0 perl -pi -e s/files/folders/g",
    "in place": "find . -type f -name '*.*' | while read f; do tr fl FL <$f >../x; cat ../x >$f; done",
    "emptied": "find . -type f -exec truncate -s 0 {} +",
    "cut": "find . -type f -size +1 -exec truncate -s 100 {} +",
    "moved": "mv .transcripts ../moved; mv .task_outputs/tool-results ../outputs",
    "linked": "for d in .transcripts .task_outputs; do mv $d ../moved$d; ln -s ../moved$d $d; done",
    "replaced": "for f in $(find . -name '*.jsonl'); do echo files >$f.new; mv $f.new $f; done",
    "locked out": "find .transcripts .task_outputs -depth -exec chmod a-rwx {} +",
    "opened to all": "chmod -R a+rwx .transcripts .task_outputs",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The place of the copy, on the project's file system, where hard links can be made."""
    return tmp_path / "state" / "records"


@pytest.fixture
def other_place(tmp_path: Path) -> Iterator[Path]:
    """A place for the copy on another file system."""
    if not os.access(OTHER_DISK, os.W_OK) or OTHER_DISK.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system to write to")
    folder = OTHER_DISK / f"makeroom-test-{os.getpid()}-{tmp_path.name}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an earlier session, an output, and what checkpoints store."""
    folder = tmp_path / "project"
    folder.mkdir()
    append_all(earlier := Store.create(folder, OLD, pytest.fail), turn())
    earlier.close()
    outputs = OutputsFolder(folder / ".task_outputs" / "tool-results")
    outputs.write(f"{OLD}-3.txt", b"the files: " + b"a.py\n" * 999)
    objects = folder / RECORDS_FOLDER / "checkpoints" / "objects"
    for number in range(8):
        (objects / f"a{number % 3}").mkdir(parents=True, exist_ok=True)
        path = objects / f"a{number % 3}" / f"{number}f"
        path.write_bytes(b"packed files %d" % number)
        path.chmod(0o600)
    return folder


def contents(project: Path) -> dict[str, tuple[bytes, int]]:
    """Return what must not be lost: content and mode of each file, by its path."""
    files = (path for name in (".transcripts", ".task_outputs") for path in (project / name).rglob("*"))
    kept = [path for path in files if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(project)): (path.read_bytes(), path.stat().st_mode) for path in kept}


def assert_kept(project: Path, before: dict[str, tuple[bytes, int]], damage: str) -> None:
    """All is as before, except contents of checkpoints that were changed in place."""
    after, in_place = contents(project), damage in ("in place", "emptied", "cut")
    for name in before:
        if "objects" not in name or not in_place:
            assert after.get(name) == before[name], name


def run(project: Path, line: str) -> None:
    subprocess.run(["bash", "-c", line], cwd=project, check=True, timeout=30)


def copy_of(project: Path, place: Path) -> SpareCopy:
    copy = make_spare_copy(project, [place])
    assert copy is not None
    copy.adopt()
    return copy


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_a_command_does_to_the_records_is_undone(project: Path, place: Path, damage: str) -> None:
    before, copy = contents(project), copy_of(project, place)
    run(project, DAMAGE[damage])
    restored = copy.restore()
    assert_kept(project, before, damage)
    assert restored.lost == ()
    again = copy.restore()
    assert again.files == again.lost == ()
    copy.close()
    assert not place.exists()


@pytest.mark.parametrize("damage", ["git clean", "sed -i", "in place", "locked out"])
def test_from_another_file_system_the_records_are_put_back_too(
    project: Path, other_place: Path, damage: str
) -> None:
    before, copy = contents(project), copy_of(project, other_place)
    run(project, DAMAGE[damage])
    assert copy.restore().lost == ()
    assert_kept(project, before, damage)
    copy.close()


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_record_of_the_running_session_is_put_back_and_continues(
    project: Path, place: Path, damage: str
) -> None:
    store = Store.create(project, SID, told := ToldLines())
    append_all(store, turn())
    copy = copy_of(project, place)
    name = f"{RECORDS_FOLDER}/{SID}.jsonl"
    store.keep_spare(copy.files.path_of(name))
    copy.adopt([name])
    append_all(store, turn(6))
    run(project, DAMAGE[damage])
    copy.restore([name])
    assert store.put_back() == (damage not in ("locked out", "opened to all"))
    append_all(store, turn(11))
    store.close()
    loaded = read_transcript(store.path)
    assert [fact.seq for fact in loaded.facts] == list(range(1, 16))
    assert (loaded.damaged, loaded.torn_size, told) == ((), 0, [])
    copy.close()


def test_what_only_grew_is_left_and_what_a_user_removed_meanwhile_is_not_restored(
    project: Path, place: Path
) -> None:
    other = Store.create(project, SID, pytest.fail)
    append_all(other, turn())
    copy = copy_of(project, place)
    append_all(other, turn(6))
    assert copy.restore().files == ()
    (project / RECORDS_FOLDER / f"{OLD}.jsonl").unlink()
    copy.adopt()
    append_all(other, turn(11))
    run(project, DAMAGE["in place"])
    assert f"{RECORDS_FOLDER}/{SID}.jsonl" in copy.restore().files
    other.close()
    assert [fact.seq for fact in read_transcript(other.path).facts] == list(range(1, 11)), "as it was adopted"
    assert not (project / RECORDS_FOLDER / f"{OLD}.jsonl").exists()
    assert not list(copy.place.rglob(f"{OLD}.jsonl"))
    copy.close()


def test_beyond_the_limit_a_hard_link_is_kept(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transcripts.spare_copy.MAX_COPIED_BYTES", 100)
    before, copy = contents(project), copy_of(project, tmp_path / "state")
    run(project, DAMAGE["rm"])
    assert copy.restore().lost == () and before.items() <= contents(project).items()
    run(project, DAMAGE["emptied"])
    assert f"{RECORDS_FOLDER}/{OLD}.jsonl" in copy.restore().lost
    copy.close()


def test_without_a_place_outside_of_the_project_there_is_no_copy(project: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert make_spare_copy(project, [project / "home" / "state", tmp_path / "file" / "records"]) is None


def killed(copy: SpareCopy) -> None:
    """Release the lock of a copy, as the end of its process does."""
    os.close(copy.lock)


@pytest.mark.parametrize("damage", ["git clean", "sed -i", "emptied", "locked out"])
def test_after_a_kill_the_next_process_puts_the_records_back(project: Path, place: Path, damage: str) -> None:
    store = Store.create(project, SID, ToldLines())
    append_all(store, turn())
    copy = copy_of(project, place)
    name = f"{RECORDS_FOLDER}/{SID}.jsonl"
    store.keep_spare(copy.files.path_of(name))
    copy.adopt([name])
    copy.begin()
    append_all(store, turn(6))
    before = contents(project)
    run(project, DAMAGE[damage])
    store.journal.release()
    killed(copy)
    assert all("objects" in name for name in recover_transcripts(project, [place]).lost)
    assert_kept(project, before, damage)
    again, loaded = Store.resume(store.path, pytest.fail)
    assert [fact.seq for fact in loaded.facts] == list(range(1, 11))
    again.close()
    assert not place.exists()


def test_after_a_kill_between_commands_nothing_is_put_back(project: Path, tmp_path: Path) -> None:
    copy = copy_of(project, tmp_path / "state")
    copy.begin()
    copy.end()
    run(project, DAMAGE["rm"])
    killed(copy)
    assert recover_transcripts(project, [tmp_path / "state"]).files == ()
    assert contents(project) == {}


def test_a_copy_that_a_living_process_uses_is_left_alone(project: Path, tmp_path: Path) -> None:
    copy = copy_of(project, tmp_path / "state")
    copy.begin()
    run(project, DAMAGE["rm"])
    assert recover_transcripts(project, [tmp_path / "state"]).files == ()
    assert copy.restore().files != ()
    copy.close()


def test_a_copy_that_the_power_loss_damaged_is_not_put_back(project: Path, tmp_path: Path) -> None:
    copy = copy_of(project, tmp_path / "state")
    copy.begin()
    record = f"{RECORDS_FOLDER}/{OLD}.jsonl"
    (copy.place / "copies" / record).write_bytes(bytes((project / record).stat().st_size))
    (project / record).write_bytes(b"something else")
    killed(copy)
    assert recover_transcripts(project, [tmp_path / "state"]).lost == (record,)
    assert (project / record).read_bytes() == b"something else"


def test_a_copy_in_a_directory_that_others_can_write_to_is_not_trusted(project: Path, tmp_path: Path) -> None:
    copy = copy_of(project, tmp_path / "state")
    copy.begin()
    run(project, DAMAGE["rm"])
    killed(copy)
    (tmp_path / "state").chmod(0o777)
    assert recover_transcripts(project, [tmp_path / "state"]).files == ()


def test_what_a_link_leads_to_keeps_its_mode_and_its_contents(project: Path, place: Path) -> None:
    """A command moves each file and directory of ours away, and leaves a link to something else."""
    before, copy = contents(project), copy_of(project, place)
    copy.begin()
    others = project.parent / "others"
    others.mkdir(0o755)
    (others / "a.txt").touch(0o644)
    run(
        project,
        "find .transcripts .task_outputs -type f ! -name '.*ignore' -exec ln -sf $PWD/../others/a.txt {} ';';"
        "rm -r .transcripts/checkpoints/objects; ln -s $PWD/../others .transcripts/checkpoints/objects;"
        "ln -s $PWD/../others/a.txt .transcripts/x.lock",
    )
    killed(copy)
    again = recover_transcripts(project, [place])
    assert again.lost == ()
    assert_kept(project, before, "replaced")
    assert [path.name for path in others.iterdir()] == ["a.txt"]
    assert others.stat().st_mode & 0o777 == 0o755
    assert (others / "a.txt").stat().st_mode & 0o777 == 0o644


def test_an_index_that_leads_out_of_the_records_is_not_followed(project: Path, tmp_path: Path) -> None:
    copy = copy_of(project, tmp_path / "state")
    copy.begin()
    for name in (".transcripts/../../escaped", "src/a.py", "../escaped"):
        copy.files.path_of("x").write_bytes(b"")
        with (copy.place / "index").open("a") as file:
            file.write(f'["{name}", [1, 0, 1, 1], 0, 0, false]\n')
        path = copy.place / "copies" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    killed(copy)
    assert recover_transcripts(project, [tmp_path / "state"]).lost == ()
    assert not (tmp_path / "escaped").exists() and not (project / "src").exists()


def put_back_by(project: Path, change: Callable[[Store], None]) -> list[int]:
    """The numbers in a record after something was done to the file of an open store without a copy."""
    store = Store.create(project, SID, pytest.fail)
    append_all(store, turn())
    change(store)
    append_all(store, turn(6))
    store.close()
    return [fact.seq for fact in read_transcript(store.path).facts]


def test_without_a_copy_a_record_that_was_moved_or_replaced_is_created_again(project: Path) -> None:
    def moved(store: Store) -> None:
        store.path.parent.rename(project / "elsewhere")

    def replaced(store: Store) -> None:
        store.path.with_suffix(".new").write_text("x")
        store.path.with_suffix(".new").replace(store.path)

    assert put_back_by(project, moved) == list(range(1, 11))
    (project / RECORDS_FOLDER / f"{SID}.jsonl").unlink()
    assert put_back_by(project, replaced) == list(range(1, 11))


def test_a_session_continues_in_its_file_when_the_whole_project_is_moved(project: Path) -> None:
    store = Store.create(project, SID, pytest.fail)
    append_all(store, turn())
    project.rename(project.with_name("moved"))
    append_all(store, turn(6))
    store.close()
    record = project.with_name("moved") / RECORDS_FOLDER / f"{SID}.jsonl"
    assert [fact.seq for fact in read_transcript(record).facts] == list(range(1, 11))


def test_a_lock_that_is_held_is_refused_and_leaves_no_file_open(tmp_path: Path) -> None:
    held = lock_folder(tmp_path)
    before = open_files()
    with pytest.raises(BlockingIOError):
        lock_folder(tmp_path)
    assert open_files() == before
    os.close(held)


def test_a_lock_that_a_command_removed_is_taken_again_after_it(project: Path) -> None:
    store = Store.create(project, SID, pytest.fail)
    append_all(store, turn())
    run(project, "find . -name '*.lock' -delete")
    store.put_back()
    assert lock_holder(store.path) == os.getpid()
    append_all(store, turn(6))
    store.close()
    assert [fact.seq for fact in read_transcript(store.path).facts] == list(range(1, 11))


def test_a_record_that_another_process_locked_meanwhile_is_left_to_it(project: Path) -> None:
    store = Store.create(project, SID, told := ToldLines())
    append_all(store, turn())
    store.path.with_suffix(".lock").unlink()
    other, _ = Store.resume(store.path, pytest.fail)
    store.put_back()
    append_all(store, turn(6))
    append_all(other, turn(6))
    other.close()
    assert [fact.seq for fact in read_transcript(store.path).facts] == list(range(1, 11))
    assert "in use by" in told[0]


def test_records_that_were_removed_before_the_first_prompt_are_created_again(project: Path) -> None:
    store = Store.create(project, SID, pytest.fail)
    shutil.rmtree(project / RECORDS_FOLDER)
    append_all(store, turn())
    store.close()
    assert [fact.seq for fact in read_transcript(store.path).facts] == list(range(1, 6))
