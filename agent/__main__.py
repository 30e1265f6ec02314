"""The way in: anchor the imports, judge argv, hand over. Kept free of everything that is slow to import."""

from .import_guard import anchor

anchor()

import sys  # noqa: E402  nothing may be imported before the anchor holds
from collections.abc import Sequence  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words in (["--version"], ["-v"]):
        from .version import __version__

        sys.stdout.write(f"makeroom {__version__}\n")
        return 0
    if words[:1] == ["replay"]:
        from agent.replay.command import main as replay

        return replay(words[1:])
    if words[:1] == ["sessions"]:
        from pathlib import Path

        from agent.cli.sessions_command import main as sessions

        return sessions(words[1:], Path.cwd())
    from agent.cli.arguments import parse

    options = parse(words)
    from agent.cli.launch import run

    return run(options)


if __name__ == "__main__":
    sys.exit(main())
