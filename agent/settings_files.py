"""Find and read settings files, and change one entry: the part of the settings that the first paint needs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.errors import ConfigError
from transcripts.patterns import lazy_pattern
from transcripts.storage import locked, make_private_folders, project_key, read_regular, replace_file
from transcripts.wording import cause_of

MAX_SETTINGS_BYTES = 1024 * 1024
# tomllib takes 20 s for a key of 30,000 parts, and no setting has more than two.
_LONG_KEY = lazy_pattern(r"""(?<![\w"'.-])(?:["'\w-]++[ \t]*+\.[ \t]*+){40}""")


def home_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's home directory, not resolved."""
    return Path(environ.get("HOME") or Path.home())


def claude_folder(environ: Mapping[str, str]) -> Path:
    """Return the directory of the user's own Claude Code files."""
    return Path(environ.get("CLAUDE_CONFIG_DIR") or home_folder(environ) / ".claude")


def permissions_path(user_dir: Path, folder: Path) -> Path:
    """Return the file of the rules that are always allowed in the project `folder`."""
    return user_dir / "projects" / f"{project_key(folder)}.toml"


def typed_value(text: str) -> Any:
    """Return the value that the user types for a setting, as in a file; a string needs no quotes."""
    try:
        return text if _LONG_KEY.search(text) else _parsed(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _parsed(text: str) -> dict[str, Any]:
    """Return the entries of a TOML text. Raises ValueError and RecursionError."""
    import tomllib  # 3 ms, which a run without settings files saves

    return tomllib.loads(text)


def read_settings(path: Path) -> dict[str, Any]:
    """Return the entries of a TOML settings file; none if it does not exist.

    Raises ConfigError with the remedy, including for a path that is not a regular file.
    """
    try:
        text = read_regular(path, MAX_SETTINGS_BYTES).removeprefix(b"\xef\xbb\xbf").decode("utf-8")
        if _LONG_KEY.search(text):
            raise ValueError("a key has more than 40 parts")
        return _parsed(text)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except RecursionError as error:
        raise ConfigError(f"cannot read {path}: nested too deeply; correct or remove it") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 text; save it as UTF-8") from error
    except (OSError, ValueError) as error:
        why = cause_of(error)
        raise ConfigError(f"cannot read {path}: {why}; correct or remove it") from error


def json_object(data: bytes) -> dict[str, Any]:
    """Return the object that the content of a JSON file consists of. Raises ValueError with the reason."""
    try:
        found = json.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("it does not contain a JSON object")
    return found


def json_object_in(path: Path, limit: int) -> dict[str, Any]:
    """Return the object in a JSON file of at most `limit` bytes; {} if it cannot be read or has none."""
    with suppress(OSError, ValueError):
        return json_object(read_regular(path, limit))
    return {}


def write_setting(path: Path, name: str, value: str) -> None:
    """Set a top-level entry in the user's own settings file; other lines stay unchanged.

    Raises ConfigError if the file cannot be read, or contains the entry in a form that cannot be edited here,
    and OSError if it cannot be written.
    """
    with locked(path):
        _write_setting(path, name, value)


def _write_setting(path: Path, name: str, value: str) -> None:
    wanted = {**(before := read_settings(path)), name: value}
    if before == wanted:
        return
    real = path.resolve()
    entry = f"{name} = {json.dumps(value, ensure_ascii=False)}"
    data = real.read_bytes().removeprefix(b"\xef\xbb\xbf") if real.exists() else b""
    mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
    text = data.decode("utf-8")
    entry_line = re.compile(rf"""^[ \t]*{name}[ \t]*=[ \t]*("[^"\r\n]*"|'[^'\r\n]*')""", re.MULTILINE)
    end = "\r\n" if "\r\n" in text else "\n"
    for changed in (entry_line.sub(lambda _: entry, text, count=1), f"{entry}{end}{text}"):
        with suppress(ValueError):
            if _parsed(changed) == wanted:
                make_private_folders(real.parent)
                replace_file(real, changed.encode())
                real.chmod(mode)
                return
    raise ConfigError(f"cannot change {name} in {path}. Edit the file and write: {entry}")
