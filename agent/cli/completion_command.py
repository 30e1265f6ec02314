"""`makeroom completion SHELL`: print a script that completes the command line.

  makeroom completion bash >> ~/.bashrc
  makeroom completion zsh > ~/.zfunc/_makeroom       (a directory of $fpath)
  makeroom completion fish > ~/.config/fish/completions/makeroom.fish

The script is made from the same table of flags as --help. Exit codes: 0 success, 2 usage error.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from .arguments import COMMAND_HELP, parser
from .command_words import asks_for_help
from .import_command import SOURCES
from .mcp_command import MCP_ACTIONS
from .sessions_command import ACTIONS

SUBCOMMAND_HELP = {usage.split()[0]: text for usage, text in COMMAND_HELP.items()}
# Words after a subcommand.
SUBCOMMAND_WORDS: Mapping[str, tuple[str, ...]] = {
    "completion": ("bash", "zsh", "fish"),
    "import": SOURCES,
    "mcp": tuple(MCP_ACTIONS),
    "permissions": ("check",),
    "sessions": tuple(ACTIONS),
}
_FILES = frozenset({"FILE", "FILE|JSON"})  # metavars of values that may be a file


def run_completion(words: Sequence[str]) -> int:
    """Run `completion` with these words. Returns 0, 2 for a usage error."""
    if asks_for_help(words):
        sys.stdout.write(__doc__ or "")
        return 0
    if len(words) != 1 or words[0] not in _SCRIPTS:
        sys.stderr.write(f"usage: makeroom completion {'|'.join(_SCRIPTS)}\n")
        return 2
    sys.stdout.write("\n".join(_SCRIPTS[words[0]]()) + "\n")
    return 0


def shown_flags() -> list[argparse.Action]:
    """Return the flags of --help, in its order."""
    return [
        action for action in parser()._actions if action.option_strings and action.help != argparse.SUPPRESS
    ]


def _bash() -> Iterator[str]:
    yield "# Completion of makeroom for bash."
    yield "_makeroom() {"
    yield "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} word"
    yield "    case $before in"
    for action in shown_flags():
        if action.nargs == 0:
            continue
        names = "|".join(action.option_strings)
        if action.choices:
            words = shlex.quote(" ".join(map(str, action.choices)))
            yield f'        {names}) COMPREPLY=($(compgen -W {words} -- "$current")); return ;;'
        elif action.metavar == "DIR":
            yield f'        {names}) COMPREPLY=($(compgen -d -- "$current")); return ;;'
        elif action.metavar in _FILES:
            yield f'        {names}) COMPREPLY=($(compgen -f -- "$current")); return ;;'
        elif action.nargs is None:
            yield f"        {names}) COMPREPLY=(); return ;;"
    yield "    esac"
    yield '    for word in "${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do'
    yield "        case $word in"
    for name in SUBCOMMAND_HELP:
        words = " ".join(SUBCOMMAND_WORDS.get(name, ()))
        yield f'            {name}) COMPREPLY=($(compgen -W "{words}" -- "$current")); return ;;'
    yield "        esac"
    yield "    done"
    flags = " ".join(name for action in shown_flags() for name in action.option_strings)
    yield "    case $current in"
    yield f'        -*) COMPREPLY=($(compgen -W "{flags}" -- "$current")) ;;'
    yield f'        *) COMPREPLY=($(compgen -W "{" ".join(SUBCOMMAND_HELP)}" -- "$current")) ;;'
    yield "    esac"
    yield "}"
    yield "complete -o bashdefault -o default -F _makeroom makeroom"


def _zsh() -> Iterator[str]:
    yield "#compdef makeroom"
    yield "# Completion of makeroom for zsh."
    yield "_makeroom() {"
    yield "    local -a commands words_of"
    yield "    commands=("
    for name, text in SUBCOMMAND_HELP.items():
        yield f"        {shlex.quote(f'{name}:{text}')}"
    yield "    )"
    yield "    _arguments -C \\"
    for action in shown_flags():
        help_text = _plain(action.help).replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
        value = "" if action.nargs == 0 else f":{_value_name(action)}:{_zsh_values(action)}"
        for name in action.option_strings:
            yield f"        {shlex.quote(f'{name}[{help_text}]{value}')} \\"
    yield "        '1: :->first' '*: :->rest'"
    yield "    case $state in"
    yield "        first) _describe command commands ;;"
    yield "        rest)"
    yield "            case $line[1] in"
    for name, words in SUBCOMMAND_WORDS.items():
        yield f"                {name}) words_of=({' '.join(words)}); _describe word words_of ;;"
    yield "                *) _files ;;"
    yield "            esac ;;"
    yield "    esac"
    yield "}"
    yield '_makeroom "$@"'


def _zsh_values(action: argparse.Action) -> str:
    if action.choices:
        return f"({' '.join(map(str, action.choices))})"
    if action.metavar == "DIR":
        return "_files -/"
    return "_files" if action.metavar in _FILES else " "


def _fish() -> Iterator[str]:
    yield "# Completion of makeroom for fish."
    yield "complete -c makeroom -f"
    for name, text in SUBCOMMAND_HELP.items():
        yield f"complete -c makeroom -n __fish_use_subcommand -a {name} -d {_fish_quoted(text)}"
    for name, words in SUBCOMMAND_WORDS.items():
        condition = _fish_quoted(f"__fish_seen_subcommand_from {name}")
        yield f"complete -c makeroom -n {condition} -a {_fish_quoted(' '.join(words))}"
    for action in shown_flags():
        names = [
            f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in action.option_strings
        ]
        value = ""
        if action.choices:
            value = f" -x -a {_fish_quoted(' '.join(map(str, action.choices)))}"
        elif action.metavar == "DIR":
            value = " -x -a '(__fish_complete_directories)'"
        elif action.metavar in _FILES:
            value = " -r -F"
        elif action.nargs != 0:
            value = " -x"
        yield f"complete -c makeroom {' '.join(names)}{value} -d {_fish_quoted(_plain(action.help))}"


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _plain(text: str | None) -> str:
    return (text or "").replace("%%", "%")


def _value_name(action: argparse.Action) -> str:
    return action.metavar if isinstance(action.metavar, str) else action.dest


_SCRIPTS: Mapping[str, Callable[[], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
