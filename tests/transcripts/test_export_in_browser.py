"""The exported page in a real browser: it is shown, searched and unfolded."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sampling import sampled

from .exported import exported
from .test_export import FOLDED

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--virtual-time-budget=2000",
]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")


def browse(folder: Path, *more: str, query: str = "") -> str:
    page = folder / "page.html"
    page.write_text(exported(FOLDED, "s1", ".html"), "utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [str(CHROMIUM), *FLAGS, profile, *more, f"{page.as_uri()}{query}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_the_page_is_shown_and_no_text_of_it_becomes_code(tmp_path: Path) -> None:
    shown = browse(tmp_path, "--dump-dom")
    assert shown.count("<article") == 17
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in shown
    assert '<img alt="image" src="data:image/png' in shown


def test_a_search_in_the_page_shows_and_opens_what_fits(tmp_path: Path) -> None:
    shown = browse(tmp_path, "--dump-dom", query="?q=edit+X3.py")
    assert '<output id="found">2 found</output>' in shown  # the call and its result
    assert shown.count('hidden"') == 15
    assert shown.count('<details class="call" open') == 1 and '<details class="thinking" open' not in shown


def test_a_link_to_a_fact_opens_it(tmp_path: Path) -> None:
    shown = browse(tmp_path, "--dump-dom", query="#r11")
    assert '<article class="compaction" id="r11"><details class="compaction" open' in shown


@pytest.mark.parametrize("size", sampled(["390,844", "1280,1600"], 2))
def test_the_page_is_painted_wide_and_narrow(tmp_path: Path, size: str) -> None:
    target = tmp_path / "shot.png"
    browse(tmp_path, f"--window-size={size}", "--hide-scrollbars", f"--screenshot={target}")
    assert target.read_bytes().startswith(b"\x89PNG") and target.stat().st_size > 10_000
