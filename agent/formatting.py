"""Format durations, counts, percentages, names of models and marks for users."""

from __future__ import annotations

from pathlib import PurePath


def format_duration(seconds: float) -> str:
    """Format seconds: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 3 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_count(number: int) -> str:
    """Format a count: `950`, `1.2k`, `48k`, `1.2M`."""
    if number < 1000:
        return str(number)
    if number < 999_500:
        return f"{number / 1000:.1f}k" if number < 9_950 else f"{number / 1000:.0f}k"
    return f"{number / 1_000_000:.1f}M"


def format_bytes(size: int) -> str:
    """Format a size: `950 B`, `1.2 kB`, `126 kB`, `4.8 MB`, `1.2 GB`."""
    if size < 1000:
        return f"{size} B"
    for unit in ("kB", "MB"):
        size_in_unit = size / (1000 if unit == "kB" else 1_000_000)
        if size_in_unit < 999.5:
            return f"{size_in_unit:.1f} {unit}" if size_in_unit < 99.95 else f"{size_in_unit:.0f} {unit}"
    return f"{size / 1_000_000_000:.1f} GB"


def whole_percent(part: int, whole: int) -> int:
    """Return the rounded percentage of `part` in `whole` (more than 0); 100 only if they are equal."""
    rounded = round(100 * part / whole)
    return 99 if rounded == 100 and part < whole else rounded


def todo_mark(status: str) -> str:
    """Return the mark of an item of the to-do list."""
    return {"completed": "☒", "in_progress": "▸"}.get(status, "☐")


def short_model(model: str) -> str:
    """Return the name of a model, without the directories of one that llama.cpp names by its file."""
    return PurePath(model).name if model.startswith("/") else model
