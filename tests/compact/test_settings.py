"""Settings have names that tell what they limit, and the former names still work."""

import tomllib
from dataclasses import fields

import pytest

from compact.settings import (
    FORMER_NAMES,
    POLICY_NAMES,
    RETIRED_NAMES,
    CompactSettings,
    current_names,
    settings_from,
)

DEFAULTS = {field.name: field.default for field in fields(CompactSettings)}


def test_an_empty_table_gives_the_defaults():
    assert settings_from({}) == CompactSettings()
    assert CompactSettings().policy == POLICY_NAMES[0] == "thrifty"


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_setting_can_be_set_under_its_name(name):
    values = {str: "classic", bool: False, int: 7, float: 0.5, tuple: ("grep",), type(None): 9}
    value = values[type(DEFAULTS[name])]
    assert getattr(settings_from({name: value}), name) == value


@pytest.mark.parametrize("former", FORMER_NAMES)
def test_a_former_name_works_and_is_warned_of_with_the_new_one(former):
    name = FORMER_NAMES[former]
    assert settings_from({former: 7}) == settings_from({name: 7})
    assert former not in DEFAULTS
    assert current_names({former: 7}) == ({name: 7}, (f"[compact] {former} is now called {name}",))


def test_a_table_with_both_names_keeps_the_value_under_the_new_one():
    for table in ({"keep_cap": 1, "max_record_tokens": 2}, {"max_record_tokens": 2, "keep_cap": 1}):
        assert settings_from(table).max_record_tokens == 2


@pytest.mark.parametrize("retired", sorted(RETIRED_NAMES))
def test_a_retired_name_has_no_effect_and_is_warned_of(retired):
    assert settings_from({retired: 7}) == CompactSettings()
    assert current_names({retired: 7}) == ({}, (f"[compact] {retired} has no effect any more",))


def test_names_in_use_are_not_warned_of():
    assert current_names({"trigger": 1}) == ({"trigger": 1}, ())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("snip_hed_messages", "; did you mean snip_head_messages?"),
        ("keep_kap", "; did you mean max_record_tokens?"),
        ("zzz", ""),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest_and_ignored(name, hint):
    table = {name: "what you like", "trigger": 7}
    assert current_names(table) == ({"trigger": 7}, (f"[compact] {name} is unknown{hint}; ignored",))
    assert settings_from(table) == CompactSettings(trigger=7)


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("policy = 'frugal'", "[compact] policy must be one of thrifty, classic, off, not 'frugal'"),
        ("enabled = 1", "[compact] enabled must be true or false, not 1"),
        ("trigger = 1.5", "[compact] trigger must be a whole number that is not negative, not 1.5"),
        ("trigger = true", "[compact] trigger must be a whole number that is not negative, not True"),
        ("trigger = -1", "[compact] trigger must be a whole number that is not negative, not -1"),
        ("trigger_max_share = 'a'", "[compact] trigger_max_share must be a number that is not negative"),
        ("trigger_max_share = -0.1", "[compact] trigger_max_share must be a number that is not negative"),
        ("budget_exempt = 'read'", "[compact] budget_exempt must be a list of tool names, not 'read'"),
        ("budget_exempt = [1]", "[compact] budget_exempt must be a list of tool names, not [1]"),
        ("keep_cap = 'x'", "[compact] keep_cap must be a whole number"),
    ],
)
def test_a_wrong_value_is_told_with_the_key_and_what_it_takes(toml, told):
    with pytest.raises(ValueError) as error:
        settings_from(tomllib.loads(toml))
    assert told in str(error.value)


def test_whole_numbers_are_taken_for_shares():
    made = settings_from({"trigger_max_share": 1})
    assert made.trigger_max_share == 1.0 and isinstance(made.trigger_max_share, float)


def test_only_policy_off_and_disabled_keep_compactions_from_happening_unasked():
    automatic = {policy: CompactSettings(policy=policy).automatic for policy in POLICY_NAMES}
    assert automatic == {"thrifty": True, "classic": True, "off": False}
    assert not CompactSettings(enabled=False).automatic
