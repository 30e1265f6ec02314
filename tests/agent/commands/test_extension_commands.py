"""/skills, /trust and /hooks in a project that defines extensions, and menus of models and settings."""

import json
from pathlib import Path

from agent.commands.setting_menus import (
    SettingRow,
    effort_menu,
    mode_words,
    model_menu,
    settings_menu,
    theme_menu,
)
from agent.menus import MenuRow
from agent.model_port import ModelCatalog, ModelFacts

from .controller_run import ControllerRun, ScriptedChooser, run_controller

DEPLOY = """---
name: deploy
description: Deploys it.
argument-hint: TARGET
allowed-tools: Bash(make:*)
context: fork
agent: general
model: haiku
effort: low
disable-model-invocation: true
---
Run !`make` now."""
NOTES = "---\nname: notes\ndescription: Takes notes.\nuser-invocable: false\n---\nWrite it down."
SETTINGS = {
    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]},
    "env": {"COLOUR": "red"},
    "model": "haiku",
}


def make_project(folder: Path) -> Path:
    """Define two skills, a hook, a variable and a model. Returns the directory of the skills."""
    skills = folder / ".claude" / "skills"
    for name, text in {"deploy": DEPLOY, "notes": NOTES}.items():
        (skills / name).mkdir(parents=True)
        (skills / name / "SKILL.md").write_text(text)
    (folder / ".claude" / "settings.json").write_text(json.dumps(SETTINGS))
    return skills


def states(text: str) -> list[str]:
    """Return the state of each item in the order of the list."""
    lines = [line.split() for line in text.splitlines() if line.startswith("  ")]
    return [f"{words[1]} {words[0]}" for words in lines]


def test_the_extensions_of_a_project_are_listed_explained_and_enabled(tmp_path: Path) -> None:
    skills = make_project(tmp_path)

    async def work(run: ControllerRun) -> None:
        parts = "allows Bash(make:*), uses the model haiku, runs make"
        assert await run.do("/skills") == (
            "2 commands and skills\n"
            "  /deploy  project  skill    TARGET · Deploys it.\n"
            "   notes   project  skill    Takes notes.\n"
            "not approved, so their commands and permissions are disabled (see /trust):\n"
            f"  skill  /deploy  {parts}"
        )
        assert await run.do("/skills deploy") == (
            "/deploy (project skill)\n"
            "  purpose Deploys it.\n"
            "  takes   TARGET\n"
            "  allows  Bash(make:*)\n"
            "  model   haiku low\n"
            "  runs    in its own session general\n"
            "  for     you only\n"
            f"  file    {skills}/deploy/SKILL.md"
        )
        assert await run.do("/help notes") == (
            "notes (project skill)\n  purpose Takes notes.\n  for     the model only\n"
            f"  file    {skills}/notes/SKILL.md"
        )
        assert "disabled until approved (see /trust): 1 hook" in await run.do("/hooks")
        assert "unknown argument 'some' (usage: /trust [all | none])" in await run.do("/trust some")
        undecided = ["environment undecided", "model undecided", "hook undecided", "skill undecided"]
        assert states(await run.do("/trust")) == undecided
        run.controller.chooser = ScriptedChooser("")
        assert await run.do("/trust") == "no changes"
        run.controller.chooser = ScriptedChooser("1", "0")
        text = await run.do("/trust")
        assert text.startswith("run /clear to use the variables in a new session\n  ")
        assert states(text) == ["environment enabled", *undecided[1:]]
        run.controller.chooser = ScriptedChooser("1", "2", "3", "4", "0")
        text = await run.do("/trust")
        assert "the new model is used after a restart; /model changes it now\n" in text
        assert states(text) == ["environment disabled", "model enabled", "hook enabled", "skill enabled"]
        text = await run.do("/hooks")
        assert text.startswith("Stop  *  true  (") and "until approved" not in text
        assert "not approved" not in await run.do("/skills")
        assert {state.split()[1] for state in states(await run.do("/trust none"))} == {"disabled"}

    run_controller(tmp_path, work)


ONE = ModelFacts("one", window=100_000, max_output=8_000)
TWO = ModelFacts("two", window=200_000, max_output=16_000, retires_on="2030-01-31")
THREE = ModelFacts("three")


def shown(rows: tuple[MenuRow, ...]) -> list[tuple[str, ...]]:
    return [(row.title, *row.facts) for row in rows]


def test_the_menu_of_models_marks_the_current_one_and_leads_with_the_short_names() -> None:
    catalog = ModelCatalog("one", {"a": "one", "b": "two"}, (ONE, TWO))
    first = ("a", "current", "one", "window 100k", "max output 8.0k")
    second = ("b", "two", "window 200k", "max output 16k", "retires on 2030-01-31")
    menu = model_menu(catalog, ONE)
    assert (shown(menu.rows), menu.at) == ([first, second], 0)

    many = ModelCatalog("one", {"a": "one", "b": "two"}, (ONE, TWO, THREE))
    assert shown(model_menu(many, ONE).rows) == [first, second]  # others have to be typed

    of_a_server = model_menu(many, ModelFacts("own", window=32_000, max_output=4_000), ("own", "two", "new"))
    assert shown(of_a_server.rows) == [
        second,
        ("own", "current", "window 32k", "max output 4.0k"),
        ("new",),
    ]
    assert of_a_server.at == 1

    few = ModelCatalog("one", {"a": "one", "b": "two", "c": "old"}, (ONE, TWO, THREE))
    assert [row.value for row in model_menu(few, ONE).rows] == ["one", "two", "old", "three"]


def test_the_menus_of_settings_mark_what_is_in_force() -> None:
    effort = effort_menu("low")
    assert [row.value for row in effort.rows if "current" in row.facts] == ["low"]
    assert effort.rows[effort.at].value == "low"
    unset = effort_menu(None)
    assert unset.rows[unset.at].value == "high" and not [row for row in unset.rows if "current" in row.facts]
    theme = theme_menu("light")
    assert theme.rows[theme.at].value == "light" and theme.rows[theme.at].facts[0] == "current"
    rows = [SettingRow("theme", "dark", "default"), SettingRow("max_turns", "7", "--max-turns")]
    assert [row.title for row in settings_menu(rows).rows] == [
        "theme      dark",
        "max_turns  7  (--max-turns)",
    ]
    assert mode_words("manual", sandbox=True).endswith("before running a command outside the sandbox")
    assert mode_words("manual", sandbox=False).endswith("before commands that are not read-only")
    assert mode_words("plan", sandbox=False) == mode_words("plan", sandbox=True)
