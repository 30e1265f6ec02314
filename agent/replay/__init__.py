"""`makeroom replay`: compaction policies judged on recorded sessions, without a model."""

from __future__ import annotations


def main(argv: list[str]) -> int:
    """Run the command and return its exit code. Loads the command's modules only now."""
    from .command import run_replay

    return run_replay(argv)
