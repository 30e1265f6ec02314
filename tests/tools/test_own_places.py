"""Our settings and transcripts stay out of reach of sandboxed commands where they do not exist yet."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.sandbox.own_places import secure_own_places
from tools.sandbox.supervisor.landlock import LEAST_ABI, landlock_abi

from .sandbox_session import SandboxedSession, sandboxed_session
from .test_sandbox_fallbacks import BWRAP, session

SETTINGS = ".config/makeroom"
STATE = ".local/state/makeroom"
PLANT = "mkdir -p {0}; echo planted >{0}/settings.toml; echo 'permission_mode = 1' >{0}/x"
# Ways to write settings that the next start would read.
ATTEMPTS = {
    "create": PLANT.format(SETTINGS),
    "state": PLANT.format(STATE),
    "move the directory above": f"mv .config .old; {PLANT.format(SETTINGS)}",
    "move the directory above that": f"mv .local .old; {PLANT.format(STATE)}",
    "remove": f"rm -rf .config; {PLANT.format(SETTINGS)}",
    "link": "rm -rf .config; mkdir -p evil/makeroom; echo planted >evil/makeroom/x; ln -s evil .config",
    "exchange": "mkdir -p evil/makeroom; echo planted >evil/makeroom/x; mv --exchange evil .config",
}


@pytest.fixture
def at_home(tmp_path: Path) -> Iterator[SandboxedSession]:
    """A session whose project is the home directory. It has not begun yet."""
    shell = sandboxed_session(tmp_path)
    assert isinstance(shell.context.environ, dict)
    shell.context.environ["HOME"] = str(shell.folder)
    yield shell
    shell.end()


def planted(home: Path) -> list[Path]:
    """Return the files in our directories."""
    return [path for name in (SETTINGS, STATE) for path in (home / name).rglob("*") if path.is_file()]


@pytest.mark.parametrize("line", ATTEMPTS.values(), ids=ATTEMPTS)
def test_settings_cannot_be_planted_in_a_home_without_any(at_home: SandboxedSession, line: str) -> None:
    at_home.require_sandbox("namespaces")
    at_home.prints(f"{line}; echo >made")
    assert (at_home.folder / "made").exists()
    assert planted(at_home.folder) == []


def test_what_our_directories_link_to_is_protected_as_well(tmp_path: Path) -> None:
    """Settings are often kept in a repository, which may be the project."""
    shell = sandboxed_session(tmp_path)
    assert isinstance(shell.context.environ, dict)
    home = tmp_path.resolve() / "ours"
    shell.context.environ["HOME"] = str(home)
    (home / STATE).mkdir(parents=True)
    (home / SETTINGS).mkdir(parents=True)
    kept = shell.folder / "dots" / "settings.toml"
    tokens = home / "elsewhere"
    for path in (kept, tokens / "t.json"):
        path.parent.mkdir()
        path.write_text("mine\n")
    (home / SETTINGS / "settings.toml").symlink_to(kept)
    (home / STATE / "mcp-tokens").symlink_to(tokens)
    shell.require_sandbox("namespaces")
    planted = "echo planted >dots/settings.toml"
    line = (
        f"cat dots/settings.toml; {planted}; rm -f dots/settings.toml; mv dots old; mkdir -p dots; {planted}"
    )
    said = shell.prints(f"{line}; cat {tokens}/t.json; echo >made")
    shell.end()
    assert (home / SETTINGS / "settings.toml").read_text() == "mine\n"
    assert said.count("mine") == 1 and (shell.folder / "made").exists()


def test_landlock_puts_back_settings_that_link_to_the_project(tmp_path: Path) -> None:
    shell = sandboxed_session(tmp_path)
    assert isinstance(shell.context.environ, dict)
    home = tmp_path.resolve() / "ours"
    shell.context.environ |= {"HOME": str(home), "MAKEROOM_NAMESPACE": "off"}
    kept = shell.folder / "settings.toml"
    kept.write_text("mine\n")
    (home / SETTINGS).mkdir(parents=True)
    (home / SETTINGS / "settings.toml").symlink_to(kept)
    shell.require_sandbox("landlock")
    shell.prints("echo planted >settings.toml; echo >made")
    shell.end()
    assert (home / SETTINGS / "settings.toml").read_text() == "mine\n" and (shell.folder / "made").exists()


def test_a_link_on_the_way_to_our_settings_cannot_be_replaced(at_home: SandboxedSession) -> None:
    (at_home.folder / "dots").mkdir()
    (at_home.folder / ".config").symlink_to("dots")
    at_home.require_sandbox("namespaces")
    line = f"rm .config; {PLANT.format(SETTINGS)}; mv dots other; {PLANT.format('dots/makeroom')}; echo >made"
    at_home.prints(line)
    assert (at_home.folder / "made").exists()
    assert (at_home.folder / ".config").is_symlink()
    assert planted(at_home.folder) == []


def test_a_link_that_leads_nowhere_is_not_replaced_either(at_home: SandboxedSession) -> None:
    (at_home.folder / ".config").symlink_to("/proc/nowhere")
    at_home.require_sandbox("namespaces")
    at_home.prints(f"rm .config; {PLANT.format(SETTINGS)}; echo >made")
    assert (at_home.folder / "made").exists()
    assert planted(at_home.folder) == []


def test_settings_cannot_be_planted_in_a_project_of_dotfiles(tmp_path: Path) -> None:
    shell = sandboxed_session(tmp_path)
    (shell.home / ".config").symlink_to(shell.folder)
    shell.require_sandbox("namespaces")
    shell.prints(f"{PLANT.format('makeroom')}; echo >made")
    assert (shell.folder / "made").exists()
    assert list((shell.folder / "makeroom").iterdir()) == []
    shell.end()


def test_nothing_is_created_outside_writable_directories(tmp_path: Path) -> None:
    secured = secure_own_places([tmp_path / "home" / SETTINGS], [tmp_path / "project"])
    assert secured.pinned == () and secured.read_only == ()
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("kind", ["apparmor", "docker"])
def test_settings_cannot_be_planted_without_namespaces_of_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "apparmor" and not BWRAP:
        pytest.skip("bwrap does not work here")
    if kind == "docker" and landlock_abi() < LEAST_ABI:
        pytest.skip("Landlock is too old here")
    home = tmp_path.resolve() / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    sandbox, _ = session(home, kind)
    if kind == "docker":  # it cannot hide what is in a writable directory: each command needs approval
        assert sandbox[0] == "none" and str(home) in sandbox[1]
        return
    for line in list(ATTEMPTS.values())[::3]:  # the test above tries all of them, with namespaces of our own
        shutil.rmtree(home)
        home.mkdir()
        sandbox, _ = session(home, kind, f"{line}; echo >made")
        assert sandbox[0] == "namespaces" and (home / "made").exists()
        assert planted(home) == []
