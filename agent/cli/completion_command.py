"""`makeroom completion SHELL`: print a script that completes the command line.

  makeroom completion bash >> ~/.bashrc
  makeroom completion zsh > ~/.zfunc/_makeroom       (a directory of $fpath)
  makeroom completion fish > ~/.config/fish/completions/makeroom.fish

On Tab the script runs `makeroom completion offers -- WORD...`, which prints a line for each word that may
take the place of the last one: the word, a tab, and its purpose. The line `:files` or `:directories` asks the
shell to complete these itself. Exit codes: 0 success, 2 usage error.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agent.extensions.mcp import FILE_SCOPES
from agent.model import CATALOG
from agent.permissions import MODES
from tools import TOOL_NAMES
from transcripts import StoreError

from .arguments import COMMAND_HELP, parser
from .client_flags import SETTING_SOURCES
from .command_words import asks_for_help
from .import_command import SOURCES
from .mcp_command import MCP_ACTIONS, TRANSPORTS
from .printing import print_text, show_usage
from .sessions_command import ACTIONS, FORMATS, session_lines

_FILES = (":files",)
_DIRECTORIES = (":directories",)
_SESSIONS = (":sessions",)
_WORKTREES = (":worktrees",)
_MODELS = (*CATALOG.aliases, *(model.id for model in CATALOG.models))
# The values of flags that do not list them themselves, by their names and by their metavariables.
_VALUES: Mapping[str, Sequence[str]] = {
    "--model": _MODELS,
    "--fallback-model": _MODELS,
    "--permission-mode": MODES,
    "--permission-prompt-tool": ("stdio",),
    "--setting-sources": SETTING_SOURCES,
    "--tools": TOOL_NAMES,
    "--allowed-tools": TOOL_NAMES,
    "--disallowed-tools": TOOL_NAMES,
    "--resume": _SESSIONS,
    "--worktree": _WORKTREES,
    "DIR": _DIRECTORIES,
    "FILE": _FILES,
    "FILE|JSON": _FILES,
}
# The flags of subcommands with their values; None: without a value.
SUBCOMMAND_FLAGS: Mapping[str, Mapping[str, Sequence[str] | None]] = {
    "import": {"--yes": None},
    "mcp": {"-s": FILE_SCOPES, "--scope": FILE_SCOPES, "-t": TRANSPORTS, "--transport": TRANSPORTS},
    "permissions": {"--sandboxed": ("on", "off")},
    "recall": {
        "--scope": ("session", "project"),
        "--session": _SESSIONS,
        "--limit": (),
        "--json": None,
        "--queries": _FILES,
        "-C": _DIRECTORIES,
    },
    "sessions": {"--format": FORMATS},
    "verify": {"-C": _DIRECTORIES},
}
# What may follow a subcommand, or a word after it.
SUBCOMMAND_WORDS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "completion": {"completion": ("bash", "zsh", "fish")},
    "import": {"import": SOURCES},
    "mcp": {"mcp": tuple(MCP_ACTIONS)},
    "permissions": {"permissions": ("check",)},
    "replay": {"": _FILES},
    "sessions": {"sessions": tuple(ACTIONS), "show": _SESSIONS, "export": _SESSIONS},
    "verify": {"verify": _SESSIONS},
}
_TAKES_FLAGS = "acp"  # a subcommand with the flags of makeroom
_SUBCOMMAND_HELP = {usage.split()[0]: text for usage, text in COMMAND_HELP.items()}

_BASH = r"""# Completion of makeroom for bash.
_makeroom() {
    local current=${COMP_WORDS[COMP_CWORD]} offer purpose IFS=$'\n'
    if [[ $current == = ]]; then current=; fi
    COMPREPLY=()
    while IFS=$'\t' read -r offer purpose; do
        case $offer in
            :files) COMPREPLY+=($(compgen -f -- "$current")); compopt -o filenames 2>/dev/null ;;
            :directories) COMPREPLY+=($(compgen -d -- "$current")); compopt -o filenames 2>/dev/null ;;
            *) COMPREPLY+=("$offer") ;;
        esac
    done < <(command makeroom completion offers -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _makeroom makeroom
"""
_ZSH = r"""#compdef makeroom
# Completion of makeroom for zsh.
_makeroom() {
    local offer
    local -a before offers
    before=("${(@)words[2,CURRENT-1]}")
    for offer in "${(@f)$(command makeroom completion offers -- "$before[@]" "$PREFIX" 2>/dev/null)}"; do
        case $offer in
            :files) _files ;;
            :directories) _files -/ ;;
            ?*) offers+=("${${offer//:/\\:}/$'\t'/:}") ;;
        esac
    done
    _describe -V makeroom offers
}
if [ "$funcstack[1]" = _makeroom ]; then _makeroom "$@"; else compdef _makeroom makeroom; fi
"""
_FISH = r"""# Completion of makeroom for fish.
function __makeroom_offers
    set -l word (commandline -ct)
    set -l before (commandline -opc)
    for offer in (command makeroom completion offers -- $before[2..] "$word" 2>/dev/null)
        switch $offer
            case :files
                __fish_complete_path "$word"
            case :directories
                __fish_complete_directories "$word"
            case '*'
                printf '%s\n' $offer
        end
    end
