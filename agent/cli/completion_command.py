"""`makeroom completion SHELL`: print a script that completes the command line.

  makeroom completion bash >> ~/.bashrc
  makeroom completion zsh > ~/.zfunc/_makeroom       (a directory of $fpath)
  makeroom completion fish > ~/.config/fish/completions/makeroom.fish

The script is generated from the same table of flags as --help. It runs `makeroom sessions` to complete the id
of a session. Exit codes: 0 success, 2 usage error.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from agent.extensions.mcp import FILE_SCOPES
from agent.model import CATALOG
from agent.permissions import MODES
from tools import TOOL_NAMES

from .arguments import COMMAND_HELP, parser
from .client_flags import SETTING_SOURCES
from .command_words import asks_for_help
from .import_command import SOURCES
from .mcp_command import MCP_ACTIONS, TRANSPORTS
from .printing import print_text, show_usage
from .sessions_command import ACTIONS, FORMATS


class Values(Struct, frozen=True):
    """The values of a flag or a subcommand: words that are known now, and names that the shell looks up."""

    words: tuple[str, ...] = ()
    found: Literal["", "files", "directories", "sessions", "worktrees"] = ""


SUBCOMMAND_HELP = {usage.split()[0]: text for usage, text in COMMAND_HELP.items()}
# Words after a subcommand.
SUBCOMMAND_WORDS: Mapping[str, tuple[str, ...]] = {
    "completion": ("bash", "zsh", "fish"),
    "import": SOURCES,
    "mcp": tuple(MCP_ACTIONS),
    "permissions": ("check",),
    "sessions": tuple(ACTIONS),
}
# Flags after a subcommand; None: without a value. No flag of makeroom has the same name and other values.
SUBCOMMAND_FLAGS: Mapping[str, Mapping[str, Values | None]] = {
    "import": {"--yes": None},
    "mcp": {
        "-s": Values(FILE_SCOPES),
        "--scope": Values(FILE_SCOPES),
        "-t": Values(TRANSPORTS),
        "--transport": Values(TRANSPORTS),
    },
    "permissions": {"--sandboxed": Values(("on", "off"))},
    "recall": {
        "--scope": Values(("session", "project")),
        "--session": Values(found="sessions"),
        "--limit": Values(),
        "--json": None,
        "--queries": Values(found="files"),
        "-C": Values(found="directories"),
    },
    "sessions": {"--format": Values(FORMATS)},
    "verify": {"-C": Values(found="directories")},
}
TAKES_FILES = "replay"
TAKES_FLAGS = "acp"  # a subcommand with the flags of makeroom
_MODELS = Values((*CATALOG.aliases, *(model.id for model in CATALOG.models)))
_TOOLS = Values(TOOL_NAMES)
_VALUES: Mapping[str, Values] = {
    "--model": _MODELS,
    "--fallback-model": _MODELS,
    "--permission-mode": Values(MODES),
    "--permission-prompt-tool": Values(("stdio",)),
    "--setting-sources": Values(SETTING_SOURCES),
    "--tools": _TOOLS,
    "--allowed-tools": _TOOLS,
    "--disallowed-tools": _TOOLS,
    "--resume": Values(found="sessions"),
    "--worktree": Values(found="worktrees"),
}
_VALUES_BY_METAVAR = {
    "DIR": Values(found="directories"),
    "FILE": Values(found="files"),
    "FILE|JSON": Values(found="files"),
}
# Words after a subcommand, or itself, that the id of a session follows.
_TAKE_SESSIONS: Mapping[str, tuple[str, ...]] = {"sessions": ("show", "export"), "verify": ("verify",)}


def run_completion(words: Sequence[str]) -> int:
    """Run `completion` with these words. Returns 0, 2 for a usage error."""
    if asks_for_help(words):
        return print_text(__doc__ or "")
    if len(words) != 1 or words[0] not in _SCRIPTS:
        return show_usage(f"completion {'|'.join(_SCRIPTS)}")
    sys.stdout.write("\n".join(_SCRIPTS[words[0]]()) + "\n")
    return 0


def shown_flags() -> list[argparse.Action]:
    """Return the flags of --help, in its order."""
    return [
        action for action in parser()._actions if action.option_strings and action.help != argparse.SUPPRESS
    ]


def values_of(action: argparse.Action) -> Values:
    """Return the values to offer after a flag."""
    named = (_VALUES[name] for name in action.option_strings if name in _VALUES)
    by_metavar = _VALUES_BY_METAVAR.get(str(action.metavar), Values())
    return Values(tuple(map(str, action.choices))) if action.choices else next(named, by_metavar)


def values_after(subcommand: str) -> Iterator[tuple[str, Values]]:
    """Yield each word after which a subcommand takes known values, and the values."""
    if words := SUBCOMMAND_WORDS.get(subcommand):
        yield subcommand, Values(words)
    for word in _TAKE_SESSIONS.get(subcommand, ()):
        yield word, Values(found="sessions")
    for flag, values in SUBCOMMAND_FLAGS.get(subcommand, {}).items():
        if values is not None:
            yield flag, values


# Print the sessions of the directory, one line each: id, tab, description. Where a session is wanted, files
# are completed too, once something is typed.
_LIST_SESSIONS = (
    "command makeroom sessions 2>/dev/null |"
    r""" awk '/ [0-9]+ prompts?  / { id = $1; sub(/^[^ ]+ +/, ""); print id "\t" $0 }'"""
)


def _bash() -> Iterator[str]:
    yield "# Completion of makeroom for bash."
    yield "_makeroom_sessions() {"
    yield f"    {_LIST_SESSIONS} | cut -f 1"
    yield "}"
    yield "_makeroom_paths() {"
    yield "    local IFS=$'\\n'"  # a name may contain spaces, which readline quotes
    yield '    COMPREPLY+=($(compgen "$1" -- "$current"))'
    yield "    compopt -o filenames 2>/dev/null"  # bash 3 of macOS has no compopt
    yield "}"
    yield "_makeroom() {"
    yield "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} word"
    yield "    COMPREPLY=()"
    # bash splits --flag=value into three words.
    yield "    if [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi"
    yield "    if [[ $current == = ]]; then current=; fi"
    yield "    case $before in"
    for action in shown_flags():
        if action.nargs == 0:
            continue
        names = "|".join(action.option_strings)
        reply = f"{_bash_values(values_of(action))}; return"
        if action.nargs == "?":
            reply = f"if [[ $current != -* ]]; then {reply}; fi"
        yield f"        {names}) {reply} ;;"
    yield "    esac"
    yield '    for word in "${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do'
    yield "        case $word in"
    yield f"            {TAKES_FLAGS}) if [[ $current == -* ]]; then break; fi; return ;;"
    for name in (name for name in SUBCOMMAND_HELP if name != TAKES_FLAGS):
        yield f"            {name})"
        yield "                case $before:$current in"
        for before, values in values_after(name):
            yield f"                    {before}:*) {_bash_values(values)} ;;"
        if flags := " ".join(SUBCOMMAND_FLAGS.get(name, ())):
            yield f'                    *:-*) COMPREPLY=($(compgen -W "{flags}" -- "$current")) ;;'
        yield "                esac"
        yield "                return ;;"
    yield "        esac"
    yield "    done"
    flags = " ".join(name for action in shown_flags() for name in action.option_strings)
    yield "    case $current in"
    yield f'        -*) COMPREPLY=($(compgen -W "{flags}" -- "$current")) ;;'
    yield f'        *) COMPREPLY=($(compgen -W "{" ".join(SUBCOMMAND_HELP)}" -- "$current")) ;;'
    yield "    esac"
    yield "}"
    yield "complete -o bashdefault -o default -F _makeroom makeroom"


def _bash_values(values: Values) -> str:
    match values.found:
        case "files":
            return "_makeroom_paths -f"
        case "directories":
            return "_makeroom_paths -d"
        case "sessions":
            files = '[ -z "$current" ] || _makeroom_paths -f'
            return f'COMPREPLY=($(compgen -W "$(_makeroom_sessions)" -- "$current")); {files}'
        case "worktrees":
            return 'COMPREPLY=($(compgen -W "$(ls .makeroom/worktrees 2>/dev/null)" -- "$current"))'
        case _:
            words = shlex.quote(" ".join(values.words))
            return f'COMPREPLY=($(compgen -W {words} -- "$current"))' if values.words else ":"


def _zsh() -> Iterator[str]:
    yield "#compdef makeroom"
    yield "# Completion of makeroom for zsh."
    yield "_makeroom_sessions() {"
    yield "    local -a found"
    yield f"    found=(${{(f)\"$({_LIST_SESSIONS} | sed 's/:/\\\\:/g' | tr '\\t' :)\"}})"
    yield "    _describe -V session found"
    yield '    [ -z "$PREFIX" ] || _files'
    yield "}"
    yield "_makeroom_worktrees() {"
    yield "    local -a found"
    yield "    found=(.makeroom/worktrees/*(N/:t))"
    yield "    _describe worktree found"
    yield "}"
    yield "_makeroom() {"
    yield "    local context state line word before=$words[CURRENT-1]"
    yield "    local -a commands"
    yield "    typeset -A opt_args"
    yield '    for word in "${(@)words[2,CURRENT-1]}"; do'
    yield "        case $word in"
    yield f"            {TAKES_FLAGS}) break ;;"
    for name in (name for name in SUBCOMMAND_HELP if name != TAKES_FLAGS):
        yield f"            {name})"
        yield "                case $before:$PREFIX in"
        for word, values in values_after(name):
            offer = _zsh_values(values).strip()
            offer = f"compadd -- {offer[1:-1]}" if offer.startswith("(") else offer
            yield f"                    {word}:*) {offer} ;;"
        if flags := " ".join(SUBCOMMAND_FLAGS.get(name, ())):
            yield f"                    *:-*) compadd -- {flags} ;;"
        yield "                    *) _files ;;"
        yield "                esac"
        yield "                return ;;"
    yield "        esac"
    yield "    done"
    yield "    commands=("
    for name, text in SUBCOMMAND_HELP.items():
        yield f"        {shlex.quote(f'{name}:{text}')}"
    yield "    )"
    yield "    _arguments -C \\"
    for action in shown_flags():
        help_text = _plain(action.help).replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
        value = ""
        if action.nargs != 0:
            optional = ":" if action.nargs == "?" else ""
            value = f":{optional}{_value_name(action)}:{_zsh_values(values_of(action))}"
        for name in action.option_strings:
            yield f"        {shlex.quote(f'{name}[{help_text}]{value}')} \\"
    yield "        '1: :->first' '*:file:_files'"
    yield "    if [[ $state == first ]]; then _describe command commands; fi"
    yield "}"
    yield 'if [ "$funcstack[1]" = _makeroom ]; then _makeroom "$@"; else compdef _makeroom makeroom; fi'


def _zsh_values(values: Values) -> str:
    match values.found:
        case "files":
            return "_files"
        case "directories":
            return "_files -/"
        case "sessions":
            return "_makeroom_sessions"
        case "worktrees":
            return "_makeroom_worktrees"
        case _:
            return f"({' '.join(values.words)})" if values.words else " "


def _fish() -> Iterator[str]:
    yield "# Completion of makeroom for fish."
    yield "function __makeroom_sessions"
    yield f"    {_LIST_SESSIONS}"
    yield "    set -l word (commandline -ct)"
    yield '    test -z "$word"; or __fish_complete_path $word'
    yield "end"
    yield "complete -c makeroom -f"
    for name, text in SUBCOMMAND_HELP.items():
        yield f"complete -c makeroom -n __fish_use_subcommand -a {name} -d {_fish_quoted(text)}"
    for name in (name for name in SUBCOMMAND_HELP if name != TAKES_FLAGS):
        seen = f"__fish_seen_subcommand_from {name}"
        for word, values in values_after(name):
            if word.startswith("-"):
                continue
            after = _fish_quoted(f"{seen}; and test (commandline -opc)[-1] = {word}")
            kind, found = _fish_values(values)
            yield f"complete -c makeroom{kind.replace(' -x', '')} -n {after} -a {_fish_quoted(found)}"
        for flag, flag_values in SUBCOMMAND_FLAGS.get(name, {}).items():
            kind, found = _fish_values(flag_values) if flag_values is not None else ("", "")
            offer = f" -a {_fish_quoted(found)}" if found else ""
            yield f"complete -c makeroom -n {_fish_quoted(seen)} {_fish_option(flag)}{kind}{offer}"
    others = " ".join(name for name in SUBCOMMAND_HELP if name != TAKES_FLAGS)
    no_other = _fish_quoted(f"not __fish_seen_subcommand_from {others}")
    yield f"complete -c makeroom -n '__fish_seen_subcommand_from {TAKES_FILES}' -F"
    for action in shown_flags():
        option = f"complete -c makeroom -n {no_other} {' '.join(map(_fish_option, action.option_strings))}"
        kind = ""
        if action.nargs != 0:
            kind, found = _fish_values(values_of(action))
            if found:  # fish would show a description of the option beside each value
                yield f"{option}{kind} -a {_fish_quoted(found)}"
        yield f"{option}{kind} -d {_fish_quoted(_plain(action.help))}"


def _fish_values(values: Values) -> tuple[str, str]:
    """Return the options that say what kind of value a flag takes, and the values, "" for none."""
    match values.found:
        case "files":
            return " -r -F", ""
        case "directories":
            return " -x", "(__fish_complete_directories)"
        case "sessions":
            return " -x -k", "(__makeroom_sessions)"
        case "worktrees":
            return " -x", "(ls .makeroom/worktrees 2>/dev/null)"
        case _:
            return " -x", " ".join(values.words)


def _fish_option(name: str) -> str:
    return f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _plain(text: str | None) -> str:
    return (text or "").replace("%%", "%")


def _value_name(action: argparse.Action) -> str:
    return action.metavar if isinstance(action.metavar, str) else action.dest


_SCRIPTS: Mapping[str, Callable[[], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
