"""docs/ARCHITECTURE.md names files and functions that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
QUOTED = re.compile(r"`([^`\n]+)`")
PLACEHOLDERS = {"tools/NAME.py", "compact/layers/NAME.py"}


def test_every_file_it_names_exists() -> None:
    named = {word for word in QUOTED.findall(TEXT) if re.fullmatch(r"[\w/]+\.(py|toml)", word)} - PLACEHOLDERS
    assert len(named) > 40
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []


def test_every_name_behind_a_file_is_defined_there() -> None:
    named = re.findall(r"`([\w/]+\.py)`\s+`([\w.]+)`", TEXT)
    assert len(named) > 40
    missing = [(path, name) for path, name in named if not is_defined(ROOT / path, name.split(".")[-1])]
    assert missing == []


def is_defined(path: Path, name: str) -> bool:
    return bool(
        re.search(rf"^\s*(?:async )?(?:def|class) {name}\b|^{name}\b.* = ", path.read_text("utf-8"), re.M)
    )


def test_every_private_function_it_names_is_there() -> None:
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "agent" / "loop").glob("*.py"))
    private = {word for word in QUOTED.findall(TEXT) if re.fullmatch(r"_\w+", word)}
    assert private and all(f"def {name}(" in source for name in private)