end
complete -c makeroom -f -k -a '(__makeroom_offers)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def run_completion(words: Sequence[str]) -> int:
    """Run `completion` with these words. Returns 0, 2 for a usage error."""
    if asks_for_help(words):
        return print_text(__doc__ or "")
    if words[:2] == ["offers", "--"]:
        found = list(offers(words[2:] or [""]))
        return print_text("\n".join(found), raw=True) if found else 0
    if len(words) != 1 or words[0] not in _SCRIPTS:
        return show_usage(f"completion {'|'.join(_SCRIPTS)}")
    return print_text(_SCRIPTS[words[0]])


def offers(words: Sequence[str]) -> Iterator[str]:
    """Yield what may take the place of the last word of a command line, as the scripts read it."""
    # bash splits --flag=value into three words.
    *before, current = [word for word in words[:-1] if word != "="] + [words[-1].removeprefix("=")]
    flag, is_given, begun = current.partition("=")
    given = ""
    if is_given and flag.startswith("--"):
        before.append(flag)
        given = f"{flag}="
        current = begun
    for offer in _offers(before, current):
        if offer.startswith(current) or offer in (*_FILES, *_DIRECTORIES):
            yield given + offer


def _offers(before: Sequence[str], current: str) -> Iterator[str]:
    """Yield what may follow words, of which `current` is the beginning."""
    last = before[-1] if before else ""
    subcommand = next((word for word in before if word in _SUBCOMMAND_HELP), "")
    flags = {name: action for action in shown_flags() for name in action.option_strings}
    own = SUBCOMMAND_FLAGS.get(subcommand, {})
    after = {**own, **SUBCOMMAND_WORDS.get(subcommand, {})}
    action = flags.get(last)
    if action is not None and action.nargs != 0 and not (action.nargs == "?" and current.startswith("-")):
        yield from _found(_values_of(action), current)
    elif (values := after.get(last, after.get(""))) is not None and not current.startswith("-"):
        yield from _found(values, current)
    elif current.startswith("-") and subcommand not in ("", _TAKES_FLAGS):
        yield from own
    elif current.startswith("-"):
        yield from (f"{name}\t{(action.help or '').replace('%%', '%')}" for name, action in flags.items())
    elif not subcommand:
        yield from (f"{name}\t{text}" for name, text in _SUBCOMMAND_HELP.items())


def shown_flags() -> list[argparse.Action]:
    """Return the flags of --help, in its order."""
    return [
        action for action in parser()._actions if action.option_strings and action.help != argparse.SUPPRESS
    ]


def _values_of(action: argparse.Action) -> Sequence[str]:
    """Return the values to offer after a flag."""
    if action.choices:
        return tuple(map(str, action.choices))
    names = (*action.option_strings, str(action.metavar))
    return next((_VALUES[name] for name in names if name in _VALUES), ())


def _found(values: Sequence[str], current: str) -> Iterator[str]:
    """Yield values, with the names that are looked for in this directory."""
    if values == _WORKTREES:
        yield from sorted(path.name for path in Path(".makeroom/worktrees").glob("*"))
    elif values == _SESSIONS:
        lines = []
        with suppress(StoreError):
            lines = session_lines(Path.cwd())
        yield from ("\t".join(line.split(maxsplit=1)) for line in lines)
        yield from _FILES if current else ()
    else:
        yield from values
