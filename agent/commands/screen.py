"""The commands that need no session: /help, and /theme and /vim, which change the screen.

Their imports are loaded when the prompt is painted, or soon after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from agent.app import EDITING_MODES, THEMES, start_command
from agent.events import CommandOutput, Event, Notice, ScreenSetting
from agent.extensions.skills import Skill, SkillLibrary
from agent.keys import with_keys
from agent.menus import question_menu
from agent.settings_files import write_setting
from transcripts.wording import shorten

from .running import unknown, usage_notice
from .setting_menus import theme_menu
from .table import COMMANDS, Command, find_command

if TYPE_CHECKING:
    from agent.app import Controller

SHORT_KEY_HELP = (
    "  {submit} sends, \\ and {submit} inserts a new line, Up recalls earlier prompts",
    "  @ mentions a file, ! runs a shell command, / lists commands as you type",
    "  Esc or {interrupt} interrupts a turn; Esc Esc rewinds to an earlier prompt",
    "  {mode} changes the permission mode; {outputs} turns full outputs on or off",
    "  {interrupt} twice exits; {program} -c resumes the session",
)
PLAIN_KEY_HELP = (  # where there are only lines
    "  Enter sends a line, @ mentions a file, ! runs a shell command, / runs a makeroom command",
    "  Ctrl-C interrupts a turn, and exits when pressed twice; Ctrl-D exits",
    "  {program} -c resumes the session",
)
HELP_SECTIONS: Mapping[str, str] = {  # section of the short help -> its commands
    "session": "clear resume sessions rewind fork rename export copy exit",
    "window": "context compact uncompact recall search drop pin",
    "work": "init plan todo diff memory tasks background publish add-dir",
    "choices": "model effort permissions sandbox config theme vim",
    "extras": "skills agents mcp hooks plugin trust",
    "state": "help status worktree cost doctor bug",
}
KEY_HELP = (
    "{submit} sends the prompt; {newline} or \\ {submit} inserts a new line",
    "{interrupt} or Esc interrupts a turn; {interrupt} twice exits; {leave} on an empty line exits",
    "Esc Esc on an empty line rewinds to an earlier prompt; {mode} changes the permission mode",
    "Up and Ctrl-R find earlier prompts; {complete} completes; @ mentions a file",
    "{image} pastes an image from the clipboard; a dropped or pasted path of an image attaches it",
    "{stash} stashes a draft or restores it; Ctrl-_ undoes the last edit of the input",
    "{background} moves the running command to the background; {tasks} lists background commands",
    "!command runs a shell command and shows its output to the model; !!command shows it only to you",
    "{outputs} prints the outputs of the last turn in full; later ones too, until you press it again",
    "{editor} opens the prompt in your editor; {redraw} redraws the screen; {suspend} suspends makeroom",
    "{model} selects the model; {effort} selects the effort",
)
MAX_SUMMARY_CHARS = 75  # of a command or skill in a list


MORE_HELP = "More: /help commands, /help keys, /help window (a section), /help compact"


async def show_help(controller: Controller, argument: str) -> Event | None:
    """Run /help."""
    library = controller.services.skills
    name = argument.removeprefix("/").lower()
    if (command := find_command(name)) is not None:
        lines = [f"/{command.name}: {command.help}", command.usage_line]
        if command.aliases:
            lines.append(f"also: {', '.join(f'/{alias}' for alias in command.aliases)}")
        return CommandOutput("\n".join(lines))
    if name in HELP_SECTIONS:
        return CommandOutput("\n".join(_summary_lines(section_commands(name))))
    keys = controller.setup.key_names
    program = start_command(controller.setup.options).rstrip()
    plain = [line.format(program=program) for line in PLAIN_KEY_HELP]
    if name == "keys":
        if not any(keys.values()):
            return CommandOutput("\n".join(plain))
        own = [f"{key} runs {line}" for line, key in keys.items() if line.startswith("/") and key]
        return CommandOutput("\n".join([*filter(None, (with_keys(line, keys) for line in KEY_HELP)), *own]))
    if name == "commands":
        own = [f"  {line}" for line in typed_lines(library)]
        theirs = ["", "Your commands and the project's", *own] if own else []
        return CommandOutput("\n".join([*_summary_lines(COMMANDS), *theirs]))
    if name:
        skill = library.find(name)
        return CommandOutput(skill_help(skill)) if skill is not None else unknown(controller, name)
    width = max(map(len, HELP_SECTIONS))
    lines = [
        f"  {section:<{width}}  {' '.join(f'/{each.name}' for each in section_commands(section))}"
        for section in HELP_SECTIONS
    ]
    short = [with_keys(line, {**keys, "program": program}) for line in SHORT_KEY_HELP]
    short = short if any(keys.values()) else plain
    if yours := " ".join(f"/{each.name}" for each in library.for_users()):
        lines.append(f"  {'yours':<{width}}  {shorten(yours, 66)}")  # so that the line fits 80 columns
    return CommandOutput("\n".join(["Keys", *short, "Commands", *lines, MORE_HELP]))


def section_commands(name: str) -> list[Command]:
    """Return the commands of a section of the help; the last has those that are in no other section."""
    named = {word for words in HELP_SECTIONS.values() for word in words.split()}
    found = [command for word in HELP_SECTIONS[name].split() if (command := find_command(word)) is not None]
    others = [each for each in COMMANDS if each.name not in named] if name == list(HELP_SECTIONS)[-1] else []
    return [*found, *others]


def _summary_lines(commands: Sequence[Command]) -> list[str]:
    width = max(len(command.name) for command in commands)
    return [f"  /{command.name:<{width}}  {command.summary}" for command in commands]


def typed_lines(library: SkillLibrary) -> list[str]:
    """Return a line for each command or skill of the library that the user can type."""
    skills = library.for_users()
    width = max((len(one.name) for one in skills), default=0)
    return [f"/{one.name:<{width}}  {shorten(one.summary, MAX_SUMMARY_CHARS)}" for one in skills]


def skill_help(skill: Skill) -> str:
    """Return the details of a command or skill, one line each."""
    only = ""
    if not (skill.for_model and skill.for_user):
        only = "you only" if skill.for_user else "the model only"
    facts = {
        "purpose": skill.description,
        "takes": skill.hint or " ".join(skill.arguments),
        "allows": ", ".join(skill.allowed_tools),
        "model": " ".join(filter(None, (skill.model, skill.effort))),
        "runs": f"in its own session {skill.agent}".strip() if skill.forks else "",
        "for": only,
        "file": str(skill.path),
    }
    name = f"/{skill.name}" if skill.for_user else skill.name
    lines = (f"  {label:<7} {text}" for label, text in facts.items() if text)
    return "\n".join((f"{name} ({skill.origin} {skill.kind})", *lines))


async def set_theme(controller: Controller, argument: str) -> Event | None:
    """Run /theme."""
    if not argument and controller.chooser is not None:
        row = await controller.chooser.choose(theme_menu(controller.setup.config.theme))
        if row is None:
            return None
        argument = row.value
    if argument not in THEMES:
        return usage_notice("theme", f"unknown theme {argument!r}" if argument else "")
    return _use_on_screen(controller, "theme", argument)


async def set_editing(controller: Controller, argument: str) -> Event | None:
    """Run /vim."""
    config = controller.setup.config
    other = "emacs" if config.editing == "vim" else "vim"
    wanted = {"": other, "on": "vim", "off": "emacs"}.get(argument, argument)
    if wanted not in EDITING_MODES:
        return usage_notice("vim", f"unknown argument {argument!r}")
    return _use_on_screen(controller, "editing", wanted)


def _use_on_screen(controller: Controller, name: Literal["theme", "editing"], value: str) -> Notice:
    """Change a setting of the screen, here and in the settings file. Raises ConfigError and OSError.

    The menus and /config read its current value from the config.
    """
    controller.emit(ScreenSetting(name, value))
    config = controller.setup.config
    path = config.settings_path
    config = replace(config, **{name: value, "origins": {**config.origins, name: str(path)}})
    controller.setup = replace(controller.setup, config=config)
    write_setting(path, name, value)
    return Notice(f'wrote {name} = "{value}" to {path}')


async def choose_editing(controller: Controller, value: str) -> Event | None:
    """Switch to the named keys; without a name, choose them from a menu."""
    if not value and controller.chooser is not None:
        menu = question_menu("Use the keys of which editor?", emacs="Emacs", vim="vim")
        if (row := await controller.chooser.choose(menu)) is None:
            return None
        value = row.value
    return await set_editing(controller, value)
