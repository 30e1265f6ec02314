"""The commands that need no session: /help, and /theme and /vim, which tell the face.

What they import is loaded when the prompt is painted, or soon after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agent.app import EDITING_MODES, THEMES
from agent.events import CommandOutput, Event, Notice, ScreenSetting
from agent.extensions.skills import Skill, SkillLibrary
from agent.formatting import shorten, with_keys
from agent.menus import question_menu

from .running import unknown
from .setting_menus import theme_menu
from .table import COMMANDS, Command, find_command

if TYPE_CHECKING:
    from agent.app import Controller

SHORT_KEY_HELP = (
    "  {submit} sends, \\ and {submit} begins a new line, Up brings earlier prompts back",
    "  @ names a file, ! runs a command of yours, / lists commands as you type",
    "  Esc or {interrupt} stops a turn; Esc Esc goes back to before an earlier prompt",
    "  {mode} changes what you are asked about; {outputs} shows outputs whole",
    "  {interrupt} twice leaves; makeroom -c goes on from there",
)
MORE_HELP = "More: /help commands, /help keys, /help room (one line of these), /help compact"
MAX_OWN_NAMES_CHARS = 66  # of the commands that people bring, in short: with their line they fit 80 columns
HELP_SECTIONS: Mapping[str, str] = {  # lines of the help in short, and the commands in each
    "session": "clear resume sessions rewind fork rename export copy exit",
    "room": "context compact uncompact recall search drop pin",
    "work": "init plan todo diff memory tasks background publish add-dir",
    "choices": "model effort permissions sandbox config theme vim",
    "extras": "skills agents mcp hooks trust",
    "state": "help status cost doctor bug",
}
KEY_HELP = (
    "{submit} sends; {newline} or \\ {submit} starts a new line",
    "{interrupt} or Esc interrupts a turn; {interrupt} twice leaves; {leave} on an empty line leaves",
    "Esc Esc on an empty line goes back (/rewind); {mode} changes the permission mode",
    "Up and Ctrl-R find earlier prompts; {complete} completes; @ names a file",
    "{image} takes the image on the clipboard; the path of an image, dropped or pasted, takes that",
    "{stash} puts a draft away or takes it back",
    "{background} has the running command go on in the background; {tasks} shows those that do",
    "!command runs a command of yours and shows it to the model; !!command only to you",
    "{outputs} prints the turn's outputs whole, and those to come, and again in short",
    "{editor} opens your editor; {redraw} redraws; {suspend} suspends",
    "{model} chooses the model; {effort} chooses the effort",
)
MAX_SUMMARY_CHARS = 75  # shown of a command or skill in a list


async def show_help(controller: Controller, argument: str) -> Event | None:
    """/help."""
    library = controller.services.skills
    name = argument.removeprefix("/").lower()
    if (command := find_command(name)) is not None:
        return CommandOutput(f"/{command.name}: {command.help}")
    if name in HELP_SECTIONS:
        return CommandOutput("\n".join(_summary_lines(section_commands(name))))
    if name == "keys":
        keys = controller.setup.key_names
        own = [f"{key} runs {line}" for line, key in keys.items() if line.startswith("/") and key]
        return CommandOutput("\n".join([*filter(None, (with_keys(line, keys) for line in KEY_HELP)), *own]))
    if name == "commands":
        own = [f"  {line}" for line in typed_lines(library)]
        theirs = ["", "Yours and the project's", *own] if own else []
        return CommandOutput("\n".join([*_summary_lines(COMMANDS), *theirs]))
    if name:
        skill = library.find(name)
        return CommandOutput(skill_help(skill)) if skill is not None else unknown(controller, name)
    width = max(map(len, HELP_SECTIONS))
    lines = [
        f"  {section:<{width}}  {' '.join(f'/{each.name}' for each in section_commands(section))}"
        for section in HELP_SECTIONS
    ]
    short = [with_keys(line, controller.setup.key_names) for line in SHORT_KEY_HELP]
    if names := " ".join(f"/{each.name}" for each in library.for_people()):
        lines.append(f"  {'yours':<{width}}  {shorten(names, MAX_OWN_NAMES_CHARS)}")
    return CommandOutput("\n".join(["Keys", *short, "Commands", *lines, MORE_HELP]))


def section_commands(name: str) -> list[Command]:
    """The commands of a line of the help; the last has those that are in no other."""
    named = {word for words in HELP_SECTIONS.values() for word in words.split()}
    found = [command for word in HELP_SECTIONS[name].split() if (command := find_command(word)) is not None]
    others = [each for each in COMMANDS if each.name not in named] if name == list(HELP_SECTIONS)[-1] else []
    return [*found, *others]


def _summary_lines(commands: Sequence[Command]) -> list[str]:
    width = max(len(command.name) for command in commands)
    return [f"  /{command.name:<{width}}  {command.summary}" for command in commands]


def typed_lines(library: SkillLibrary) -> list[str]:
    """A line for each that can be typed."""
    skills = library.for_people()
    width = max((len(one.name) for one in skills), default=0)
    return [f"/{one.name:<{width}}  {shorten(one.summary, MAX_SUMMARY_CHARS)}" for one in skills]


def skill_help(skill: Skill) -> str:
    """All about one."""
    only = ""
    if not (skill.for_model and skill.for_user):
        only = "you" if skill.for_user else "the model"
    facts = {
        "for": skill.description,
        "takes": skill.hint or " ".join(skill.arguments),
        "allows": ", ".join(skill.allowed_tools),
        "model": " ".join(filter(None, (skill.model, skill.effort))),
        "runs": f"in a session of its own {skill.agent}".strip() if skill.forks else "",
        "only": only,
        "file": str(skill.path),
    }
    name = f"/{skill.name}" if skill.for_user else skill.name
    lines = (f"  {label:<7} {text}" for label, text in facts.items() if text)
    return "\n".join((f"{name}: a {skill.kind} of the {skill.origin}", *lines))


async def set_theme(controller: Controller, argument: str) -> Event | None:
    """/theme."""
    if not argument and controller.chooser is not None:
        row = await controller.chooser.choose(theme_menu(controller.setup.config.theme))
        if row is None:
            return None
        argument = row.value
    if argument not in THEMES:
        return Notice(f"the themes are {', '.join(THEMES)}", "warning")
    controller.emit(ScreenSetting("theme", argument))
    config = controller.setup.config  # where the menu and /config look for what is in force
    config = replace(config, theme=argument, origins={**config.origins, "theme": "/theme"})
    controller.setup = replace(controller.setup, config=config)
    path = controller.setup.config.user_dir / "settings.toml"
    return Notice(f'theme = "{argument}" in {path} keeps it')


async def set_editing(controller: Controller, argument: str) -> Event | None:
    """/vim."""
    config = controller.setup.config
    other = "emacs" if config.editing == "vim" else "vim"
    wanted = {"": other, "on": "vim", "off": "emacs"}.get(argument, argument)
    if wanted not in EDITING_MODES:
        return Notice("/vim takes on or off", "warning")
    config = replace(config, editing=wanted, origins={**config.origins, "editing": "/vim"})
    controller.setup = replace(controller.setup, config=config)
    return ScreenSetting("editing", wanted)


async def choose_editing(controller: Controller, value: str) -> Event | None:
    """Edit with the keys that are named; without a name, choose them."""
    if not value and controller.chooser is not None:
        menu = question_menu("The keys of which editor?", emacs="those of Emacs", vim="those of vim")
        if (row := await controller.chooser.choose(menu)) is None:
            return None
        value = row.value
    return await set_editing(controller, value)
