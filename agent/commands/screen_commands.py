"""Commands about the screen, /theme and /vim: they tell the face, and one without a screen does nothing."""

from __future__ import annotations

from dataclasses import replace

from agent.app.controller import Controller
from agent.app.options import EDITING_MODES, THEMES
from agent.events import Event, Notice, ScreenSetting
from agent.menus import question_menu

from .setting_menus import theme_menu


async def set_theme(controller: Controller, argument: str) -> Event | None:
    """Change the colours of this session. Takes auto, dark, light, ansi, colour-blind or \
colour-blind-light; without one, choose from a list. The setting `theme` keeps it."""
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
    """Edit with the keys of vim, or again with those of Emacs. Takes on or off; the setting `editing` \
keeps it."""
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
